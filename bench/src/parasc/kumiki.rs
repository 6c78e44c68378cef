//! Kumiki's parallel system calls.

use anyhow::Result;
use kumiki_parasc::{Config, Engine, Request, Requester};

use super::Execute;
use super::request::Kind;

/// An engine as it is by default, and its one requesting thread.
pub(crate) struct Kumiki {
    requester: Requester,
    /// Ends its threads on drop.
    _engine: Engine,
}

impl Kumiki {
    /// Makes the engine; for a handoff, one whose requesting thread leaves its
    /// calls to others.
    pub(crate) fn new(kind: Kind) -> Result<Self> {
        let config = Config { help: kind != Kind::Handoff, ..Config::default() };
        let engine = Engine::new(&config)?;
        Ok(Kumiki { requester: engine.requester()?, _engine: engine })
    }
}

impl Execute for Kumiki {
    #[inline(always)]
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        // SAFETY: the caller's promise.
        unsafe { self.requester.run_raw(requests, results) }.expect("no call here is refused");
    }
}
