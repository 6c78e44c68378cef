//! A client's lease at a place, and the answers that are kept for it.
//!
//! Source: Lee, Park, Kejriwal, Matsushita, Ousterhout, "Implementing Linearizability at Large
//! Scale and Low Latency" (RIFL), SOSP 2015: a request carries its client's lease, its serial
//! and the first serial whose answer the client has not seen; the server keeps the answer of
//! each request from there on, and gives that instead of running a repeated one again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Error, Id, Place, Result};

use crate::part::Durable;
use crate::wire::{MOST_OPEN, Outcome, Refusal, Why};

/// Answers that are kept for one client, at most.
pub const MOST_RECORDS: usize = 8192;
/// Leases of one place, at most: for one more the least recently used one is evicted.
pub const MOST_LEASES: usize = 1 << 16;
/// Leases of one place that were not used yet, at most: for one more the oldest of them goes.
pub const MOST_UNUSED: usize = 1024;
/// Bytes of answers that one place keeps for one client, at most.
pub const MOST_BYTES_OF_ONE: usize = MOST_BYTES / 4;
/// Bytes of answers that one place keeps for all its clients, at most.
pub const MOST_BYTES: usize = 64 << 20;

/// Operations of one client that were refused for want of room, and are known not to run for that, at most.
const MOST_REFUSED: usize = MOST_RECORDS;
/// Refused operations of all clients of one place, at most.
const MOST_REFUSED_OF_ALL: usize = 1 << 20;

/// Bytes that a record takes beside its answer, about.
const RECORD: usize = 96;

/// A client's lease at a place: a resource like others, so that `ls` shows who calls.
///
/// An interface that is served has this kind, and nobody makes one but the place itself.
#[derive(Debug)]
pub struct Lease {
    key: u64,
    /// The client has seen all answers before this one, but those of `open`.
    first: u64,
    /// Ranges before it whose answers the client has not seen, first and count.
    open: Vec<(u64, u64)>,
    records: BTreeMap<u64, Outcome>,
    /// Operations that have begun and block, each on a thread of its own.
    running: BTreeSet<u64>,
    /// Operations that were refused for want of room: a copy of one that comes later does not run either.
    refused: BTreeSet<u64>,
    bytes: usize,
    seen: Instant,
    /// True if something that is allowed has begun under it.
    used: bool,
    /// True if it was seen since the last search for one to evict.
    fresh: bool,
    /// True if a durable place's log has it.
    noted: bool,
    /// Its client's name, for that log.
    client: Option<Box<str>>,
}

/// A lease is kept by its secret; what is kept for it stands beside it.
impl Durable for Lease {
    type State = u64;

    fn state(&self) -> u64 {
        self.key
    }

    fn restored(key: u64, pool: &mut LeasePool) -> Result<Lease> {
        Lease::create(key, pool).map(|lease| Lease { noted: true, ..lease })
    }
}

/// All leases of a place.
#[derive(Debug, Default)]
pub struct LeasePool {
    leases: usize,
    bytes: usize,
    /// Operations that were refused for want of room.
    refused: usize,
    /// Leases that were not used yet, the oldest first, and those that were. Some have ended, and some of the first have
    /// been used, since.
    idle: VecDeque<Id>,
    used: VecDeque<Id>,
}

/// Queues of a place's leases, in which they wait to be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseQueue {
    /// Leases under which nothing that is allowed has begun.
    Unused,
    /// The others.
    Used,
}

/// Reason against an operation, or its answer without running it.
#[derive(Debug, PartialEq)]
pub enum Before {
    /// The request has not run, and may.
    New,
    /// The request has run: its answer.
    Ran(Outcome),
    /// The request has begun, and blocks.
    Runs,
    /// The request is not to run.
    Refused(Refusal),
}

impl Kind for Lease {
    const NAME: &'static str = "lease";
    type Spec = u64;
    type Pool = LeasePool;

    fn pool(_: Place) -> Result<LeasePool> {
        Ok(LeasePool::default())
    }

