//! One requesting thread: its batches, and what must have come of them.

use std::io::{Read, Seek};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use kumiki_parasc::{Request, Requester};

use super::kind::{self, Kind, MOST};
use super::round::{Round, not_allowed};
use super::things::Things;
use super::{Scene, WORDS};

/// Bytes that are written before they are looked at.
const WRITTEN: usize = 1 << 14;

/// One requesting thread.
pub(crate) struct Player<'a> {
    scene: &'a Scene,
    number: usize,
    /// Its own id.
    thread: i64,
    random: Rng,
    round: Arc<Round>,
    requester: Requester,
    things: Things,
    /// What was to be appended to the file; never moves.
    bytes: Vec<u8>,
    /// How many numbers were added, and their sum.
    added: [u64; 2],
    /// Messages so far.
    messages: u64,
}

impl<'a> Player<'a> {
    pub(crate) fn new(scene: &'a Scene, number: usize) -> Result<Self, String> {
        let round = scene.round();
        let requester = round.engine.requester().map_err(|error| error.to_string())?;
        Ok(Player {
            scene,
            number,
            thread: rustix::thread::gettid().as_raw_nonzero().get().into(),
            random: Rng::with_seed(scene.seed.wrapping_add(number as u64)),
            round,
            requester,
            things: Things::new(scene)?,
            bytes: Vec::with_capacity(WRITTEN),
            added: [0; 2],
            messages: 0,
        })
    }

    pub(crate) fn play(mut self) -> Result<(), String> {
        while !self.scene.is_over() {
            self.change_hands()?;
            self.batch()?;
            if self.round.is_narrow && self.random.u32(..64) == 0 {
                self.batch_in_vain()?;
            }
            if self.bytes.len() + MOST > WRITTEN {
                self.look()?;
            }
            self.stay_away();
            self.scene.await_turn(self.number);
        }
        self.look()
    }

