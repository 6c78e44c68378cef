//! One thread that goes the paper's way: it places requests by hand, waits for
//! some results, and collects them; threads of the program process them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;
use kumiki_parasc::{Engine, Error, Ticket};

use super::hand::Hand;
use super::kind::Kind;
use super::{PATIENCE, Scene};

/// Processing threads of the program in one engine, less than.
const PROCESSORS: usize = 3;

/// One such thread. An engine has one only: `Engine::wait` counts all results.
pub(crate) struct ByHand<'a> {
    scene: &'a Scene,
    random: Rng,
    engine: Arc<Engine>,
    processors: Vec<JoinHandle<()>>,
}

impl<'a> ByHand<'a> {
    pub(crate) fn new(scene: &'a Scene, number: usize) -> Self {
        let random = Rng::with_seed(scene.seed.wrapping_add(number as u64));
        ByHand { scene, random, engine: scene.engine(), processors: Vec::new() }
    }

    pub(crate) fn play(mut self) -> Result<(), String> {
        while !self.scene.is_over() {
            self.hand()?;
            if !Arc::ptr_eq(&self.engine, &self.scene.engine()) {
                self.change_engine()?;
            }
        }
        self.engine.shut_down(PATIENCE);
        self.end_processors()
    }

    /// Goes to the next engine, the last one having been shut down.
    fn change_engine(&mut self) -> Result<(), String> {
        self.end_processors()?;
        self.engine = self.scene.engine();
        let start = |_| {
            let engine = Arc::clone(&self.engine);
            thread::spawn(move || engine.process())
        };
        self.processors = (0..self.random.usize(..PROCESSORS)).map(start).collect();
        Ok(())
    }

    fn end_processors(&mut self) -> Result<(), String> {
        let mut ended = self.processors.drain(..).map(JoinHandle::join);
        ended.try_for_each(|end| end.map_err(|_| "a processing thread has panicked".to_owned()))
    }

    /// Places a hand, or as much of it as there are slots, collects the results
    /// in any order, and looks for the effects.
    fn hand(&mut self) -> Result<(), String> {
        let hand = Hand::new(self.scene, &mut self.random)?;
        let mut words: Vec<u64> = (0..hand.kinds().len()).map(|at| hand.word(at)).collect();
        let mut tickets = self.place(&hand, &mut words)?;
        let placed = tickets.len();
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
                match self.engine.collect(ticket) {
                    Ok(result) => results[at] = Some(result),
                    Err(ticket) => tickets.push((at, ticket)),
                }
            }
        }
        let counts = &self.scene.counts;
        for (at, result) in results.into_iter().enumerate() {
            match result {
                Some(result) if result != -i64::from(libc::ECANCELED) => {
                    hand.tell(at);
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
            match unsafe { self.engine.place(request) } {
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
        let found = self.engine.wait(wanted, timeout);
        if found > outstanding || found < wanted && timeout.is_none() {
            return Err(format!("waited for {wanted} of {outstanding} results, found {found}"));
        }
        Ok(())
    }
}
