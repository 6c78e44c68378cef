//! The configuration of an engine.

use std::time::Duration;

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::Policy;

use crate::area::REQUESTERS;
use crate::choice::Backend;
use crate::error::{Error, Result};
use kumiki_calls::AllowList;

/// The most processing threads for calls that sleep.
pub(crate) const MAX_THREADS: usize = 64;

/// The most slots for requests placed by hand.
pub(crate) const MAX_SLOTS: usize = 4096;

/// The configuration of an [`Engine`](crate::Engine). The default suits almost every
/// program.
#[derive(Clone, Debug)]
pub struct Config {
    /// Cpus for processing threads: one on each for calls that are soon over, of which a
    /// requesting thread's own is left out while it is there, and those for calls that
    /// sleep on any of them. `None`: those that the calling thread may use, not counting
    /// [bindings of ours](affinity::unbound), or if that is one, those of the process's
    /// first thread. With a single cpu the caller makes cheap calls itself. An offline
    /// cpu is an error; a cpu that the kernel does not allow is left out. With none at all
    /// there is no thread for calls that are soon over, and others run as with `None`.
    pub cpus: Option<CpuSet>,
    /// Requesting threads with a lane of their own at the same time, 1 to 61.
    pub requesters: usize,
    /// Slots for requests [placed by hand](crate::Engine::place), 2 to 4096: so many can be
    /// outstanding or not collected. They bound no batch.
    pub slots: usize,
    /// Processing threads for calls that sleep, at most; 0 to 64.
    pub threads: usize,
    /// Time that a processing thread stays without work before it retires.
    pub retire: Duration,
    /// Way in which processing threads wait for requests. Of those of a cpu the adaptive threshold
    /// is a fixed one: they spin for as long as two sleeps cost.
    pub policy: Policy,
    /// The only calls that may be made; `None`: all that are not
    /// [refused](crate::refusals).
    pub allow: Option<AllowList>,
    /// Lets others make calls, too, that only answer for the calling thread, if true: gettid(2)
    /// then answers for whichever thread makes it.
    pub wrong_thread_answers: bool,
    /// Backend: who makes the calls beside the requesting thread.
    pub backend: Backend,
    /// True if a requesting thread that waits for a batch makes calls of it itself. Without, a
    /// batch is left to processing threads altogether, which is slower, but keeps the calls' traces
    /// out of the caller's caches. What nobody has begun after 50 ms it makes itself, since who
    /// should is held up.
    pub help: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            cpus: None,
            requesters: 16,
            slots: 512,
            threads: MAX_THREADS,
            retire: Duration::from_secs(10),
            policy: Policy::default(),
            allow: None,
            wrong_thread_answers: false,
            backend: Backend::Auto,
            help: true,
        }
    }
}

impl Config {
    /// # Errors
    /// [`Error::Config`] for the first value out of range.
    pub(crate) fn check(&self) -> Result<()> {
        range("a number of requesters", self.requesters, 1, REQUESTERS)?;
        range("a number of slots", self.slots, 2, MAX_SLOTS)?;
        range("a number of threads", self.threads, 0, MAX_THREADS)
    }

    /// The cpus for processing threads, in rising order.
    ///
    /// # Errors
    /// A chosen cpu is offline.
    pub(crate) fn cpus(&self) -> Result<CpuSet> {
        if let Some(cpus) = &self.cpus {
            // A thread bound to one cpu may choose others for its helpers: what is
            // allowed the kernel knows, and each processing thread asks it.
            cpus.iter().try_for_each(|cpu| affinity::require(cpu, cpus))?;
            return Ok(cpus.clone());
        }
        allowed()
    }
}

/// The cpus that the calling thread may use, not counting bindings of ours, or if that is
/// one, those of the process's first thread.
///
/// # Errors
/// As [`affinity::current`].
pub(crate) fn allowed() -> Result<CpuSet> {
    let own = affinity::unbound()?;
    Ok(if own.len() > 1 { own } else { affinity::of_process()? })
}

fn range(what: &'static str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::Config { what, value, least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_of_ours_leaves_an_engine_all_cpus() {
        let chosen = || Config::default().cpus().unwrap();
        let allowed = affinity::current().unwrap();
        assert_eq!(chosen(), allowed);
        let bound = affinity::bind(allowed.first().unwrap()).unwrap();
        assert_eq!(chosen(), allowed);
        assert_eq!(std::thread::spawn(chosen).join().unwrap(), allowed);
        drop(bound);
    }
}
