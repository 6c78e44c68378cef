//! Start, signals, end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use kumiki_parasc::{Config, Engine};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::accept::{Limit, listen};
use crate::args::Args;
use crate::log::Log;
use crate::say::say;
use crate::site::Site;
use crate::work::Files;
use crate::worker::{Control, Shared, Worker};

/// Serves until a signal ends it.
///
/// # Errors
/// The folder, an address, the log or a thread is not to be had. Then nothing was served.
pub fn run(args: &Args) -> Result<()> {
    // Before any thread: each is to have them blocked, and this one waits for them.
    let theirs: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    let mut signals = theirs;
    signals.add(FAILED);
    signals.thread_block().context("blocking signals")?;
    let failure = Arc::new(Failure::default());
    let site = Site::open(args)?;
    let limit = Limit::new(args.connections as usize);
    let listeners = listen(&args.listen)?;
    let log = args.log.as_deref().map(Log::open).transpose()?;
    let engine = Arc::new(Engine::new(&Config::default())?);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let workers = args.workers.map_or(cpus, usize::from);
    let addresses: Vec<_> =
        listeners.iter().filter_map(|it| it.local_addr().ok()).map(|it| it.to_string()).collect();
    let shared = Arc::new(Shared { site, listeners, limit });
    let (mut controls, mut threads) = (Vec::new(), Vec::new());
    for at in 0..workers {
        let control = Arc::new(Control::new()?);
        let files = Files::new(Arc::clone(&engine));
        let lines = log.as_ref().map(Log::lines);
        let worker = Worker::new(Arc::clone(&shared), Arc::clone(&control), files, lines)?;
        let failure = Arc::clone(&failure);
        let name = format!("worker-{at}");
        let serve = move || failure.watch(&format!("worker {at}"), || worker.serve(), tell);
        let thread = thread::Builder::new().name(name).spawn(serve);
        threads.push(thread.context("starting a worker")?);
        controls.push(control);
    }
    let folder = args.folder.display();
    say(format_args!("{folder} on {}, {workers} workers", addresses.join(", ")));
    loop {
        match signals.wait() {
            Ok(Signal::SIGHUP) => {
                match shared.site.reload() {
                    Ok(()) => controls.iter().for_each(|control| control.reload()),
                    Err(error) => say(format_args!("all stays as it was: {error:#}")),
                }
                if let Some(log) = &log {
                    log.reopen();
                }
            }
            // Sent by somebody else it means nothing.
            Ok(FAILED) if !failure.is_there() => (),
            Ok(_) => break,
            Err(_) => (),
        }
    }
    controls.iter().for_each(|control| control.end());
    // A second signal ends it at once.
    let _ = theirs.thread_unblock();
    for thread in threads {
        let _ = thread.join();
    }
    if let Some(log) = log {
        log.end();
    }
    failure.result()
}

/// Signal by which a worker that has ended tells the main thread: no other thread does
/// anything at it.
const FAILED: Signal = Signal::SIGUSR2;

fn tell() {
    let _ = kill(Pid::this(), FAILED);
}

/// Why the server has to end, if it has: without one of its threads it would be a port that takes
/// connections and never answers, which nobody starts anew.
#[derive(Debug, Default)]
struct Failure(Mutex<Option<String>>);

impl Failure {
    /// Does a thread's work; its end but by [`Ok`] is the server's, which it then tells.
    fn watch(&self, thread: &str, work: impl FnOnce() -> Result<()>, tell: impl FnOnce()) {
        // What is left of the work is not used any more.
        let why = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            // The message was said when it happened.
            Err(_) => "it has panicked".to_owned(),
        };
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("{thread} has ended, and so does the server: {why}"));
        drop(first);
        tell();
    }

    fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// # Errors
    /// If there is one: the process ends by a status at which a service manager starts it anew.
    fn result(&self) -> Result<()> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(why) => bail!("{why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_by_an_error_or_a_panic_is_the_servers_end() {
        for (work, said) in [
            (
                (|| bail!("no more")) as fn() -> Result<()>,
                "worker 7 has ended, and so does the server: no more",
            ),
            (|| panic!("made up"), "worker 7 has ended, and so does the server: it has panicked"),
        ] {
            let (failure, mut told) = (Failure::default(), 0);
            failure.watch("worker 7", work, || told += 1);
            assert!(told == 1 && failure.is_there());
            assert_eq!(failure.result().unwrap_err().to_string(), said);
        }
        let failure = Failure::default();
        failure.watch("worker 7", || Ok(()), || panic!("told of an end that was asked for"));
        assert!(failure.result().is_ok());
    }
}
