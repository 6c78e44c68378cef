//! Start, signals, end.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use kumiki_parasc::{Config, Engine};
use kumiki_sys::affinity;
use kumiki_sys::sentence::with_causes;
use kumiki_wait::Capacity;
use nix::sys::signal::{SigSet, Signal};

use crate::accept::{listen, most_connections, most_kept};
use crate::args::Args;
use crate::counts::Counts;
use crate::devices::Devices;
use crate::failure::{FAILED, Failure};
use crate::kept::KeptFiles;
use crate::log::Log;
use crate::metrics::{self, Sources};
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
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let workers = match &args.cpu_list {
        Some(list) => {
            let allowed = affinity::current()?;
            for cpu in list {
                affinity::require(*cpu, &allowed).context("--cpu-list")?;
            }
            list.len()
        }
        None => args.workers.map_or(cpus, usize::from),
    };
    let places = Capacity::new(most_connections(args.connections, workers));
    let listeners = listen(&args.listen)?;
    let log = args.log.as_deref().map(|path| Log::open(path, &failure)).transpose()?;
    let engine = Arc::new(Engine::new(&Config::default())?);
    let devices = Arc::new(Devices::new(Arc::clone(&engine)));
    let addresses: Vec<_> =
        listeners.iter().filter_map(|it| it.local_addr().ok()).map(|it| it.to_string()).collect();
    let controls: Vec<_> = (0..workers).map(|_| Control::new()).collect::<Result<_>>()?;
    let counts = (0..workers).map(|_| Counts::default()).collect();
    let shared = Arc::new(Shared { site, listeners, places, controls, counts });
    if let Some(at) = &args.metrics {
        let (shared, devices) = (Arc::clone(&shared), Arc::clone(&devices));
        metrics::start(at, Arc::new(Sources { shared, devices, log: log.clone() }), &failure)?;
    }
    let mut threads = Vec::new();
    for at in 0..workers {
        let files = Files::new(Arc::clone(&engine), Arc::clone(&devices));
        let lines = log.as_ref().map(Log::lines);
        let kept = KeptFiles::new(most_kept(workers));
        let worker = Worker::new(Arc::clone(&shared), at, files, lines, kept)?;
        let failure = Arc::clone(&failure);
        let name = format!("worker-{at}");
        let cpu = args.cpu_list.as_ref().and_then(|list| list.get(at).copied());
        let serve = move || {
            failure.watch(&format!("worker {at}"), || {
                let _bound = cpu.map(affinity::bind).transpose()?;
                worker.serve()
            });
        };
        let thread = thread::Builder::new().name(name).spawn(serve);
        threads.push(thread.context("starting a worker")?);
    }
    let folder = args.folder.display();
    say(format_args!("{folder} on {}, {workers} workers", addresses.join(", ")));
    loop {
        match signals.wait() {
            Ok(Signal::SIGHUP) => {
                match shared.site.reload() {
                    Ok(()) => shared.controls.iter().for_each(Control::reload),
                    Err(error) => {
                        say(format_args!("all stays as it was: {}", with_causes(error.as_ref())))
                    }
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
    shared.controls.iter().for_each(Control::end);
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use clap::Parser;

    use super::*;
    use crate::dying::DIES;

    /// Exit status of the program after an error of its own.
    const FAILED: i32 = 1;
    /// Time within which a server ends one of whose workers has.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A worker that panics ends the process, by which a supervisor starts it anew. In a process of
    /// its own, which is this test once more: a server whose worker panics as it begins to serve.
    #[test]
    fn a_dead_worker_is_a_dead_server() {
        if std::env::var_os(DIES).is_some() {
            let folder = tempfile::tempdir().unwrap();
            let at =
                ["kumiki-httpd", "--workers=1", "--listen=127.0.0.1:0"].map(std::ffi::OsStr::new);
            let args = at.into_iter().chain([folder.path().as_os_str()]);
            let error = run(&Args::try_parse_from(args).unwrap()).unwrap_err();
            // As the program does.
            say(format_args!("{}", with_causes(error.as_ref())));
            std::process::exit(FAILED);
        }
        let test = "serve::tests::a_dead_worker_is_a_dead_server";
        // Tests do not run on the main thread, in which the program blocks the signal for all.
        let mut this = Command::new("env");
        this.arg("--block-signal=USR2").arg(std::env::current_exe().unwrap());
        this.args(["--exact", test, "--nocapture"]).env(DIES, "1");
        let mut child = this.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        // Of one that serves on without its worker.
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(FAILED), "{text}");
        let said = "worker 0 has ended, and so does the server: it has panicked";
        assert!(text.contains(said), "{text}");
    }
}
