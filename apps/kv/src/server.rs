//! The server: its workers, and signals.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kumiki_resource::Interface;
use kumiki_sys::sentence::with_causes;
use kumiki_wait::PollBell;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::Args;
use crate::kept::Kept;
use crate::room::LONGEST;
use crate::say::{DIED, say};
use crate::shard::Shard;
use crate::shared::{Shared, StartSettings, client_memory};
use crate::store::Hash;
use crate::worker::{self, Start};
use crate::{listen, metrics};

/// Time for which answers are sent after the signal to end.
const GRACE: Duration = Duration::from_secs(5);

/// A server whose clients can come.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    cpus: Vec<usize>,
    shared: Arc<Shared>,
    bells: Arc<Vec<PollBell>>,
    drained: Receiver<()>,
    unix: Option<PathBuf>,
}

/// Serves until a signal ends it.
///
/// # Errors
/// It cannot start.
pub fn run(args: &Args) -> Result<()> {
    // Before there are threads that could be interrupted instead.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("hearing signals")?;
    let server = Server::start(args)?;
    let addresses: Vec<String> = server.addresses.iter().map(SocketAddr::to_string).collect();
    let (addresses, cpus) = (addresses.join(","), &server.cpus);
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "kumiki-kv: serving {addresses} on cpus {cpus:?}");
    let _ = stdout.flush();
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        match server.shared.read_password() {
            Ok(()) => say(format_args!("SIGHUP: the password was read again")),
            Err(error) => {
                say(format_args!("SIGHUP: the old password stays: {}", with_causes(error.as_ref())))
            }
        }
    }
    // Who tells it once more does not want to wait for those who take no answers.
    let again = move || {
        let ends = |signal: &i32| *signal != SIGHUP;
        signals.forever().find(ends).map(signal_hook::low_level::emulate_default_handler)
    };
    thread::Builder::new().name("again".to_owned()).spawn(again).context("hearing signals")?;
    server.end();
    Ok(())
}

impl Server {
    /// Starts a worker on each cpu; they serve as long as the process lives.
    ///
    /// # Errors
    /// A cpu that is not there, an address that is taken, no descriptor left, settings that
    /// contradict each other.
    pub fn start(args: &Args) -> Result<Server> {
        let open = |workers| match &args.durable {
            Some(folder) => Kept::open(folder, workers).map(|kept| Some(Arc::new(kept))),
            None => Ok(None),
        };
        Server::start_on(args, open)
    }

    /// Starts it with the log that is opened for so many workers.
    pub(crate) fn start_on(
        args: &Args,
        open: impl FnOnce(usize) -> Result<Option<Arc<Kept>>>,
    ) -> Result<Server> {
        let is_pinned = args.cpu_list.is_some();
        let cpus = match &args.cpu_list {
            Some(cpus) => cpus.clone(),
            None => kumiki_sys::affinity::current()?.iter().take(1).collect(),
        };
        ensure!(!cpus.is_empty(), "--cpu-list names no cpu");
        ensure!(args.clients > 0, "--clients is 0: nobody could come");
        ensure!(
            (1024..=LONGEST).contains(&args.longest),
            "--longest is {} bytes: 1K to 512M are possible",
            args.longest
        );
        let workers = cpus.len();
        let least = 2 * workers * client_memory(0, args.longest);
        ensure!(
            args.memory >= least,
            "--memory is {} bytes: with --longest {} and {workers} shards it must be {least} at least",
            args.memory,
            args.longest
        );
        let shared = Arc::new(Shared::new(StartSettings {
            workers,
            memory: args.memory,
            clients: descriptors(args.clients, workers),
            timeout: args.timeout,
            is_protected: args.protected_mode.0,
            longest: args.longest,
            bind: args.bind.iter().map(ToString::to_string).collect(),
            unix: args.unix.clone(),
            password_file: args.password_file.clone(),
            kept: open(workers)?,
        })?);
        let mut listeners: Vec<Vec<OwnedFd>> = (0..workers).map(|_| Vec::new()).collect();
        let (mut addresses, mut port) = (Vec::new(), args.port);
        for bind in &args.bind {
            let (address, sockets) = listen::tcp(SocketAddr::new(*bind, port), workers)?;
            // The port of the first, if any would do.
            port = address.port();
            addresses.push(address);
            listeners.iter_mut().zip(sockets).for_each(|(its, socket)| its.push(socket));
        }
        shared.port.store(port.into(), Relaxed);
        let unix = args.unix.as_ref().map(|path| listen::unix(path, args.unix_mode)).transpose()?;
        let builder = Interface::builder().kind::<Shard>().cores([]);
        let interface = builder.adopted(cpus.iter().copied()).per_core()?;
        let places = interface.places();
        let bells: Arc<Vec<PollBell>> = Arc::new(
            places
                .iter()
                .map(|_| PollBell::new().context("a bell of a worker"))
                .collect::<Result<_>>()?,
        );
        if let Some(at) = &args.metrics {
            metrics::start(at, Arc::clone(&shared))?;
        }
        let (all_there, hash) = (Arc::new(Barrier::new(workers)), Hash::default());
        let ((report, reports), (drain, drained)) = (channel(), channel());
        for ((own, place), listeners) in places.iter().copied().enumerate().zip(listeners) {
            let unix = unix.as_ref().map(OwnedFd::try_clone).transpose()?;
            let start = Start {
                interface: interface.clone(),
                place,
                own,
                is_pinned,
                bells: Arc::clone(&bells),
                shared: Arc::clone(&shared),
                hash: hash.clone(),
                all_there: Arc::clone(&all_there),
                listeners,
                unix,
                drained: drain.clone(),
            };
            let report = report.clone();
            let run = move || {
                let _death = Death(own);
                match worker::begin(start) {
                    Ok(mut worker) => {
                        let _ = report.send(Ok(()));
                        drop(report);
                        kumiki_sys::event!("a worker serves");
                        let error = worker.serve();
                        died(own, format_args!("{}", with_causes(error.as_ref())));
                    }
                    Err(error) => _ = report.send(Err(error)),
                }
            };
            let builder = thread::Builder::new().name(format!("kv-{}", place.0));
            builder.spawn(run).context("starting a worker")?;
        }
        drop(report);
        for started in reports {
            started?;
        }
        let unix = args.unix.clone();
        Ok(Server { addresses, cpus, shared, bells, drained, unix })
    }

