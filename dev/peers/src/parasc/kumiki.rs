//! Kumiki's parallel system calls.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use kumiki_parasc::{Config, CpuSet, Engine, Request, Requester, Ticket};

use super::Execute;
use super::request::Kind;
use crate::pair::Pair;

/// Requests placed by hand at the same time: as many as the largest batch has.
const SLOTS: usize = 512;

/// Way to hand calls over.
enum Way {
    /// Batch that is waited for.
    Run,
    ByHand(Vec<Ticket>),
    Submit,
}

/// An engine as it is by default, and its one requesting thread.
pub(crate) struct Kumiki {
    requester: Requester,
    way: Way,
    /// Of the program: they end with the engine.
    own: Vec<JoinHandle<()>>,
    engine: Arc<Engine>,
}

impl Kumiki {
    /// Makes the engine; for a handoff, one whose requesting thread leaves its calls to
    /// others; for the paper's set-up, one whose only thread is the program's.
    pub(crate) fn new(kind: Kind, pair: Pair) -> Result<Self> {
        let way = match kind {
            Kind::ByHand => Way::ByHand(Vec::new()),
            Kind::Submit => Way::Submit,
            _ => Way::Run,
        };
        Kumiki::handing_over(kind, way, pair)
    }

    /// The same calls in batches, whatever the case hands over one by one.
    pub(crate) fn in_batches(kind: Kind, pair: Pair) -> Result<Self> {
        Kumiki::handing_over(kind, Way::Run, pair)
    }

    fn handing_over(kind: Kind, way: Way, pair: Pair) -> Result<Self> {
        let own = kind == Kind::OwnThreads;
        let mut config = Config { help: kind != Kind::Handoff, slots: SLOTS, ..Config::default() };
        if own {
            (config.cpus, config.threads) = (Some(CpuSet::new()), 0);
        }
        let engine = Arc::new(Engine::new(&config)?);
        let serve = || {
            let engine = Arc::clone(&engine);
            pair.on_helper(|| std::thread::Builder::new().spawn(move || engine.process()))
        };
        let own = if own { vec![serve()??] } else { Vec::new() };
        Ok(Kumiki { requester: engine.requester()?, way, own, engine })
    }
}

impl Execute for Kumiki {
    #[inline(always)]
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        match &mut self.way {
            Way::Run => {
                // SAFETY: the caller's promise.
                let ran = unsafe { self.requester.run_raw(requests, results) };
                ran.expect("no call here is refused");
            }
            Way::ByHand(tickets) => {
                // SAFETY: the caller's promise; all are collected before this returns.
                let place = |request: &Request| unsafe { self.engine.place(*request) };
                let placed = requests.iter().map(place);
                tickets.extend(placed.map(|placed| placed.expect("as many slots as calls")));
                self.engine.wake_up();
                self.engine.wait(requests.len());
                for (ticket, result) in tickets.drain(..).zip(results) {
                    *result = self.engine.collect(ticket).expect("waited for");
                }
            }
            Way::Submit => {
                // SAFETY: the caller's promise; all are over before this returns.
                let submit = |request: &Request| unsafe { self.engine.submit_raw(*request) };
                let pending: Vec<_> = requests.iter().map(submit).collect();
                for (pending, result) in pending.into_iter().zip(results) {
                    *result = pending.wait().expect("no call here is refused").output;
                }
            }
        }
    }
}

impl Drop for Kumiki {
    fn drop(&mut self) {
        if !self.own.is_empty() {
            self.engine.shut_down_timeout(Duration::ZERO);
        }
        self.own.drain(..).for_each(|thread| drop(thread.join()));
    }
}
