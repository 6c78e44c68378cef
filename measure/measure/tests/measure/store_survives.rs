//! Processes that write a store: killed at any moment, or two at once. What
//! was acknowledged is there.
//!
//! The writer is this test binary, started again with [`DATABASE`] set.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kumiki_measure::schema::{Machine, Params, Run, Unit, Visit};
use kumiki_measure::store::{RunId, Store};
use rusqlite::Connection;

/// The database that a child writes to.
const DATABASE: &str = "KUMIKI_TEST_DATABASE";

/// How many visits it writes.
const VISITS: &str = "KUMIKI_TEST_VISITS";

/// Visits of the child that is killed: more than it ever gets to.
const ENDLESS: usize = 1_000_000;

/// The child: one run, acknowledged as `run ID`, and its visits, each
/// acknowledged as `visit N` once it is stored. Visit N holds N and 500 more.
#[test]
fn writer() {
    let (Some(database), Ok(visits)) = (std::env::var_os(DATABASE), std::env::var(VISITS)) else {
        return;
    };
    let mut store = Store::open(Path::new(&database)).unwrap();
    let id = store.begin(&Run::default(), &Machine::default()).unwrap();
    println!("\nrun {id}");
    for n in 0..visits.parse().unwrap() {
        let visit = Visit { batch: 1, samples: vec![n as f64; 501], ..Visit::default() };
        let case = ["a", "b", "c"][n % 3];
        store.visit(id, case, &Params::new(), Unit::Nanoseconds, &[0], n / 3, &visit).unwrap();
        println!("visit {n}");
    }
}

fn start(database: &Path, visits: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store_survives::writer", "--nocapture"])
        .env(DATABASE, database)
        .env(VISITS, visits.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The number in an acknowledgement of this kind.
fn number(line: &str, kind: &str) -> Option<i64> {
    line.strip_prefix(kind)?.strip_prefix(' ')?.parse().ok()
}

/// Checks that the first visits of a run are there, and nothing half-written.
fn check(database: &Path, id: RunId, acknowledged: usize) {
    let results = Store::open(database).unwrap().load(id).unwrap();
    let mut found: Vec<&Visit> = results.rows.iter().flat_map(|row| &row.visits).collect();
    found.sort_by(|a, b| a.samples[0].total_cmp(&b.samples[0]));
    assert!(found.len() >= acknowledged, "{} of {acknowledged} visits", found.len());
    for (n, visit) in found.iter().enumerate() {
        assert_eq!(visit.samples, vec![n as f64; 501]);
    }
    let connection = Connection::open(database).unwrap();
    let verdict: String =
        connection.query_row("PRAGMA integrity_check", [], |line| line.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
fn killed_writer_loses_nothing_that_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::new();
    let mut total = 0;
    for round in 0..20 {
        // Some databases are new, some have been left behind by a dead process.
        let database = folder.path().join(format!("{}.db", round % 5));
        let mut child = start(&database, ENDLESS);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Every fourth is killed while it starts and opens, the others within
        // a write.
        let enough = if round % 4 == 0 { 0 } else { rng.usize(1..200) };
        let (mut id, mut acknowledged) = (None, 0);
        while acknowledged < enough {
            let line = lines.next().expect("the writer goes on").unwrap();
            id = id.or(number(&line, "run").map(RunId));
            acknowledged += usize::from(number(&line, "visit").is_some());
        }
        std::thread::sleep(Duration::from_micros(
            rng.u64(0..if enough == 0 { 30_000 } else { 2_000 }),
        ));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts; a last line may be cut.
        for line in lines.map_while(Result::ok) {
            id = id.or(number(&line, "run").map(RunId));
            acknowledged += usize::from(number(&line, "visit").is_some());
        }
        match id {
            Some(id) => check(&database, id, acknowledged),
            None => drop(Store::open(&database).unwrap().list().unwrap()),
        }
        total += acknowledged;
    }
    assert!(total > 20, "the writers wrote");
}

#[test]
fn two_processes_write_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shared.db");
    for child in [start(&database, 150), start(&database, 150)] {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
    }
    let runs = Store::open(&database).unwrap().list().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run.rows, 3);
        check(&database, run.id, 150);
    }
}
