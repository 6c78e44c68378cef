//! Places of other processes, called by name, by sockets, by memory that the two processes share, and through a NATS server: each call is known
//! to have run once, not at all, or once at most; places are stopped, killed and started anew, and so
//! is the server, whose lines are cut.

mod caller;
mod ledger;
mod line_caller;
mod lines;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_places::standard::{Counter, parts};
use kumiki_places::{Allow, Client, Control, Nats, Server as PlaceServer};
use kumiki_resource::Interface;
use nix::sys::signal::Signal;

use crate::child::Server;
use crate::faults::{self, Calm, Fault};
use crate::ground::Ground;
use crate::soak::Soak;
use caller::Caller;
use ledger::{Calls, Ledger, Note};
use line_caller::LineCaller;
use lines::Lines;

/// Clients of each way, but by lines: these are threads that wait.
const CLIENTS: u64 = 6;
const THREADS: u64 = 3;
/// For so long a place that does not start is started again.
const AGAIN: Duration = Duration::from_secs(120);
/// Time limit of a call by NATS: that its place has died nobody tells it.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time limit of a call here, whose socket ends with the place: an answer that is lost is found before.
const PATIENCE_HERE: Duration = Duration::from_secs(20);

/// The rarest way to a place has at least so many calls to a hundred of the one that has most.
const RAREST: u64 = 5;

/// Serves one place of this name until it is killed: by NATS if there is a server's address.
pub(crate) fn serve(words: &[String]) -> Result<()> {
    let [_, name, effects, nats @ ..] = words else { anyhow::bail!("no name, no file") };
    let cpus = rustix::thread::sched_getaffinity(None).context("its cpus")?;
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu));
    let builder = Interface::builder().kind::<Counter>().kind::<Ledger>();
    let interface = builder.kind::<kumiki_places::Lease>().cores(first).per_core()?;
    let place = interface.places()[0];
    interface.create::<Ledger>(place, Some("effects"), PathBuf::from(effects))?;
    let server = match nats.first() {
        Some(url) => PlaceServer::new(Nats::at(url), name),
        None => PlaceServer::here(name),
    };
    let server = server.parts(parts().kind::<Ledger>().part::<Note>());
    let served = server.allow(Allow::everything()).serve(&interface)?;
    println!("it serves {}", served.names()[0]);
    loop {
        std::thread::park();
    }
}

/// A place and the process that serves it.
struct Place {
    words: Vec<String>,
    server: Mutex<Server>,
    name: String,
    calls: Arc<Calls>,
    calm: Arc<Calm>,
}

impl Place {
    fn new(soak: &Soak, ground: &Ground, way: &str, nats: Option<String>) -> Result<Place> {
        let calls = Calls::of(ground.path(&format!("effects-{way}")));
        let mut words = vec!["place".to_owned(), format!("soak-{way}-{}", std::process::id())];
        words.push(calls.path().to_string_lossy().into_owned());
        words.extend(nats);
        let (server, name) = start(&words)?;
        soak.watch_process(server.pid());
        let (server, calls, calm) = (Mutex::new(server), Arc::new(calls), Arc::default());
        Ok(Place { words, server, name, calls, calm })
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the effects, when nobody calls any more.
    fn finish(&self, soak: &Soak, way: &str) -> Result<()> {
        // It ends with the thread that has started it, and that one draws no faults any more.
        let server = self.server();
        soak.forget_process(server.pid());
        server.look_for_panic(soak);
        server.signal(Signal::SIGKILL)?;
        let status = server.wait(Duration::from_secs(60))?;
        ensure!(status.signal() == Some(9), "the place, {way}, has ended by itself: {status}");
        let effects = self.calls.compare().with_context(|| way.to_owned())?;
        soak.count_many(&format!("effects compared, {way}"), effects);
        for what in ["called", "counted exactly", "noted", "effects compared"] {
            ensure!(soak.counted(&format!("{what}, {way}")) > 0, "nothing was {what}, {way}");
        }
        Ok(())
    }
}

fn start(words: &[String]) -> Result<(Server, String)> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (server, line) = Server::start(&words, &[], |line| line.contains("it serves "))?;
    let place = line.rsplit(' ').next().context("no place")?.to_owned();
    Ok((server, place))
}

