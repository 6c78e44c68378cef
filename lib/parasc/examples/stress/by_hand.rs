//! One thread that goes the paper's way: it places requests by hand, waits for
//! some results, and collects them; threads of the program process them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use fastrand::Rng;
use kumiki_parasc::{Error, Ticket};

use super::hand::Hand;
use super::kind::Kind;
use super::processing_thread::{Thread, start};
use super::round::{Round, not_allowed};
use super::{PATIENCE, Scene, rain};

/// Processing threads of the program in one engine, less than.
const PROCESSORS: usize = 3;

/// One such thread. An engine has one only: `Engine::wait` counts all results.
pub(crate) struct ByHand<'a> {
    scene: &'a Scene,
    number: usize,
    random: Rng,
    round: Arc<Round>,
    /// They are in `round`'s engine, and end before it.
    processors: Vec<Thread>,
    cancelled: Vec<Thread>,
}

impl<'a> ByHand<'a> {
    pub(crate) fn new(scene: &'a Scene, number: usize) -> Self {
        let random = Rng::with_seed(scene.seed.wrapping_add(number as u64));
        let round = scene.round();
        ByHand { scene, number, random, round, processors: Vec::new(), cancelled: Vec::new() }
    }

    pub(crate) fn play(mut self) -> Result<(), String> {
        let played = self.hands();
        if played.is_err() {
            // Nobody knows whether its threads ever end.
            std::mem::forget(self);
        }
        played
    }

    fn hands(&mut self) -> Result<(), String> {
        while !self.scene.is_over() {
            self.hand()?;
            self.scene.await_turn(self.number);
            if !Arc::ptr_eq(&self.round, &self.scene.round()) {
                self.change_engine();
            }
        }
        Ok(())
    }

    /// Goes to the next engine, the last one having been shut down.
    fn change_engine(&mut self) {
        self.end_processors();
        self.round = self.scene.round();
        (0..self.random.usize(..PROCESSORS)).for_each(|_| self.start_processor());
    }

    fn start_processor(&mut self) {
        self.processors.push(start(&self.round.engine));
        self.scene.counts.processors.fetch_add(1, Relaxed);
    }

    /// Of an engine that has been shut down.
    fn end_processors(&mut self) {
        self.processors.drain(..).chain(self.cancelled.drain(..)).for_each(Thread::join);
    }

    /// Perhaps ends a processing thread, starts another, or signals one, whatever
    /// they are at. Cancelled ones end between two calls, so that what has become of
    /// each request is certain.
    fn disturb(&mut self) {
        let one = self.random.usize(..self.processors.len().max(1));
        match self.random.u32(..32) {
            0 if one < self.processors.len() => {
                let thread = self.processors.swap_remove(one);
                thread.cancel();
                self.cancelled.push(thread);
                self.scene.counts.cancelled.fetch_add(1, Relaxed);
            }
            1 if self.processors.len() + 1 < PROCESSORS => self.start_processor(),
            2..16 if self.round.rain.is_some() && one < self.processors.len() => {
                self.processors[one].signal(rain::SIGNAL);
                self.scene.counts.signals.fetch_add(1, Relaxed);
            }
            _ => {}
        }
    }

    /// Places a hand, or as much of it as there are slots, collects the results
    /// in any order, and looks for the effects.
    fn hand(&mut self) -> Result<(), String> {
        if self.round.is_narrow && self.random.u32(..16) == 0 {
            // SAFETY: takes no argument.
            let placed = unsafe { self.round.engine.place(not_allowed()) };
            self.scene.counts.refused(placed, 0)?;
        }
        let hand = Hand::new(self.scene, &mut self.random)?;
        let mut words: Vec<u64> = (0..hand.kinds().len()).map(|at| hand.word(at)).collect();
        let mut tickets = self.place(&hand, &mut words)?;
        let placed = tickets.len();
        self.disturb();
        let deadline = Instant::now() + PATIENCE;
        let mut results = vec![None; words.len()];
        while !tickets.is_empty() {
            if Instant::now() >= deadline {
                // The kernel may still write there.
                std::mem::forget((hand, words));
                return Err(format!("{} of {placed} requests placed never end", tickets.len()));
            }
            self.wait(tickets.len())?;
            for _ in 0..tickets.len() {
                let (at, ticket) = tickets.swap_remove(self.random.usize(..tickets.len()));
                match self.round.engine.collect(ticket) {
                    Ok(result) => results[at] = Some(result),
                    Err(ticket) => tickets.push((at, ticket)),
                }
            }
        }
        let counts = &self.scene.counts;
        for (at, result) in results.into_iter().enumerate() {
            match result {
                Some(result) if result != -i64::from(libc::ECANCELED) => {
                    hand.tell(at, result);
                    hand.check(at, result, words[at])?;
                    counts.kinds[hand.kinds()[at] as usize].fetch_add(1, Relaxed);
                    counts.by_hand.fetch_add(1, Relaxed);
                }
                result => {
                    counts.not_made.fetch_add(u64::from(result.is_some()), Relaxed);
                    hand.check_not_made(at, words[at])?;
                }
            }
        }
        counts.effects.fetch_add(hand.effects()?, Relaxed);
        counts.interrupted.fetch_add(hand.interrupted(), Relaxed);
        counts.requests.fetch_add(placed as u64, Relaxed);
        Ok(())
    }

    fn place(&mut self, hand: &Hand, words: &mut [u64]) -> Result<Vec<(usize, Ticket)>, String> {
        let kinds = hand.kinds().iter();
        kinds.filter(|kind| **kind == Kind::Receive).for_each(|_| hand.send());
        let mut tickets = Vec::new();
        for (at, word) in words.iter_mut().enumerate() {
            let request = hand.request(at, &raw mut *word as u64);
            // SAFETY: word and hand stay until the result has been collected.
            match unsafe { self.round.engine.place(request) } {
                Ok(ticket) => tickets.push((at, ticket)),
                Err(Error::Full { .. } | Error::ShutDown) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(tickets)
    }

    /// Waits for some of so many results.
    fn wait(&mut self, outstanding: usize) -> Result<(), String> {
        let wanted = self.random.usize(..=outstanding);
        let a_while = Duration::from_micros(self.random.u64(..500));
        let timeout = self.random.bool().then_some(a_while);
        let engine = &self.round.engine;
        let found = match timeout {
            Some(timeout) => engine.wait_timeout(wanted, timeout),
            None => engine.wait(wanted),
        };
        if found > outstanding || found < wanted && timeout.is_none() {
            return Err(format!("waited for {wanted} of {outstanding} results, found {found}"));
        }
        Ok(())
    }
}

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        self.round.engine.shut_down_timeout(PATIENCE);
        self.end_processors();
    }
}
