//! A client of a database that knows what its keys hold: it writes with a sync each, and reads one by
//! one, many at once, and in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use super::words::{Word, Words, done, one};
use crate::content::File;
use crate::soak::Soak;

/// Keys of a client.
const KEYS: u32 = 1500;
/// Bytes of a value, at most.
const MOST: usize = 4000;

/// Versions of which a key holds one, as far as can be known; 0 is none.
type Held = Vec<u32>;

pub(super) struct Client {
    soak: &'static Soak,
    socket: PathBuf,
    /// By which file system, for who reads of it.
    way: &'static str,
    number: u64,
    rng: Rng,
    words: Option<Words>,
    holds: BTreeMap<u32, Held>,
    version: u32,
}

/// True to read ahead and many at once without waiting.
fn way_of(is_async: bool) -> &'static [u8] {
    if is_async { b"async" } else { b"plain" }
}

impl Client {
    pub(super) fn new(
        soak: &'static Soak,
        socket: PathBuf,
        way: &'static str,
        number: u64,
    ) -> Client {
        let (rng, holds) = (soak.rng(number), BTreeMap::new());
        Client { soak, socket, way, number, rng, words: None, holds, version: 0 }
    }

    pub(super) fn run(mut self) {
        while !self.soak.is_over() {
            if let Err(error) = self.act() {
                self.soak.fail(&format!("client {} of {}: {error:#}", self.number, self.way));
            }
        }
    }

    fn key(&self, key: u32) -> Vec<u8> {
        format!("{}:{key:06}", self.number).into_bytes()
    }

    fn value(key: u32, version: u32) -> Vec<u8> {
        File { number: key, most: MOST }.whole(version)
    }

    fn act(&mut self) -> Result<()> {
        if self.words.is_none() {
            self.words = Words::connect(&self.socket)?;
        }
        if self.words.is_none() {
            std::thread::sleep(Duration::from_millis(5));
            return Ok(());
        }
        match self.rng.u32(..100) {
            0..45 => self.change(),
            45..65 => self.get(),
            65..85 => self.many(),
            85..99 => self.walk(),
            _ => self.order(),
        }
    }

    /// Asks; none if it was cut.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Option<Vec<Word>>> {
        let mut kept = self.words.take().context("no connection")?;
        let what = String::from_utf8_lossy(words[0]);
        let waits = self.soak.request(format!("{what} of client {} of {}", self.number, self.way));
        let answer = kept.ask(words)?;
        drop(waits);
        match &answer {
            Some(_) => self.words = Some(kept),
            None => self.soak.count("cut by a kill"),
        }
        Ok(answer)
    }

    fn count(&self, what: &str, many: u64) {
        self.soak.count_many(&format!("{what}, {}", self.way), many);
    }

    /// Puts or deletes a key. What a kill has cut is there or not.
    fn change(&mut self) -> Result<()> {
        let key = self.rng.u32(..KEYS);
        let name = self.key(key);
        self.version += 1;
        let version = if self.rng.u8(..5) == 0 { 0 } else { self.version };
        let value = Self::value(key, version);
        let asked: &[&[u8]] =
            if version == 0 { &[b"delete", &name] } else { &[b"put", &name, &value] };
        let old = self.holds.entry(key).or_insert_with(|| vec![0]);
        old.push(version);
        if let Some(answer) = self.ask(asked)? {
            done(answer)?;
            self.holds.insert(key, vec![version]);
            self.count("written", 1);
        }
        Ok(())
    }

    /// Says what is wrong with a value; of what may be one or the other it is known then.
    fn judge(&mut self, key: u32, value: Option<&[u8]>) -> Result<()> {
        let held = self.holds.entry(key).or_insert_with(|| vec![0]);
        let is = |version: &u32| match value {
            Some(value) => *version > 0 && value == Self::value(key, *version),
            None => *version == 0,
        };
        let Some(found) = held.iter().copied().find(is) else {
            let said = value.map(|value| &value[..value.len().min(32)]);
            bail!("key {key} should hold one of the versions {held:?}, and holds {said:?}");
        };
        *held = vec![found];
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let key = self.rng.u32(..KEYS);
        let name = self.key(key);
        let Some(answer) = self.ask(&[b"get", &name])? else { return Ok(()) };
        match one(answer)? {
            Word::Value(value) => self.judge(key, Some(&value))?,
            Word::None => self.judge(key, None)?,
            other => bail!("{other:?} of key {key}"),
        }
        self.count("read", 1);
        Ok(())
    }

    fn many(&mut self) -> Result<()> {
        let keys: Vec<u32> = (0..self.rng.usize(1..64)).map(|_| self.rng.u32(..KEYS)).collect();
        let names: Vec<_> = keys.iter().map(|key| self.key(*key)).collect();
        let mut asked: Vec<&[u8]> = vec![b"get many", way_of(self.rng.bool())];
        asked.extend(names.iter().map(|name| &**name));
        let Some(answer) = self.ask(&asked)? else { return Ok(()) };
        ensure!(answer.len() == keys.len(), "{} answers to {} keys", answer.len(), keys.len());
        for (key, word) in keys.iter().zip(answer) {
            match word {
                Word::Value(value) => self.judge(*key, Some(&value))?,
                Word::None => self.judge(*key, None)?,
                other => bail!("{other:?} of key {key}"),
            }
        }
        self.count("read, many at once", keys.len() as u64);
        Ok(())
    }

    /// From a key on, as far as is asked: all that are there, in their order.
    fn walk(&mut self) -> Result<()> {
        let first = self.rng.u32(..KEYS);
        let most = self.rng.usize(1..80);
        let (name, count) = (self.key(first), most.to_string());
        let is_async = way_of(self.rng.bool());
        let Some(mut answer) = self.ask(&[b"walk", is_async, &name, count.as_bytes()])? else {
            return Ok(());
        };
        let end = answer.pop().context("an empty answer")?;
        ensure!(end == Word::Done, "it ended with {end:?}");
        let (mut next, own) = (first, format!("{}:", self.number));
        let is_all = answer.len() < 2 * most;
        let mut pairs = answer.chunks(2);
        let mut walked = 0;
        loop {
            let found = match pairs.next() {
                Some([Word::Value(key), Word::Value(value)]) => {
                    let key = std::str::from_utf8(key).context("a key")?;
                    let key = key.strip_prefix(&*own).map(str::parse::<u32>);
                    key.transpose().context("a key")?.map(|key| (key, value))
                }
                Some(other) => bail!("{other:?} in a walk"),
                None => None,
            };
            // Those between are not there.
            let end = match found {
                Some((key, _)) => key,
                None if is_all || walked < most => KEYS,
                None => next,
            };
            ensure!(next <= end && end <= KEYS, "key {end} after {next}");
            for key in next..end {
                self.judge(key, None)?;
            }
            let Some((key, value)) = found else { break };
            self.judge(key, Some(value))?;
            (next, walked) = (key + 1, walked + 1);
        }
        self.count("read in order", walked as u64);
        Ok(())
    }

    /// Has tables written or made anew.
    fn order(&mut self) -> Result<()> {
        let what: &[u8] = if self.rng.bool() { b"flush" } else { b"compact" };
        if let Some(answer) = self.ask(&[what])? {
            done(answer)?;
            self.count("flushed or compacted", 1);
        }
        Ok(())
    }
}
