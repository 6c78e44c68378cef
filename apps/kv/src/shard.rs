//! A shard: the keys of one core.

use std::collections::BTreeSet;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::RawEntryMut;
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Place, Result};

use crate::resp;

/// Bytes that a key takes beside its own and its value's, about: the entry in the map, and two
/// blocks of memory.
const ENTRY: usize = 96;
/// Bytes that an entry takes for the time at which it expires.
const DUE: usize = 64;
/// Keys that go at one look, at most: others wait meanwhile.
const GO: usize = 256;

/// Refusal of a value that would take more memory than there may be.
const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// One core's keys.
#[derive(Debug)]
pub struct Shard {
    keys: HashMap<Box<[u8]>, Entry, RandomState>,
    /// Keys that go, and when.
    due: BTreeSet<(u64, Box<[u8]>)>,
    bytes: usize,
    limit: usize,
}

#[derive(Debug)]
struct Entry {
    value: Box<[u8]>,
    /// When it goes, ms; 0: never.
    goes_at: u64,
}

/// An operation on one key, whose bytes are borrowed or owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op<B> {
    /// The value.
    Get(B),
    /// Sets a value.
    Set {
        /// Which key.
        key: B,
        /// The value.
        value: B,
        /// When it goes, ms; 0: never.
        goes_at: u64,
        /// Whether it is set.
        when: When,
    },
    /// Takes a key away; how many went.
    Del(B),
    /// Whether it is there, as a number.
    Exists(B),
    /// Sets when it goes, ms; whether it is there.
    Expire(B, u64),
    /// For how long it stays, ms in so many parts; -1 for ever, -2 if it is not there.
    Ttl(B, u64),
    /// Adds to a number.
    Incr(B, i64),
    /// How many keys there are.
    Count,
    /// Takes all away.
    Clear,
}

impl<B: AsRef<[u8]>> Op<B> {
    /// Its key; none of what is for all of them.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Op::Get(key) | Op::Del(key) | Op::Exists(key) => Some(key.as_ref()),
            Op::Expire(key, _) | Op::Ttl(key, _) => Some(key.as_ref()),
            Op::Incr(key, _) | Op::Set { key, .. } => Some(key.as_ref()),
            Op::Count | Op::Clear => None,
        }
    }
}

impl Op<&[u8]> {
    /// Copies its bytes, so that it can be sent.
    pub fn sent(self) -> Op<Box<[u8]>> {
        match self {
            Op::Get(key) => Op::Get(key.into()),
            Op::Del(key) => Op::Del(key.into()),
            Op::Exists(key) => Op::Exists(key.into()),
            Op::Expire(key, at) => Op::Expire(key.into(), at),
            Op::Ttl(key, part) => Op::Ttl(key.into(), part),
            Op::Incr(key, by) => Op::Incr(key.into(), by),
            Op::Set { key, value, goes_at, when } => {
                Op::Set { key: key.into(), value: value.into(), goes_at, when }
            }
            Op::Count => Op::Count,
            Op::Clear => Op::Clear,
        }
    }
}

/// On which condition a value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// None.
    Always,
    /// If the key is not there.
    Absent,
    /// If it is.
    Present,
}

impl Kind for Shard {
    const NAME: &'static str = "shard";
    /// Bytes that it may hold.
    type Spec = usize;
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create(limit: usize, (): &mut ()) -> Result<Shard> {
        Ok(Shard::new(limit))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About { state: format!("{} keys", self.keys.len()), bytes: self.bytes as u64 }
    }
}

impl Shard {
    /// An empty one, of so many bytes at most.
    pub fn new(limit: usize) -> Shard {
        Shard { keys: HashMap::default(), due: BTreeSet::new(), bytes: 0, limit }
    }

    /// Bytes that it holds, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Runs an operation at this time, ms, and writes its answer.
    pub fn run<B: AsRef<[u8]> + Into<Box<[u8]>>>(
        &mut self,
        op: Op<B>,
        now: u64,
        out: &mut Vec<u8>,
    ) {
        match op {
            Op::Get(key) => match self.live(key.as_ref(), now) {
                Some(entry) => resp::bulk(out, &entry.value),
                None => resp::nothing(out),
            },
            Op::Set { key, value, goes_at, when } => self.set(key, value, goes_at, when, now, out),
            Op::Del(key) => {
                let is_live = self.live(key.as_ref(), now).is_some();
                self.remove(key.as_ref());
                resp::integer(out, is_live.into());
            }
            Op::Exists(key) => resp::integer(out, self.live(key.as_ref(), now).is_some().into()),
            Op::Expire(key, at) => {
                let is_live = self.live(key.as_ref(), now).is_some();
                match is_live {
                    true if at <= now => self.remove(key.as_ref()),
                    true => self.goes(key.as_ref(), at),
                    false => (),
                }
                resp::integer(out, is_live.into());
            }
            Op::Ttl(key, part) => {
                let left = self.live(key.as_ref(), now).map(|entry| entry.goes_at);
                let left = match left {
                    None => -2,
                    Some(0) => -1,
                    Some(at) => ((at - now).div_ceil(part.max(1))) as i64,
                };
                resp::integer(out, left);
            }
            Op::Incr(key, by) => self.incr(key, by, now, out),
            Op::Count => resp::integer(out, self.keys.len() as i64),
            Op::Clear => {
                *self = Shard::new(self.limit);
                resp::simple(out, "OK");
            }
        }
    }

