//! The calls of a batch made by whoever is free, through `kumiki-parasc`.

use kumiki_parasc::{Backend, Config, Engine, Operation, Policy, Requester, Result};

use super::Calls;

/// A requesting thread.
pub(crate) struct Batched {
    requester: Requester,
    /// Its threads live as long as it does.
    _engine: Engine,
}

impl Batched {
    /// Measures for some milliseconds what waking a thread costs here. Threads
    /// start with the first batch that is worth it.
    ///
    /// # Errors
    /// Those of [`Policy::from_env`], [`Engine::new`] and [`Engine::requester`].
    pub(crate) fn new() -> Result<Self> {
        let policy = Policy::from_env()?;
        let engine = Engine::new(&Config { backend: Backend::User, policy, ..Config::default() })?;
        Ok(Batched { requester: engine.requester()?, _engine: engine })
    }
}

impl Calls for Batched {
    fn make<O: Operation>(&mut self, batch: &mut [O], meanwhile: impl FnOnce()) -> Vec<O::Output> {
        let made = self.requester.run_while(batch, meanwhile);
        made.expect("an engine without an allow-list makes these calls").0
    }
}
