//! A place of another process, called by name: each call adds one and is known to have run once, not
//! at all, or once at most; the place is stopped, killed and started anew.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kumiki_places::standard::{Add, Counter, Get, parts};
use kumiki_places::{Allow, Client, Error, Server as PlaceServer};
use kumiki_resource::Interface;
use nix::sys::signal::Signal;

use crate::child::Server;
use crate::faults::{self, Fault};
use crate::soak::Soak;

const CLIENTS: u64 = 8;
/// Calls to one counter, at most; then there is another one.
const CALLS: u32 = 300;
/// A place that is away is back within this, as it is started anew at once.
const AWAY: Duration = Duration::from_secs(4);

/// Serves one place of this name until it is killed.
pub(crate) fn serve(words: &[String]) -> Result<()> {
    let name = words.get(1).context("no name")?;
    let cpus = rustix::thread::sched_getaffinity(None).context("its cpus")?;
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu));
    let builder = Interface::builder().kind::<Counter>().kind::<kumiki_places::Lease>();
    let interface = builder.cores(first).per_core()?;
    let server = PlaceServer::here(name).parts(parts()).allow(Allow::everything());
    let served = server.serve(&interface)?;
    println!("it serves {}", served.names()[0]);
    loop {
        std::thread::park();
    }
}

fn start(name: &str) -> Result<(Server, String)> {
    let (server, line) = Server::start(&["place", name], &[], |line| line.contains("it serves "))?;
    let place = line.rsplit(' ').next().context("no place")?.to_owned();
    Ok((server, place))
}

pub(crate) fn soak(soak: &'static Soak) -> Result<()> {
    let name = format!("soak{}", std::process::id());
    let (server, place) = start(&name)?;
    soak.watch_process(server.pid());
    let server = Mutex::new(server);
    let runtime = ::tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("a runtime")?;
    std::thread::scope(|threads| {
        let (server, name, place) = (&server, &name, &place);
        threads.spawn(move || {
            faults::draw(
                soak,
                vec![stopped(server), killed(soak, server, name)],
                Duration::from_secs(1),
            );
        });
        let tasks: Vec<_> =
            (0..CLIENTS).map(|number| runtime.spawn(client(soak, place.clone(), number))).collect();
        soak.guard();
        runtime.block_on(async {
            for task in tasks {
                task.await.context("a client")?;
            }
            Ok::<_, anyhow::Error>(())
        })
    })?;
    for what in ["called", "counted exactly"] {
        ensure!(soak.counted(what) > 0, "nothing was {what}");
    }
    Ok(())
}

fn stopped<'a>(server: &'a Mutex<Server>) -> Fault<'a> {
    Fault::new("stopped by SIGSTOP", move |rng| {
        let server = server.lock().unwrap_or_else(PoisonError::into_inner);
        server.signal(Signal::SIGSTOP)?;
        std::thread::sleep(Duration::from_millis(rng.u64(1..500)));
        server.signal(Signal::SIGCONT)
    })
}

fn killed<'a>(soak: &'a Soak, server: &'a Mutex<Server>, name: &'a str) -> Fault<'a> {
    Fault::new("killed and started anew", move |rng| {
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        server.look(soak);
        server.signal(Signal::SIGKILL)?;
        server.wait(Duration::from_secs(10))?;
        soak.forget_process(server.pid());
        std::thread::sleep(Duration::from_millis(rng.u64(..300)));
        *server = start(name)?.0;
        soak.watch_process(server.pid());
        Ok(())
    })
}

async fn client(soak: &'static Soak, place: String, number: u64) {
    let client = Client::here().with_timeout(Duration::from_secs(3));
    let mut counter = 0;
    while !soak.is_over() {
        if let Err(error) = count(soak, &client, &place, number, counter).await {
            soak.fail(&format!("client {number}: {error:#}"));
        }
        counter += 1;
    }
}

/// Whether an error says that nothing was done, or that nobody knows; any other one is a fault.
fn was_not_done(error: &Error) -> Result<bool> {
    match error {
        Error::Gone { .. } | Error::NotSent { .. } => Ok(true),
        Error::Refused { why: kumiki_places::wire::Why::Stale, .. } => Ok(true),
        Error::Unknown { .. } => Ok(false),
        other => bail!("{other}"),
    }
}

/// Makes a counter and counts with it until its place has gone.
async fn count(soak: &Soak, client: &Client, place: &str, number: u64, counter: u64) -> Result<()> {
    let unique = format!("c{number}-{counter}");
    let waits = soak.request(format!("a counter {unique}"));
    let made = client.create::<Counter>(place, Some(&unique), 0).await;
    drop(waits);
    let remote = match made {
        Ok(remote) => remote,
        Err(error) => {
            soak.count(if was_not_done(&error)? { "not done" } else { "unknown" });
            ::tokio::time::sleep(Duration::from_millis(20)).await;
            return Ok(());
        }
    };
    let (mut done, mut unknown) = (0, 0);
    for call in 0..CALLS {
        let waits = soak.request(format!("call {call} of {unique}"));
        let asked = match call % 4 {
            3 => client.call::<Get>(&remote, ()).await,
            _ => client.call::<Add>(&remote, 1).await.inspect(|_| done += 1),
        };
        drop(waits);
        match asked {
            Ok(value) => {
                let fits = (done..=done + unknown).contains(&value);
                ensure!(
                    fits,
                    "{unique} is {value}: {done} have run, and of {unknown} nobody knows"
                );
                soak.count("called");
                if unknown == 0 {
                    soak.count("counted exactly");
                }
            }
            Err(error) if was_not_done(&error)? => {
                soak.count("not done");
                // The place has gone, and what it counted; or it was not reached.
                return Ok(());
            }
            Err(_) => {
                soak.count("unknown");
                unknown += i64::from(call % 4 != 3);
            }
        }
        if soak.is_over() {
            break;
        }
    }
    // One that cannot be reached keeps its counter, which its end frees.
    let _waits = soak.request(format!("the end of {unique}"));
    let ended = ::tokio::time::timeout(AWAY, client.destroy(remote)).await;
    match ended.context("its end has no answer")? {
        Ok(()) => Ok(()),
        Err(error) => was_not_done(&error).map(drop),
    }
}
