//! Table 1: a thread that does nothing, from its start to its end.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::{self, JoinHandle};

use kumiki_measure::case::{Case, Each, Place};
use kumiki_measure::{Error, Result};
use kumiki_shadow::{Sleep, Threshold};
use kumiki_sys::affinity;
use kumiki_sys::pthread::Attributes;
use kumiki_wait::Waiter;

use super::user_thread::UserThread;
use super::{Asleep, Helped, Hot, waiting};
use crate::partner;

const ABOUT: &str = "a thread that does nothing, from start to end: on the other cpu a shadow \
                     that spins, one that may sleep (two_phase), one that sleeps (by the best \
                     means of the machine), a parked thread, a new one (pthread); on the same \
                     cpu a new one at user level (ucontext)";

pub(super) fn cases() -> Vec<Case> {
    let shadow = |way, policy| {
        let setup = move |place: &Place| Ok(Hot(Helped::new(place, policy)?, Helped::fork_join));
        Case::new("shadow.null", ABOUT, setup).with("way", way).two_cpus()
    };
    let asleep = Case::new("shadow.null", ABOUT, Asleep::new);
    let parked = Case::new("shadow.null", ABOUT, |place| {
        let parked = Parked::start(partner(place)?)?;
        Ok(Each(move || parked.run()))
    });
    let created = Case::new("shadow.null", ABOUT, |place| {
        let attributes = Attributes::bound_to(partner(place)?)?;
        Ok(Each(move || pthread(&attributes)))
    });
    let user_level = Case::new("shadow.null", ABOUT, |_| {
        let mut thread = UserThread::new()?;
        Ok(Each(move || thread.null()))
    });
    vec![
        shadow("spin", waiting(Threshold::Infinite)),
        shadow("two_phase", crate::chosen()),
        asleep.with("way", format!("sleep_by_{}", sleep()).as_str()).two_cpus(),
        parked.with("way", "park").two_cpus(),
        created.with("way", "pthread").two_cpus(),
        user_level.with("way", "ucontext"),
    ]
}

/// Way in which this machine sleeps, if the user has not chosen another; `Auto` where it cannot
/// wait.
pub(super) fn sleep() -> Sleep {
    // It never comes to sleep, so nothing is prepared for that.
    let waiter = Waiter::new(&waiting(Threshold::Infinite));
    waiter.map_or(Sleep::Auto, |waiter| waiter.sleep())
}

fn pthread(attributes: &Attributes) -> Result<()> {
    Ok(attributes.create(nothing, ptr::null_mut())?.join()?)
}

extern "C" fn nothing(_: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}

const IDLE: u32 = 0;
const REQUEST: u32 = 1;
const QUIT: u32 = 2;

/// A thread that sleeps by [`thread::park`] between requests.
struct Parked {
    state: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Parked {
    fn start(cpu: usize) -> Result<Self> {
        let state = Arc::new(AtomicU32::new(REQUEST));
        let (its, main) = (Arc::clone(&state), thread::current());
        let serve = move || {
            // Where it is refused the figure is that of a thread beside its
            // maker; the sampler has tried both cpus before.
            let _bound = affinity::bind(cpu);
            loop {
                match its.load(Acquire) {
                    QUIT => return,
                    REQUEST => {
                        // Release: partner is the load in `answered`.
                        its.store(IDLE, Release);
                        main.unpark();
                    }
                    _ => thread::park(),
                }
            }
        };
        let thread = thread::Builder::new().name("parked".into()).spawn(serve);
        let thread = thread.map_err(|error| Error::os("start a thread", error))?;
        let parked = Parked { state, thread: Some(thread) };
        // It answers its first request when it is bound.
        parked.answered();
        Ok(parked)
    }

    fn run(&self) -> Result<()> {
        self.tell(REQUEST);
        self.answered();
        Ok(())
    }

    fn tell(&self, state: u32) {
        // Release: partner is the helper's load.
        self.state.store(state, Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn answered(&self) {
        while self.state.load(Acquire) != IDLE {
            thread::park();
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.tell(QUIT);
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kumiki_measure::meter::{Meter, Sample};
    use kumiki_sys::clock::Clock;

    use super::*;

    /// One thread of this way, from a cpu whose partner is this.
    fn run(way: &str, partner: Option<usize>) -> Result<Sample> {
        let mut cases = cases().into_iter();
        let case = cases.find(|case| case.params["way"] == way.into()).unwrap();
        assert_eq!(case.two_cpus, partner.is_some());
        let place = Place { cpu: 0, partner, scratch: std::env::temp_dir() };
        let meter = Meter::new(Clock::calibrate(Duration::from_millis(10)));
        (case.setup)(&place)?.sample(1, &meter)
    }

    #[test]
    fn a_pthread_is_made_for_the_other_cpu() {
        let error = run("pthread", Some(100_000)).unwrap_err().to_string();
        assert!(error.contains("cpu 100000"), "{error}");
    }

    #[test]
    fn a_user_level_thread_needs_no_other_cpu() {
        run("ucontext", None).unwrap();
    }
}