    fn create(key: u64, pool: &mut LeasePool) -> Result<Lease> {
        if pool.leases >= MOST_LEASES {
            let text = format!(
                "{MOST_LEASES} clients have leases here, which is the limit: those that are gone \
                 lose theirs within a minute"
            );
            return Err(Error::Kind { kind: Self::NAME, text });
        }
        pool.leases += 1;
        kumiki_sys::event!(leases = pool.leases, "a client has a lease");
        let (records, running, refused) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let seen = Instant::now();
        let (first, open) = (1, Vec::new());
        let (used, fresh, noted, client) = (false, true, false, None);
        let bytes = 0;
        Ok(Lease {
            key,
            first,
            open,
            records,
            running,
            refused,
            bytes,
            seen,
            used,
            fresh,
            noted,
            client,
        })
    }

    fn destroy(self, pool: &mut LeasePool) {
        pool.leases -= 1;
        kumiki_sys::event!(leases = pool.leases, "a lease has ended");
        pool.bytes -= self.bytes;
        pool.refused -= self.refused.len();
    }

    fn about(&self) -> About {
        let state = match self.records.len() {
            1 => "1 answer kept".to_owned(),
            count => format!("{count} answers kept"),
        };
        About { state, bytes: self.bytes as u64 }
    }
}

impl Lease {
    /// Begins a request: its client lives, and has seen all answers before `first` but those of `open`. Nothing of
    /// somebody who does not know the key is believed.
    pub fn begin(
        &mut self,
        key: u64,
        first: u64,
        open: &[(u64, u64)],
        pool: &mut LeasePool,
    ) -> bool {
        if key != self.key {
            return false;
        }
        (self.seen, self.fresh) = (Instant::now(), true);
        // A request that has been overtaken, or is sent anew, carries an older one. What was seen stays seen.
        if first < self.first || (first == self.first && self.open.is_empty()) {
            return true;
        }
        let former = self.first;
        self.open = open
            .iter()
            .take(MOST_OPEN)
            .copied()
            .filter(|(at, count)| {
                let is_open = at.checked_add(*count).is_some_and(|end| end <= first);
                is_open && (*at >= former || self.open.contains(&(*at, *count)))
            })
            .collect();
        self.first = first;
        let kept = self.records.split_off(&first);
        let gone = std::mem::replace(&mut self.records, kept);
        for (serial, answer) in gone {
            if self.is_seen(serial) {
                let bytes = weight(&answer);
                self.bytes -= bytes;
                pool.bytes -= bytes;
            } else {
                self.records.insert(serial, answer);
            }
        }
        let seen: Vec<u64> =
            self.refused.range(..first).copied().filter(|serial| self.is_seen(*serial)).collect();
        seen.iter().for_each(|serial| _ = self.refused.remove(serial));
        pool.refused -= seen.len();
        true
    }

    /// True if the client has seen the answer, or needs it no more.
    fn is_seen(&self, serial: u64) -> bool {
        let is_in = |&(at, count): &(u64, u64)| serial >= at && serial - at < count;
        serial < self.first && !self.open.iter().any(is_in)
    }

    /// Tells what is known of operation `serial`, before it runs, and gives so many answers to keep.
    pub fn before(&self, serial: u64, answers: usize, pool: &LeasePool) -> Before {
        if let Some(answer) = self.records.get(&serial) {
            return Before::Ran(answer.clone());
        }
        if self.running.contains(&serial) {
            return Before::Runs;
        }
        if self.is_seen(serial) {
            let text = format!("operation {serial}: its client has given it up; it does not run");
            return Before::Refused(Refusal::new(Why::Forgotten, text));
        }
        if self.refused.contains(&serial) {
            let text = format!(
                "operation {serial} was refused for want of room, and does not run: ask for it anew"
            );
            return Before::Refused(Refusal::new(Why::Full, text));
        }
        let full = |what: String| {
            let text = format!("{what}: take answers first, or ask for less at a time");
            Before::Refused(Refusal::new(Why::Full, text))
        };
        if self.records.len() + self.running.len() + answers > MOST_RECORDS {
            return full(format!("{MOST_RECORDS} answers are kept for this client, the limit"));
        }
        if self.bytes >= MOST_BYTES_OF_ONE {
            let most = MOST_BYTES_OF_ONE;
            return full(format!("{most} bytes of answers are kept for this client, the limit"));
        }
        if pool.bytes >= MOST_BYTES {
            return full(format!(
                "{MOST_BYTES} bytes of answers are kept here, which is the limit"
            ));
        }
        Before::New
    }

