//! What was simulated beside what a bench has measured on two cpus.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::machine::Machine;
use crate::place::Place;
use crate::protocol::{PROTOCOLS, Protocol};

/// Case of the bench, and its subjects: the line alone, and ours.
const CASE: &str = "fork_join_null";
const SUBJECTS: [&str; 2] = ["raw", "kumiki"];
/// Part by which the two may differ.
const PART: f64 = 0.2;

/// Compares fork and join with the rows that `cargo xtask bench shadow --json FILE` has written.
/// The time of a transfer is that by which the simulated raw round trip is the measured one.
///
/// # Errors
/// No such rows in `file`, or the two differ by more than [`PART`].
pub(crate) fn compare(file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let document: Value = serde_json::from_str(&text)?;
    let rows = document["rows"].as_array().context("a bench's result has rows")?;
    let median = |subject: &str| {
        let is = |row: &&Value| row["case"] == CASE && row["subject"] == subject;
        let median = rows.iter().find(is).and_then(|row| row["median"].as_f64());
        median.with_context(|| format!("{}: no row {CASE} of {subject}", file.display()))
    };
    let [raw, ours] = [median(SUBJECTS[0])?, median(SUBJECTS[1])?];
    let named = |name: &str| PROTOCOLS.iter().find(|protocol| protocol.name == name);
    let [line, fork] = ["raw", "fork"].map(|name| named(name).expect("it is in the table"));
    let ns = |protocol: &Protocol, transfer: f64| {
        (protocol.run)(&Place::Simulated(Machine::flat(2, transfer))).ns
    };
    // A round trip is a straight line over the time of a transfer.
    let [near, far] = [50.0, 150.0].map(|transfer| ns(line, transfer));
    let transfer = 50.0 + (raw - near) / (far - near) * 100.0;
    ensure!(
        transfer > 0.0,
        "a raw round trip of {raw} ns is less than an owner keeps a line twice"
    );
    let simulated = ns(fork, transfer);
    let differs = simulated / ours - 1.0;
    println!("raw round trip {raw:.0} ns: a transfer of {transfer:.0} ns");
    println!(
        "fork and join: simulated {simulated:.0} ns, measured {ours:.0} ns: {:+.1} %",
        100.0 * differs
    );
    ensure!(differs.abs() <= PART, "they differ by more than {:.0} %", 100.0 * PART);
    Ok(())
}
