//! Durable places: a restart, what a flush costs those who call, and a move under calls.
//!
//! There is no peer: each figure is of one place, against a bound.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use kumiki_measure::bench::Row;
use kumiki_places::durable::Disk;
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::{Allow, Lease, Parts, Served, Server};
use kumiki_resource::Interface;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use crate::case::Case;
use crate::pair::Pair;
use crate::run::{self, Turns};
use crate::subject::Subject;

mod flushes;
mod moves;
mod restart;

pub(crate) use self::moves::{PEER, serve_peer};

/// Cases.
pub(crate) const NAMES: [&str; 4] =
    ["place_restart", "place_flushes", "place_durable", "place_move"];

/// Restarts, each by a process of its own.
const RESTARTS: usize = 8;
/// Turns of each of the cases of flushes.
const TURNS: usize = 12;

/// A case with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "case")]
enum DurableRequest {
    /// A place of so many named counters is served again by a new process, until it has answered; milliseconds.
    Restart { counters: u64 },
    /// Calls under way at once, each answered when it is on the disk; flushes for all.
    Flushes { calls: u64 },
    /// Calls likewise; time until the last is answered beyond that at a place that is not durable, in flushes.
    Durable { calls: u64 },
    /// A place moves to another process, core and folder under so many calls a second; milliseconds without an answer.
    Move { calls_a_second: u64 },
}

impl Case for DurableRequest {
    fn name(self) -> &'static str {
        match self {
            DurableRequest::Restart { .. } => "place_restart",
            DurableRequest::Flushes { .. } => "place_flushes",
            DurableRequest::Durable { .. } => "place_durable",
            DurableRequest::Move { .. } => "place_move",
        }
    }

    fn size(self) -> Option<u64> {
        match self {
            DurableRequest::Restart { counters: n }
            | DurableRequest::Flushes { calls: n }
            | DurableRequest::Durable { calls: n }
            | DurableRequest::Move { calls_a_second: n } => Some(n),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            DurableRequest::Restart { .. } | DurableRequest::Move { .. } => "ms",
            DurableRequest::Flushes { .. } | DurableRequest::Durable { .. } => "flushes",
        }
    }
}

/// A place that is served; the interface goes last.
struct ServedPlace {
    served: Served,
    _interface: Interface,
}

impl ServedPlace {
    /// One place, managed by the thread that hears its requests, on this cpu.
    fn serve(server: Server, cpu: usize) -> Result<ServedPlace> {
        let interface = interface(cpu)?;
        let served = server.serve(&interface)?;
        Ok(ServedPlace { served, _interface: interface })
    }

    fn name(&self) -> Result<String> {
        Ok(self.served.names().first().context("a place")?.to_string())
    }
}

fn interface(cpu: usize) -> Result<Interface> {
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    Ok(builder.cores([]).adopted([cpu]).per_core()?)
}

/// A server of counters for processes of this machine.
fn server(host: &str) -> Server {
    let parts = Parts::new().durable::<Counter>().part::<Add>().part::<Get>();
    Server::here(host).parts(parts).allow(Allow::everything()).managing()
}

/// A server likewise, whose places are kept on the disk that this gives.
fn durable(
    host: &str,
    disk: impl Fn(&str) -> kumiki_places::Result<Arc<dyn Disk>> + Send + Sync + 'static,
) -> Server {
    server(host).durable_on(disk)
}

/// A machine's name that no other bench has.
fn host(of: &str) -> String {
    format!("bench{}{of}", std::process::id())
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

/// Serves as `subject`.
pub(crate) fn serve(subject: &str, argument: &Path, pair: Pair) -> Result<()> {
    match subject {
        restart::SUBJECT => restart::serve(argument, pair),
        flushes::SUBJECT => flushes::serve(pair),
        _ => bail!("there is no subject {subject:?}"),
    }
}

/// Measures these cases, or all.
pub(crate) fn rows(pair: Pair, only: &[&str]) -> Result<Vec<Row>> {
    let asked = |name: &str| only.is_empty() || only.contains(&name);
    let mut rows = Vec::new();
    if asked("place_restart") {
        rows.push(restarts(pair)?);
    }
    for case in [
        DurableRequest::Flushes { calls: flushes::CALLS },
        DurableRequest::Durable { calls: flushes::CALLS },
    ] {
        if asked(case.name()) {
            eprintln!("{}", case.name());
            let mut subject = start(flushes::SUBJECT, "", pair)?;
            let turns = (0..TURNS).map(|_| turn(&mut subject, case));
            rows.push(row(case, turns.collect::<Result<_>>()?));
        }
    }
    if asked("place_move") {
        eprintln!("place_move");
        let case = DurableRequest::Move { calls_a_second: moves::CALLS_A_SECOND };
        rows.push(row(case, moves::all(pair)?));
    }
    Ok(rows)
}

fn row(case: DurableRequest, samples: Vec<Vec<f64>>) -> Row {
    run::row(case, "kumiki", &Turns::of(samples), None)
}

fn start(who: &'static str, argument: &str, pair: Pair) -> Result<Subject> {
    let own = std::env::current_exe().context("finding our own program")?;
    let mut subject = Subject::start((own, who), "durable", who, pair, argument, Vec::new())?;
    subject.ready()?;
    Ok(subject)
}

fn turn(subject: &mut Subject, case: DurableRequest) -> Result<Vec<f64>> {
    subject.turn(&case)?.with_context(|| format!("{case:?} was not asked for"))
}

fn restarts(pair: Pair) -> Result<Row> {
    let folder = tempfile::tempdir().context("making a folder for a place")?;
    let host = host("restart");
    eprintln!("place_restart: {} counters are made", restart::COUNTERS);
    restart::fill(&host, folder.path(), pair)?;
    let argument = format!("{host}:{}", folder.path().display());
    let case = DurableRequest::Restart { counters: restart::COUNTERS };
    eprintln!("place_restart");
    let turns = (0..RESTARTS).map(|_| turn(&mut start(restart::SUBJECT, &argument, pair)?, case));
    Ok(row(case, turns.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_cases() {
        let cases = [
            DurableRequest::Restart { counters: 1 },
            DurableRequest::Flushes { calls: 1 },
            DurableRequest::Durable { calls: 1 },
            DurableRequest::Move { calls_a_second: 1 },
        ];
        assert_eq!(cases.map(Case::name), NAMES);
    }
}
