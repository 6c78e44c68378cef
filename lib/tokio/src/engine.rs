//! The process's engine, whose threads make what would sleep.

use std::io;
use std::sync::{Arc, OnceLock};

use kumiki_parasc::tries::Attempt;
use kumiki_parasc::{Completed, Config, Engine, Failed, Job};

static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();

/// Has the calls of this process that would sleep made by this engine, in place of one with the
/// default configuration.
///
/// # Errors
/// The engine, if another one is used already: by an earlier call of this, or by a file.
pub fn use_engine(engine: Arc<Engine>) -> Result<(), Arc<Engine>> {
    ENGINE.set(engine)
}

/// The engine of this process.
///
/// # Errors
/// It could not be made: memory is exhausted.
pub(crate) fn engine() -> io::Result<&'static Engine> {
    if let Some(engine) = ENGINE.get() {
        return Ok(engine);
    }
    // Nothing but the measuring of a sleep needs threads, which end before it returns; two
    // that come at once make two, one of which is dropped.
    let engine = Engine::new(&Config::default()).map_err(io::Error::other)?;
    let _ = ENGINE.set(Arc::new(engine));
    Ok(ENGINE.get().expect("set just now, or by another"))
}

/// Tries it; what would sleep is under way then.
pub(crate) fn attempt<J: Job + Send + 'static>(job: J) -> io::Result<Attempt<J>> {
    Ok(engine()?.attempt(job))
}

/// Awaits the result of calls.
pub(crate) async fn make<J: Job + Send + 'static>(job: J) -> io::Result<Completed<J>> {
    ended(attempt(job)?.await)
}

/// Hands it over without a try, and awaits it.
pub(crate) async fn hand_over<J: Job + Send + 'static>(job: J) -> io::Result<Completed<J>> {
    ended(engine()?.submit(job).await)
}

/// Results of ended calls; the engine's own errors are those of a file operation here.
pub(crate) fn ended<J: Job>(outcome: Result<Completed<J>, Failed<J>>) -> io::Result<Completed<J>> {
    outcome.map_err(|failed| io::Error::other(failed.error))
}

/// An argument that no call can be made with.
pub(crate) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