    /// Notes an operation that is refused for want of room, so that no copy of it runs when there is some; false if there
    /// is no room for that either.
    #[must_use = "what is not noted may run later, and is not refused"]
    pub fn refuse(&mut self, serial: u64, pool: &mut LeasePool) -> bool {
        if self.refused.contains(&serial) {
            return true;
        }
        if self.refused.len() >= MOST_REFUSED || pool.refused >= MOST_REFUSED_OF_ALL {
            return false;
        }
        self.refused.insert(serial);
        pool.refused += 1;
        true
    }

    /// The answer of an operation, if it is kept.
    pub fn kept(&self, serial: u64) -> Option<Outcome> {
        self.records.get(&serial).cloned()
    }

    /// Notes an operation that has begun, and blocks.
    pub fn runs(&mut self, serial: u64) {
        self.running.insert(serial);
    }

    /// Keeps the answer of an operation that has blocked.
    pub fn ended(&mut self, serial: u64, answer: Outcome, pool: &mut LeasePool) {
        if self.running.contains(&serial) {
            self.keep(serial, answer, pool);
        }
    }

    /// Keeps the answer of an operation that has just run, if its client has not given it up meanwhile.
    pub fn keep(&mut self, serial: u64, answer: Outcome, pool: &mut LeasePool) {
        self.running.remove(&serial);
        if self.is_seen(serial) {
            return;
        }
        let bytes = weight(&answer);
        self.bytes += bytes;
        pool.bytes += bytes;
        // A call of a batch that blocks is looked at again with the others of it.
        if let Some(former) = self.records.insert(serial, answer) {
            let bytes = weight(&former);
            self.bytes -= bytes;
            pool.bytes -= bytes;
        }
    }

    /// Notes that it is used; whether it is for the first time.
    pub fn begins_to_be_used(&mut self) -> bool {
        !std::mem::replace(&mut self.used, true)
    }

    /// Names its client.
    pub fn of_client(&mut self, client: &str) {
        self.client = Some(client.into());
    }

    /// Notes that it is in the log; its secret and its client's name if that is new.
    pub fn begins_to_be_noted(&mut self) -> Option<(u64, Option<String>)> {
        let new = !std::mem::replace(&mut self.noted, true);
        new.then(|| (self.key, self.client.as_deref().map(str::to_owned)))
    }

    pub fn is_noted(&self) -> bool {
        self.noted
    }

    /// Serials that its client has seen: all before the first, but those of the ranges.
    pub fn seen(&self) -> (u64, Vec<(u64, u64)>) {
        (self.first, self.open.clone())
    }

    /// Has what was kept for its client in the place's former life.
    pub fn recall(
        &mut self,
        first: u64,
        open: Vec<(u64, u64)>,
        answers: BTreeMap<u64, Outcome>,
        pool: &mut LeasePool,
    ) {
        (self.first, self.open) = (first.max(self.first), open);
        for (serial, answer) in answers {
            self.keep(serial, answer, pool);
        }
    }

    /// True if it may be evicted for another client's: one that was never used, or that nothing is
    /// under way of and that was not seen since it was last asked this.
    pub fn may_go(&mut self, queue: LeaseQueue) -> bool {
        match queue {
            LeaseQueue::Unused => !self.used,
            LeaseQueue::Used => !std::mem::take(&mut self.fresh) && self.running.is_empty(),
        }
    }