    fn live(&self, key: &[u8], now: u64) -> Option<&Entry> {
        self.keys.get(key).filter(|entry| entry.goes_at == 0 || entry.goes_at > now)
    }

    fn set<B: AsRef<[u8]> + Into<Box<[u8]>>>(
        &mut self,
        key: B,
        value: B,
        goes_at: u64,
        when: When,
        now: u64,
        out: &mut Vec<u8>,
    ) {
        if when != When::Always {
            let is_live = self.live(key.as_ref(), now).is_some();
            if is_live != (when == When::Present) {
                return resp::nothing(out);
            }
        }
        let (key_bytes, bytes) = (key.as_ref().len(), value.as_ref().len());
        match self.keys.raw_entry_mut().from_key(key.as_ref()) {
            RawEntryMut::Occupied(mut occupied) => {
                let entry = occupied.get_mut();
                let held = self.bytes - entry.value.len() + bytes;
                if held > self.limit && bytes > entry.value.len() {
                    return resp::error(out, FULL);
                }
                self.bytes = held;
                if entry.value.len() == bytes {
                    entry.value.copy_from_slice(value.as_ref());
                } else {
                    entry.value = value.into();
                }
                if entry.goes_at != goes_at {
                    self.goes(key.as_ref(), goes_at);
                }
            }
            RawEntryMut::Vacant(vacant) => {
                let held = self.bytes + ENTRY + key_bytes + bytes;
                if held > self.limit {
                    return resp::error(out, FULL);
                }
                self.bytes = held;
                let its = if goes_at == 0 { None } else { Some(key.as_ref().to_vec()) };
                vacant.insert(key.into(), Entry { value: value.into(), goes_at: 0 });
                if let Some(its) = its {
                    self.goes(&its, goes_at);
                }
            }
        }
        resp::simple(out, "OK");
    }

    fn incr<B: AsRef<[u8]> + Into<Box<[u8]>>>(
        &mut self,
        key: B,
        by: i64,
        now: u64,
        out: &mut Vec<u8>,
    ) {
        let live = self.live(key.as_ref(), now);
        let goes_at = live.map_or(0, |entry| entry.goes_at);
        let Some(old) = live.map_or(Some(0), |entry| resp::number(&entry.value)) else {
            return resp::error(out, "ERR value is not an integer or out of range");
        };
        let Some(sum) = old.checked_add(by) else {
            return resp::error(out, "ERR increment or decrement would overflow");
        };
        let mut told = Vec::new();
        let value: Box<[u8]> = sum.to_string().into_bytes().into();
        let key: Box<[u8]> = key.into();
        self.set(key, value, goes_at, When::Always, now, &mut told);
        if told.first() == Some(&b'-') {
            out.append(&mut told);
        } else {
            resp::integer(out, sum);
        }
    }

    /// Notes when a key that is there goes; 0: never.
    fn goes(&mut self, key: &[u8], at: u64) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        if entry.goes_at != 0 && self.due.remove(&(entry.goes_at, key.into())) {
            self.bytes -= DUE + key.len();
        }
        entry.goes_at = at;
        if at != 0 && self.due.insert((at, key.into())) {
            self.bytes += DUE + key.len();
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(Entry { value, goes_at }) = self.keys.remove(key) {
            self.bytes -= ENTRY + key.len() + value.len();
            if goes_at != 0 && self.due.remove(&(goes_at, key.into())) {
                self.bytes -= DUE + key.len();
            }
        }
    }