    /// Goes to the next engine if there is one, or to another lane. Not at once:
    /// the old engine ends while it is in use.
    fn change_hands(&mut self) -> Result<(), String> {
        let round = self.scene.round();
        let stays = if Arc::ptr_eq(&round, &self.round) { 256 } else { 8 };
        if self.random.u32(..stays) != 0 {
            return Ok(());
        }
        self.round = round;
        self.requester = self.round.engine.requester().map_err(|error| error.to_string())?;
        self.scene.counts.lanes.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Runs one batch and checks its answers.
    fn batch(&mut self) -> Result<(), String> {
        let kinds = kind::batch(&mut self.random);
        let mut words: Vec<u64> = kinds.iter().map(|kind| self.argument(*kind)).collect();
        let sent = words.clone();
        let addresses = words.iter_mut().map(|word| &raw mut *word as u64);
        let mut requests = Vec::with_capacity(kinds.len());
        for (kind, address) in kinds.iter().zip(addresses) {
            let number = sent[requests.len()];
            let address = match kind {
                Kind::Append => &raw const self.bytes[number as usize] as u64,
                _ => address,
            };
            let request = self.things.request(*kind, address, number);
            requests.push(request);
        }
        let mut results = vec![i64::MIN; kinds.len()];
        // SAFETY: each call reads or writes its own word in `words`, a byte of
        // `bytes` (which never moves) or the time, all of which outlive it.
        unsafe { self.requester.run_raw(&requests, &mut results) }.map_err(|e| e.to_string())?;
        loop {
            let left = kind::interrupted(&kinds, &results);
            if left.is_empty() {
                break;
            }
            self.scene.counts.interrupted.fetch_add(left.len() as u64, Relaxed);
            for at in &left {
                self.things.check(kinds[*at], sent[*at], results[*at], words[*at])?;
            }
            // As a program does.
            let again: Vec<Request> = left.iter().map(|at| requests[*at]).collect();
            let mut ends = vec![i64::MIN; left.len()];
            // SAFETY: as above.
            unsafe { self.requester.run_raw(&again, &mut ends) }.map_err(|e| e.to_string())?;
            left.iter().zip(ends).for_each(|(at, end)| results[*at] = end);
        }

        for (at, kind) in kinds.iter().enumerate() {
            let checked = self.things.check(*kind, sent[at], results[at], words[at]);
            checked.map_err(|fault| format!("request {at} of {}, {fault}", kinds.len()))?;
            self.scene.counts.kinds[*kind as usize].fetch_add(1, Relaxed);
            if *kind == Kind::Gettid && results[at] != self.thread {
                self.scene.counts.others.fetch_add(1, Relaxed);
            }
        }
        self.messages_are_all_there(&kinds, &sent, words)?;
        self.scene.counts.requests.fetch_add(kinds.len() as u64, Relaxed);
        self.scene.counts.batches.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Runs a batch with a call that the allow-list lacks: no call is made. Those
    /// that were would be found in the sum.
    fn batch_in_vain(&mut self) -> Result<(), String> {
        let number = 1u64;
        let add = self.things.request(Kind::Add, &raw const number as u64, number);
        let mut requests = vec![add; self.random.usize(1..MOST)];
        let at = self.random.usize(..requests.len());
        requests[at] = not_allowed();
        let mut results = vec![i64::MIN; requests.len()];
        // SAFETY: the calls would read a local, or have no argument.
        let ran = unsafe { self.requester.run_raw(&requests, &mut results) };
        self.scene.counts.refused(ran, at)?;
        let untouched = results.iter().all(|result| *result == i64::MIN);
        untouched.then_some(()).ok_or_else(|| "a refused batch has results".to_owned())
    }

    /// The number that goes with a request.
    fn argument(&mut self, kind: Kind) -> u64 {
        match kind {
            Kind::Pread => self.random.u64(..WORDS),
            Kind::Append => {
                self.bytes.push(self.random.u8(..));
                self.bytes.len() as u64 - 1
            }
            Kind::Add => {
                let number = self.random.u64(1..100);
                self.added[0] += 1;
                self.added[1] += number;
                number
            }
            Kind::Receive => {
                self.messages += 1;
                self.things.send(self.messages);
                self.messages
            }
            _ => self.random.u64(..),
        }
    }

    /// Whether the messages that have come are those that were sent, in
    /// whatever order.
    fn messages_are_all_there(
        &mut self,
        kinds: &[Kind],
        sent: &[u64],
        mut received: Vec<u64>,
    ) -> Result<(), String> {
        if kinds.first() != Some(&Kind::Receive) {
            return Ok(());
        }
        received.sort_unstable();
        if received != sent {
            return Err(format!("messages {sent:?} were sent and {received:?} received"));
        }
        self.scene.counts.effects.fetch_add(sent.len() as u64, Relaxed);
        Ok(())
    }

    /// Checks what the requests so far have left behind.
    fn look(&mut self) -> Result<(), String> {
        let mut there = Vec::new();
        let mut from_start = &self.things.file;
        let read = from_start.rewind();
        read.and_then(|()| from_start.read_to_end(&mut there)).map_err(|e| e.to_string())?;
        // In whatever order.
        there.sort_unstable();
        self.bytes.sort_unstable();
        if there != self.bytes {
            let (found, wrote) = (there.len(), self.bytes.len());
            return Err(format!("of {wrote} bytes, {found} are there, or others"));
        }
        let sum = self.things.sum()?;
        let [count, added] = self.added;
        if sum != added {
            return Err(format!("the sum is {sum}, and {added} was added in {count} numbers"));
        }
        self.scene.counts.effects.fetch_add(count + self.bytes.len() as u64, Relaxed);
        self.added = [0; 2];
        self.bytes.clear();
        self.things.file.set_len(0).map_err(|error| error.to_string())
    }

    /// Sometimes long enough for the engine's threads to fall asleep or to end.
    fn stay_away(&mut self) {
        match self.random.u32(..256) {
            0 => thread::sleep(Duration::from_micros(self.random.u64(..2000))),
            1..16 => {
                let away = Duration::from_nanos(self.random.u64(..150_000));
                let begin = Instant::now();
                while begin.elapsed() < away {}
            }
            _ => {}
        }
    }
}
