//! Start, signals, end.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use kumiki_parasc::{Config, Engine};
use nix::sys::signal::{SigSet, Signal};

use crate::accept::{Limit, listen};
use crate::args::Args;
use crate::log::Log;
use crate::site::Site;
use crate::work::Files;
use crate::worker::{Control, Shared, Worker};

/// Serves until a signal ends it.
///
/// # Errors
/// The folder, an address, the log or a thread is not to be had. Then nothing was served.
pub fn run(args: &Args) -> Result<()> {
    // Before any thread: each is to have them blocked, and this one waits for them.
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    signals.thread_block().context("blocking signals")?;
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
        let serve = move || {
            if let Err(error) = worker.serve() {
                // The others go on; what is wrong with one is mostly wrong with all.
                eprintln!("kumiki-httpd: worker {at} has ended: {error:#}");
            }
        };
        let thread = thread::Builder::new().name(format!("worker-{at}")).spawn(serve);
        threads.push(thread.context("starting a worker")?);
        controls.push(control);
    }
    let folder = args.folder.display();
    eprintln!("kumiki-httpd: {folder} on {}, {workers} workers", addresses.join(", "));
    loop {
        match signals.wait() {
            Ok(Signal::SIGHUP) => {
                match shared.site.reload() {
                    Ok(()) => controls.iter().for_each(|control| control.reload()),
                    Err(error) => eprintln!("kumiki-httpd: all stays as it was: {error:#}"),
                }
                if let Some(log) = &log {
                    log.reopen();
                }
            }
            Ok(_) => break,
            Err(_) => (),
        }
    }
    controls.iter().for_each(|control| control.end());
    // A second signal ends it at once.
    let _ = signals.thread_unblock();
    for thread in threads {
        let _ = thread.join();
    }
    if let Some(log) = log {
        log.end();
    }
    Ok(())
}