    /// True if nothing was heard of the client for so long.
    pub fn is_over(&self, holds: Duration) -> bool {
        self.seen.elapsed() > holds
    }
}

impl LeasePool {
    /// The queue of leases that were used, or of those that were not.
    pub fn queue(&mut self, queue: LeaseQueue) -> &mut VecDeque<Id> {
        match queue {
            LeaseQueue::Unused => &mut self.idle,
            LeaseQueue::Used => &mut self.used,
        }
    }
}

/// True if an operation was more than a question that its place refuses.
pub fn is_use(outcome: &Outcome) -> bool {
    let Err(refusal) = outcome else { return true };
    let refused = [Why::NotAllowed, Why::NoPart, Why::OtherVersion, Why::BadInput, Why::Unreadable];
    !refused.contains(&Why::from(refusal.why))
}

fn weight(answer: &Outcome) -> usize {
    let bytes = answer.as_ref().map_or_else(|refusal| refusal.text.len(), |bytes| bytes.len());
    RECORD + bytes
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn answer(text: &'static str) -> Outcome {
        Ok(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn an_answer_stays_until_its_client_has_seen_it() {
        let mut pool = LeasePool::default();
        let mut lease = Lease::create(7, &mut pool).unwrap();
        assert!(!lease.begin(8, 5, &[], &mut pool), "another key");
        assert!(lease.begin(7, 1, &[], &mut pool));
        for serial in 1..=3 {
            assert_eq!(lease.before(serial, 1, &pool), Before::New);
            lease.keep(serial, answer("abc"), &mut pool);
            assert_eq!(lease.before(serial, 1, &pool), Before::Ran(answer("abc")));
        }
        assert_eq!(pool.bytes, 3 * (RECORD + 3));
        assert!(lease.begin(7, 3, &[], &mut pool));
        assert!(lease.begin(7, 1, &[], &mut pool), "sent anew: an older number changes nothing");
        let Before::Refused(refusal) = lease.before(2, 1, &pool) else {
            panic!("it would run again")
        };
        assert_eq!(refusal.why, Why::Forgotten as u16);
        assert_eq!(lease.before(3, 1, &pool), Before::Ran(answer("abc")));
        assert_eq!(pool.bytes, RECORD + 3);
        lease.destroy(&mut pool);
        assert_eq!((pool.leases, pool.bytes), (0, 0));
    }

    #[test]
    fn what_takes_long_stays_open_and_what_came_after_it_goes() {
        let mut pool = LeasePool::default();
        let mut lease = Lease::create(7, &mut pool).unwrap();
        lease.runs(2);
        for serial in [1, 3, 4] {
            lease.keep(serial, answer("abc"), &mut pool);
        }
        assert!(lease.begin(7, 4, &[(2, 2)], &mut pool));
        assert_eq!(pool.bytes, 2 * (RECORD + 3), "1 is seen, 3 and 4 are not");
        assert_eq!(lease.before(2, 1, &pool), Before::Runs);
        assert_eq!(lease.before(3, 1, &pool), Before::Ran(answer("abc")));
        // What was seen is not opened again, by whatever comes late or is made up.
        lease.begin(7, 5, &[(1, 1), (2, 1), (4, u64::MAX)], &mut pool);
        for seen in [1, 3, 4] {
            assert!(matches!(lease.before(seen, 1, &pool), Before::Refused(_)), "{seen}");
        }
        lease.begin(7, 5, &[], &mut pool);
        lease.ended(2, answer("late"), &mut pool);
        assert_eq!(pool.bytes, 0, "nobody will ask for it");
    }

    #[test]
    fn what_blocks_runs_once_and_is_kept_unless_it_was_given_up() {
        let mut pool = LeasePool::default();
        let mut lease = Lease::create(7, &mut pool).unwrap();
        lease.runs(1);
        lease.runs(2);
        assert_eq!(lease.before(1, 1, &pool), Before::Runs);
        lease.ended(1, answer("a"), &mut pool);
        assert_eq!(lease.before(1, 1, &pool), Before::Ran(answer("a")));
        lease.begin(7, 3, &[], &mut pool);
        lease.ended(2, answer("b"), &mut pool);
        assert_eq!(pool.bytes, 0, "nobody will ask for it");
    }

    #[test]
    fn the_one_goes_that_was_not_used_or_not_seen_and_is_at_nothing() {
        let mut pool = LeasePool::default();
        let mut lease = Lease::create(7, &mut pool).unwrap();
        assert!(lease.may_go(LeaseQueue::Unused));
        assert!(lease.begins_to_be_used() && !lease.begins_to_be_used());
        assert!(!lease.may_go(LeaseQueue::Unused));
        // Seen since it was made; not since it was asked; seen again.
        assert!(!lease.may_go(LeaseQueue::Used) && lease.may_go(LeaseQueue::Used));
        lease.begin(7, 1, &[], &mut pool);
        assert!(!lease.may_go(LeaseQueue::Used));
        lease.runs(1);
        assert!(!lease.may_go(LeaseQueue::Used), "its answer is waited for");
    }

    #[test]
    fn what_was_refused_for_want_of_room_does_not_run_when_there_is_some() {
        let mut pool = LeasePool::default();
        let mut lease = Lease::create(7, &mut pool).unwrap();
        pool.bytes = MOST_BYTES;
        let is_full =
            |before| matches!(before, Before::Refused(why) if why.why == Why::Full as u16);
        assert!(is_full(lease.before(1, 1, &pool)));
        assert!(lease.refuse(1, &mut pool) && lease.refuse(1, &mut pool));
        pool.bytes = 0;
        assert!(is_full(lease.before(1, 1, &pool)), "its client was told that it has not run");
        assert_eq!(lease.before(2, 1, &pool), Before::New);
        // Who has seen that asks for it no more.
        lease.begin(7, 2, &[], &mut pool);
        assert_eq!((lease.refused.len(), pool.refused), (0, 0));
        for serial in 2..2 + MOST_REFUSED as u64 {
            assert!(lease.refuse(serial, &mut pool));
        }
        let next = 2 + MOST_REFUSED as u64;
        assert!(!lease.refuse(next, &mut pool), "without a bound");
        lease.destroy(&mut pool);
        assert_eq!(pool.refused, 0);
        pool.refused = MOST_REFUSED_OF_ALL;
        let mut other = Lease::create(7, &mut pool).unwrap();
        assert!(!other.refuse(1, &mut pool), "without a bound for all");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pool = LeasePool::default();
        let mut lease = Lease::create(7, &mut pool).unwrap();
        for serial in 1..=MOST_RECORDS as u64 {
            lease.keep(serial, answer(""), &mut pool);
        }
        let next = MOST_RECORDS as u64 + 1;
        assert!(matches!(lease.before(next, 1, &pool), Before::Refused(_)));
        assert_eq!(lease.before(1, 1, &pool), Before::Ran(answer("")), "which takes no room");
        lease.begin(7, 2, &[], &mut pool);
        assert_eq!(lease.before(next, 1, &pool), Before::New);
        assert!(matches!(lease.before(next, 2, &pool), Before::Refused(_)));
        let bytes = pool.bytes;
        lease.keep(5, answer("a"), &mut pool);
        lease.keep(5, answer("bc"), &mut pool);
        assert_eq!(pool.bytes, bytes + 2, "one answer each");
        pool.bytes = 0;
        assert_eq!(lease.before(next, 0, &pool), Before::New);
        lease.bytes = MOST_BYTES_OF_ONE;
        assert!(matches!(lease.before(next, 0, &pool), Before::Refused(_)), "a client's share");
        pool.leases = MOST_LEASES;
        assert!(Lease::create(1, &mut pool).unwrap_err().to_string().contains("65536 clients"));
    }
}
