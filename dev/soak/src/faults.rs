//! Faults that come one after the other, drawn by the seed.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use nix::sys::signal::Signal;

use crate::child::Server;
use crate::soak::Soak;

/// A quiet spell is longer by this than a request may be without its answer.
const QUIET: Duration = Duration::from_secs(3);
/// Faults before the first quiet spell, at most, so that a short run has one, too.
const FIRST: u32 = 8;
/// Faults between two of them, at most.
const BETWEEN: u32 = 24;
/// A subject answers as always again so long after its last fault.
const SETTLES: Duration = Duration::from_millis(1500);

type Make<'a> = Box<dyn FnMut(&mut Rng) -> Result<()> + Send + 'a>;

/// A fault, with the name by which it is counted.
pub(crate) struct Fault<'a> {
    pub(crate) name: &'static str,
    pub(crate) make: Make<'a>,
}

impl<'a> Fault<'a> {
    pub(crate) fn new(
        name: &'static str,
        make: impl FnMut(&mut Rng) -> Result<()> + Send + 'a,
    ) -> Fault<'a> {
        Fault { name, make: Box::new(make) }
    }
}

/// Tells a subject's clients that its faults rest just now: what fails in a spell without
/// faults fails by no fault that was made.
#[derive(Debug, Default)]
pub(crate) struct Calm(Mutex<Since>);

#[derive(Debug, Default)]
struct Since {
    /// Faults that have begun.
    faults: u64,
    /// End of the last one; none while one is being made, and before the first.
    since: Option<Instant>,
}

/// A spell without faults, by the number of faults before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spell(u64);

impl Calm {
    fn state(&self) -> MutexGuard<'_, Since> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spell, once the subject has settled; what is asked in it has to be answered.
    pub(crate) fn spell(&self) -> Option<Spell> {
        let state = self.state();
        let is_settled = state.since.is_some_and(|since| since.elapsed() > SETTLES);
        is_settled.then_some(Spell(state.faults))
    }

    /// True if no fault has begun since.
    pub(crate) fn lasts(&self, spell: Spell) -> bool {
        self.state().faults == spell.0
    }

    /// A fault begins, and ends when this is done.
    fn interrupted<T>(&self, fault: impl FnOnce() -> T) -> T {
        {
            let mut state = self.state();
            (state.faults, state.since) = (state.faults + 1, None);
        }
        let done = fault();
        self.state().since = Some(Instant::now());
        done
    }
}

/// Makes one after the other until the run is over; several threads may do so, each with faults of
/// its own. Some end what clients wait for: see [`draw_with_rests`].
pub(crate) fn draw(soak: &Soak, faults: Vec<Fault<'_>>, pause: Duration) {
    let mut draws = Draws::new(soak, faults, pause);
    while !soak.is_over() {
        soak.sleep(draws.pause());
        draws.make();
    }
}

/// Makes them so, with quiet spells between them: else the next death ends each request whose answer
/// has been lost, or SIGCONT wakes whom nobody has woken, and nobody sees that it was.
pub(crate) fn draw_with_rests(soak: &Soak, calm: &Calm, faults: Vec<Fault<'_>>, pause: Duration) {
    let mut draws = Draws::new(soak, faults, pause);
    let mut left = draws.rng.u32(1..=FIRST);
    while !soak.is_over() {
        soak.sleep(draws.pause());
        if left == 0 {
            left = draws.rng.u32(1..=BETWEEN);
            soak.sleep(soak.lost() + QUIET);
            // On a busy machine a lost answer is late only after some times that.
            soak.until_answered(soak.lost());
            soak.count("quiet spells");
        }
        // A death after the end would end, too, what has no answer then; and a server that this
        // thread has started dies with it.
        if soak.is_over() {
            return soak.until_answered(Duration::ZERO);
        }
        calm.interrupted(|| draws.make());
        left -= 1;
    }
}

/// Faults, and who draws them.
struct Draws<'a> {
    soak: &'a Soak,
    faults: Vec<Fault<'a>>,
    pause: Duration,
    rng: Rng,
}

impl<'a> Draws<'a> {
    fn new(soak: &'a Soak, faults: Vec<Fault<'a>>, pause: Duration) -> Draws<'a> {
        let names = faults.iter().flat_map(|fault| fault.name.bytes());
        let rng = soak.rng(names.fold(1 << 32, |sum, byte| sum + u64::from(byte)));
        Draws { soak, faults, pause, rng }
    }

    fn pause(&mut self) -> Duration {
        self.pause.mul_f64(2.0 * self.rng.f64())
    }

    fn make(&mut self) {
        let fault = self.rng.usize(..self.faults.len());
        let Fault { name, make } = &mut self.faults[fault];
        let made = make(&mut self.rng);
        match made.with_context(|| format!("the fault {name:?} could not be made")) {
            Ok(()) => self.soak.count(&format!("fault: {name}")),
            Err(error) => self.soak.fail(&format!("{error:#}")),
        }
    }
}

/// Stops the server for up to half a second.
pub(crate) fn stopped<'a>(server: &'a Server) -> Fault<'a> {
    Fault::new("stopped by SIGSTOP", move |rng| {
        server.signal(Signal::SIGSTOP)?;
        std::thread::sleep(Duration::from_millis(rng.u64(1..500)));
        server.signal(Signal::SIGCONT)
    })
}

/// Uses up what descriptors the server has, by connections that say nothing.
pub(crate) fn descriptors_out<'a>(soak: &'a Soak, address: SocketAddr, many: usize) -> Fault<'a> {
    Fault::new("descriptors out", move |rng| {
        soak.excuse(Duration::from_secs(3));
        let idle: Vec<_> = (0..many).map_while(|_| TcpStream::connect(address).ok()).collect();
        std::thread::sleep(Duration::from_millis(rng.u64(1..500)));
        drop(idle);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_begins_when_its_subject_has_settled_and_ends_with_the_next_fault() {
        let calm = Calm::default();
        assert_eq!(calm.spell(), None, "it has not begun");
        calm.interrupted(|| assert_eq!(calm.spell(), None, "a fault is under way"));
        assert_eq!(calm.spell(), None, "just now");
        calm.state().since = Instant::now().checked_sub(2 * SETTLES);
        let spell = calm.spell().unwrap();
        assert!(calm.lasts(spell) && calm.spell() == Some(spell));
        calm.interrupted(|| assert!(!calm.lasts(spell)));
        assert!(!calm.lasts(spell));
    }
}