pub(crate) fn soak(soak: &'static Soak, ground: &Ground) -> Result<()> {
    let runtime = ::tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("a runtime")?;
    let by_sockets = Place::new(soak, ground, "sockets", None)?;
    let lines = Lines::start(soak)?;
    let by_nats = match &lines {
        Some(lines) => Some(Place::new(soak, ground, "nats", Some(lines.of_place()))?),
        None => None,
    };
    let (clients, connected) = runtime.block_on(async {
        let connected = match &lines {
            Some(lines) => Some(Client::connect(&Nats::at(lines.of_clients())).await?),
            None => None,
        };
        Ok::<_, anyhow::Error>((Client::here(), connected))
    })?;
    let control = Control::builder().build()?.with_timeout(PATIENCE_HERE);
    std::thread::scope(|threads| {
        let mut tasks = Vec::new();
        let mut call = |place: &Place, client: &Client, patience, way, first| {
            for number in first..first + CLIENTS {
                let caller = Caller {
                    soak,
                    client: client.with_timeout(patience),
                    place: place.name.clone(),
                    calls: Arc::clone(&place.calls),
                    way,
                    calm: Arc::clone(&place.calm),
                    number,
                    rng: soak.rng(number),
                };
                tasks.push(runtime.spawn(caller.run()));
            }
        };
        call(&by_sockets, &clients, PATIENCE_HERE, "by sockets", 0);
        let place = &by_sockets;
        for number in 0..THREADS {
            let (control, calm) = (control.clone(), Arc::clone(&place.calm));
            let place = place.name.clone();
            threads.spawn(move || LineCaller { soak, control, place, calm, number }.run());
        }
        threads.spawn(move || {
            let all = vec![stopped(place), killed(soak, place)];
            faults::draw_with_rests(soak, &place.calm, all, Duration::from_secs(1));
        });
        if let (Some(place), Some(client), Some(lines)) = (&by_nats, &connected, &lines) {
            call(place, client, PATIENCE, "by NATS", CLIENTS);
            threads.spawn(move || {
                let mut all = lines.faults(soak);
                all.extend([stopped(place), killed(soak, place)]);
                faults::draw_with_rests(soak, &place.calm, all, Duration::from_millis(700));
            });
        }
        soak.guard();
        runtime.block_on(async {
            for task in tasks {
                task.await.context("a client")?;
            }
            Ok::<_, anyhow::Error>(())
        })
    })?;
    let mut ways = vec!["by sockets", line_caller::WAY];
    ways.extend(by_nats.as_ref().map(|_| "by NATS"));
    let called = |way: &str| soak.counted(&format!("called, {way}"));
    let most = ways.iter().map(|way| called(way)).max().unwrap_or(0);
    for way in ways {
        let count = called(way);
        ensure!(count * 100 > most * RAREST, "{count} calls {way}, and {most} by another way");
    }
    by_sockets.finish(soak, "by sockets")?;
    by_nats.iter().try_for_each(|place| place.finish(soak, "by NATS"))
}

fn stopped(place: &Place) -> Fault<'_> {
    Fault::new("a place stopped by SIGSTOP", move |rng| {
        let server = place.server();
        server.signal(Signal::SIGSTOP)?;
        std::thread::sleep(Duration::from_millis(rng.u64(1..500)));
        server.signal(Signal::SIGCONT)
    })
}

fn killed<'a>(soak: &'a Soak, place: &'a Place) -> Fault<'a> {
    Fault::new("a place killed and started anew", move |rng| {
        let mut server = place.server();
        server.look(soak);
        server.signal(Signal::SIGKILL)?;
        server.wait(Duration::from_secs(60))?;
        soak.forget_process(server.pid());
        std::thread::sleep(Duration::from_millis(rng.u64(..300)));
        // A line that is cut just then, or a machine that is too busy, keeps it from its NATS server:
        // it ends, and who watches over it starts it again.
        let begun = Instant::now();
        *server = loop {
            match start(&place.words) {
                Ok((server, _)) => break server,
                Err(_) if begun.elapsed() < AGAIN => soak.count("a place started once more"),
                Err(error) => return Err(error),
            }
        };
        soak.watch_process(server.pid());
        Ok(())
    })
}
