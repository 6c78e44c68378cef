//! One thread that submits requests: some it awaits, some it takes back, and
//! some it forgets.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use kumiki_parasc::{Completed, Engine, Error, Failed, Operation, Outcome, Pending, Request};
use tokio::runtime::{Builder, Runtime};

use super::hand::Hand;
use super::kind::Kind;
use super::round::not_allowed;
use super::{PATIENCE, Scene};

/// A request of a hand.
struct Call {
    hand: Arc<Hand>,
    at: usize,
    word: u64,
}

// SAFETY: the call reads or writes the word, which is the operation's, and files
// of the hand, which it holds.
unsafe impl Operation for Call {
    type Output = i64;

    fn request(&mut self) -> Request {
        self.hand.request(self.at, &raw mut self.word as u64)
    }

    unsafe fn complete(&mut self, ret_val: i64) -> i64 {
        self.hand.tell(self.at, ret_val);
        ret_val
    }
}

/// One such thread.
pub(crate) struct Single<'a> {
    scene: &'a Scene,
    number: usize,
    random: Rng,
    executor: Runtime,
    /// Messages that have not been sent yet: who receives them is blocked.
    unsent: usize,
}

impl<'a> Single<'a> {
    pub(crate) fn new(scene: &'a Scene, number: usize) -> Result<Self, String> {
        Ok(Single {
            scene,
            number,
            random: Rng::with_seed(scene.seed.wrapping_add(number as u64)),
            executor: Builder::new_current_thread().build().map_err(|error| error.to_string())?,
            unsent: 0,
        })
    }

    pub(crate) fn play(mut self) -> Result<(), String> {
        while !self.scene.is_over() {
            self.hand()?;
            self.scene.await_turn(self.number);
            if self.random.u32(..16) == 0 {
                self.ask_in_vain()?;
            }
            if self.random.u32(..64) == 0 {
                thread::sleep(Duration::from_micros(self.random.u64(..2000)));
            }
        }
        Ok(())
    }

    /// Submits a hand, sees to each request's end, in any order, and looks for
    /// the effects.
    fn hand(&mut self) -> Result<(), String> {
        let round = self.scene.round();
        let mut hand = Arc::new(Hand::new(self.scene, &mut self.random)?);
        let count = hand.kinds().len();
        let (mut pending, mut next) = (Vec::new(), 0);
        while next < count || !pending.is_empty() {
            if next < count && (pending.is_empty() || self.random.u32(..4) != 0) {
                pending.push(self.submit(&round.engine, &hand, next));
                next += 1;
            } else {
                let one = pending.swap_remove(self.random.usize(..pending.len()));
                self.end(&hand, one)?;
            }
        }
        self.send(&hand);
        drop(round);
        let deadline = Instant::now() + PATIENCE;
        // What is dropped goes on, and holds the hand.
        while Arc::get_mut(&mut hand).is_none() {
            if Instant::now() >= deadline {
                return Err("a request that was dropped does not end".to_owned());
            }
            thread::yield_now();
        }
        let counts = &self.scene.counts;
        counts.effects.fetch_add(hand.effects()?, Relaxed);
        counts.interrupted.fetch_add(hand.interrupted(), Relaxed);
        for kind in hand.kinds() {
            counts.kinds[*kind as usize].fetch_add(1, Relaxed);
        }
        counts.requests.fetch_add(count as u64, Relaxed);
        Ok(())
    }

    /// Submits what an allow-list lacks, where there is one.
    fn ask_in_vain(&self) -> Result<(), String> {
        let round = self.scene.round();
        if round.is_narrow {
            // SAFETY: takes no argument.
            let outcome = unsafe { round.engine.submit_raw(not_allowed()) }.wait();
            self.scene.counts.refused(outcome.map_err(|failed| failed.error), 0)?;
        }
        Ok(())
    }

    fn submit(&mut self, engine: &Engine, hand: &Arc<Hand>, at: usize) -> Pending<Call> {
        if hand.kinds()[at] == Kind::Receive {
            self.unsent += 1;
            if self.random.bool() {
                self.send(hand);
            }
        }
        engine.submit(Call { hand: Arc::clone(hand), at, word: hand.word(at) })
    }

    /// Sends all messages: whoever is blocked goes on.
    fn send(&mut self, hand: &Hand) {
        (0..std::mem::take(&mut self.unsent)).for_each(|_| hand.send());
    }

    /// Awaits a request, takes it back, or drops it, perhaps after a look at it.
    fn end(&mut self, hand: &Hand, mut pending: Pending<Call>) -> Result<(), String> {
        loop {
            match self.random.u32(..8) {
                0..4 => {
                    self.send(hand);
                    let outcome = match self.random.bool() {
                        true => pending.wait(),
                        false => self.executor.block_on(pending),
                    };
                    return self.check(outcome);
                }
                4 => {
                    let a_while = Duration::from_micros(self.random.u64(..200));
                    match pending.wait_timeout(a_while) {
                        Ok(outcome) => return self.check(outcome),
                        Err(same) => pending = same,
                    }
                }
                5 => {
                    let mut context = Context::from_waker(Waker::noop());
                    if let Poll::Ready(outcome) = pin!(&mut pending).poll(&mut context) {
                        return self.check(outcome);
                    }
                }
                6 => match pending.cancel() {
                    Ok(call) => {
                        self.scene.counts.taken_back.fetch_add(1, Relaxed);
                        return call.hand.check_not_made(call.at, call.word);
                    }
                    Err(same) => pending = same,
                },
                _ => {
                    self.scene.counts.dropped.fetch_add(u64::from(!pending.is_done()), Relaxed);
                    return Ok(());
                }
            }
        }
    }

    fn check(&self, outcome: Outcome<Call>) -> Result<(), String> {
        match outcome {
            Ok(Completed { output, operation: call }) => {
                self.scene.counts.awaited.fetch_add(1, Relaxed);
                call.hand.check(call.at, output, call.word)
            }
            Err(Failed { error: Error::ShutDown, operation: call }) => {
                self.scene.counts.not_made.fetch_add(1, Relaxed);
                call.hand.check_not_made(call.at, call.word)
            }
            Err(failed) => Err(failed.to_string()),
        }
    }
}