    /// Takes keys away whose time has come; when the next one's comes, ms.
    pub fn clean(&mut self, now: u64) -> Option<u64> {
        for _ in 0..GO {
            match self.due.first() {
                Some((at, key)) if *at <= now => {
                    let key = key.clone();
                    self.remove(&key);
                }
                next => return next.map(|(at, _)| *at),
            }
        }
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn run(shard: &mut Shard, op: Op<&[u8]>, now: u64) -> String {
        let mut out = Vec::new();
        shard.run(op, now, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn set(key: &'static str, value: &'static str, goes_at: u64) -> Op<&'static [u8]> {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        Op::Set { key, value, goes_at, when: When::Always }
    }

    #[test]
    fn what_has_gone_is_nowhere() {
        let mut shard = Shard::new(10_000);
        run(&mut shard, set("a", "1", 100), 0);
        run(&mut shard, set("b", "2", 0), 0);
        assert_eq!(run(&mut shard, Op::Ttl(b"a", 1), 40), ":60\r\n");
        assert_eq!(run(&mut shard, Op::Ttl(b"b", 1), 40), ":-1\r\n");
        assert_eq!(run(&mut shard, Op::Get(b"a"), 100), "$-1\r\n");
        assert_eq!(run(&mut shard, Op::Exists(b"a"), 100), ":0\r\n");
        assert_eq!(run(&mut shard, Op::Incr(b"a", 5), 100), ":5\r\n");
        assert_eq!(run(&mut shard, Op::Ttl(b"a", 1), 100), ":-1\r\n", "another one");
        assert_eq!(run(&mut shard, Op::Expire(b"b", 300), 100), ":1\r\n");
        assert_eq!(shard.clean(299), Some(300));
        assert_eq!(shard.clean(300), None);
        assert_eq!(run(&mut shard, Op::Count, 300), ":1\r\n");
        assert_eq!(run(&mut shard, Op::Del(b"a"), 300), ":1\r\n");
        assert_eq!((shard.bytes(), shard.due.len()), (0, 0));
    }

    #[test]
    fn memory_is_bounded_and_what_is_there_stays() {
        let mut shard = Shard::new(1000);
        let value: &'static str = "a".repeat(600).leak();
        assert_eq!(run(&mut shard, set("a", value, 0), 0), "+OK\r\n");
        assert!(run(&mut shard, set("b", value, 0), 0).starts_with("-OOM"));
        assert!(run(&mut shard, Op::Incr(b"c", 1), 0).starts_with(":1"));
        assert!(run(&mut shard, set("c", value, 0), 0).starts_with("-OOM"));
        assert_eq!(run(&mut shard, Op::Get(b"c"), 0), "$1\r\n1\r\n");
        assert_eq!(run(&mut shard, set("a", "small", 0), 0), "+OK\r\n");
        assert_eq!(run(&mut shard, set("b", "b", 0), 0), "+OK\r\n");
    }

    proptest! {
        #[test]
        fn it_is_a_map_and_counts_its_bytes(steps in prop::collection::vec((0..6_u8, 0..5_u8, 0..60_u64), 0..200)) {
            let mut shard = Shard::new(1 << 20);
            let mut model: BTreeMap<String, (i64, u64)> = BTreeMap::new();
            // From one on, as a server counts: nought is never.
            let mut now = 1;
            for (what, key, number) in steps {
                let key = format!("key{key}");
                let bytes = key.as_bytes();
                model.retain(|_, (_, at)| *at == 0 || *at > now);
                match what {
                    0 => {
                        let value = number.to_string();
                        let goes_at = if number % 3 == 0 { 0 } else { now + number };
                        let op = Op::Set { key: bytes, value: value.as_bytes(), goes_at, when: When::Always };
                        prop_assert_eq!(run(&mut shard, op, now), "+OK\r\n");
                        model.insert(key, (number as i64, goes_at));
                    }
                    1 => {
                        let sum = model.get(&key).map_or(0, |(sum, _)| *sum) + number as i64;
                        prop_assert_eq!(run(&mut shard, Op::Incr(bytes, number as i64), now), format!(":{sum}\r\n"));
                        let at = model.get(&key).map_or(0, |(_, at)| *at);
                        model.insert(key, (sum, at));
                    }
                    2 => {
                        let there = model.remove(&key).is_some();
                        prop_assert_eq!(run(&mut shard, Op::Del(bytes), now), format!(":{}\r\n", i32::from(there)));
                    }
                    3 => {
                        let there = model.contains_key(&key);
                        let at = now + number;
                        prop_assert_eq!(run(&mut shard, Op::Expire(bytes, at), now), format!(":{}\r\n", i32::from(there)));
                        if there {
                            model.get_mut(&key).unwrap().1 = at;
                            model.retain(|_, (_, at)| *at == 0 || *at > now);
                        }
                    }
                    4 => now += number,
                    _ => {
                        let expected = model.get(&key).map(|(value, _)| value.to_string());
                        let expected = expected.map_or("$-1\r\n".to_owned(), |v| format!("${}\r\n{v}\r\n", v.len()));
                        prop_assert_eq!(run(&mut shard, Op::Get(bytes), now), expected);
                    }
                }
                if what == 4 {
                    shard.clean(now);
                }
            }
            shard.clean(now);
            for key in model.keys() {
                run(&mut shard, Op::Del(key.as_bytes()), now);
            }
            while shard.clean(u64::MAX).is_some() {}
            prop_assert_eq!((shard.bytes(), shard.keys.len(), shard.due.len()), (0, 0, 0));
        }
    }
}