    /// Addresses at which clients come.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes no new client, and lets the others go when they have their answers.
    fn end(&self) {
        self.shared.ends.store(true, Relaxed);
        self.bells.iter().for_each(PollBell::ring);
        for _ in self.bells.iter() {
            // Those that do not take their answers are not waited for.
            if self.drained.recv_timeout(GRACE).is_err() {
                break;
            }
        }
        if let Some(kept) = &self.shared.kept {
            kept.end();
        }
        if let Some(path) = &self.unix {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Ends the process when its thread panics: a port that nobody serves would be worse.
struct Death(usize);

impl Drop for Death {
    fn drop(&mut self) {
        if thread::panicking() {
            died(self.0, format_args!("a panic, of which the message stands above"));
        }
    }
}

fn died(worker: usize, why: std::fmt::Arguments<'_>) -> ! {
    say(format_args!(
        "worker {worker} has ended: {why}; the server ends with status {DIED}, by which its unit \
         starts it anew"
    ));
    std::process::exit(DIED)
}

/// Raises the limit of descriptors, and gives the clients that there can be.
fn descriptors(clients: usize, workers: usize) -> usize {
    // What else the process has.
    let others = 32 + 8 * workers as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = getrlimit(Resource::Nofile).current.or(current).unwrap_or(u64::MAX);
    let most = usize::try_from(files.saturating_sub(others)).unwrap_or(usize::MAX).max(1);
    if most < clients {
        say(format_args!(
            "{most} clients at most, not {clients}: the limit of open files (ulimit -n) is {files}"
        ));
    }
    clients.min(most)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use clap::Parser;

    use super::*;
    use crate::dying::DIES;

    /// Time within which a server ends one of whose workers has.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A worker that panics ends the process, by which a supervisor starts it anew. In a process of
    /// its own, which is this test once more: a server whose worker panics as it begins to serve.
    #[test]
    fn a_dead_worker_is_a_dead_server() {
        if std::env::var_os(DIES).is_some() {
            let args = Args::try_parse_from(["kumiki-kv", "--port", "0"]).unwrap();
            return run(&args).unwrap();
        }
        let test = "server::tests::a_dead_worker_is_a_dead_server";
        let mut this = Command::new(std::env::current_exe().unwrap());
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
        assert_eq!(output.status.code(), Some(DIED), "{text}");
        assert!(text.contains("kumiki-kv: worker 0 has ended: a panic"), "{text}");
        assert!(text.contains("the server ends with status 70"), "{text}");
    }
}
