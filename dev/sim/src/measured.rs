//! Protocols on a simulated machine of two cpus beside the same code on two real ones.
//!
//! The time of a transfer is that by which the simulated raw round trip is the measured one.

use anyhow::{Context, Result, ensure};

use crate::machine::Machine;
use crate::place::Place;
use crate::protocol::{PROTOCOLS, Protocol};

/// The word alone, by which a transfer's time is known.
const RAW: &str = "raw";
/// Swaps of one after the other: a real owner keeps its line for many of them, a simulated one for
/// two or three. No protocol of Kumiki's does that, so it is told and not judged.
const CONTENDED: &str = "contended";
/// Turns of each protocol, with the raw word's before and after it: a guest's cpus move.
const ROUNDS: usize = 21;
/// Part by which simulated and measured times may differ.
const PART: f64 = 0.2;

/// Nanoseconds of a protocol here, and of the raw word in the same moments.
struct Measured {
    protocol: &'static Protocol,
    raw: f64,
    ns: f64,
}

/// Measures all protocols that two cpus have, and prints them beside their simulation.
///
/// # Errors
/// There are no two cpus; one protocol differs by more than [`PART`].
pub(crate) fn compare() -> Result<()> {
    let here = Place::here()?;
    let two = || PROTOCOLS.iter().filter(|protocol| protocol.sizes.contains(&2));
    let raw = two().find(|protocol| protocol.name == RAW).context("the raw word is a protocol")?;
    let rows: Vec<Measured> = two().filter(|p| p.name != RAW).map(|p| row(p, raw, &here)).collect();
    println!(
        "{:<12} {:>8} {:>10} {:>10} {:>10} {:>8}",
        "protocol", "raw", "transfer", "simulated", "measured", ""
    );
    let mut faults = Vec::new();
    for Measured { protocol, raw: line, ns } in &rows {
        let machine = machine(raw, *line);
        let simulated = time(protocol, &machine);
        let part = simulated / ns - 1.0;
        println!(
            "{:<12} {line:>8.0} {:>10.0} {simulated:>10.0} {ns:>10.0} {:>+7.1} %",
            protocol.name,
            machine.far,
            100.0 * part
        );
        if part.abs() > PART && protocol.name != CONTENDED {
            faults.push(protocol.name);
        }
    }
    ensure!(
        faults.is_empty(),
        "simulated and measured differ by more than {:.0} %: {}",
        100.0 * PART,
        faults.join(", ")
    );
    Ok(())
}

/// Medians of the turns of a protocol, and of the raw word beside them.
fn row(protocol: &'static Protocol, raw: &Protocol, here: &Place) -> Measured {
    let (mut lines, mut times) = (vec![(raw.run)(here).ns], Vec::new());
    for _ in 0..ROUNDS {
        times.push((protocol.run)(here).ns);
        lines.push((raw.run)(here).ns);
    }
    Measured { protocol, raw: median(&mut lines), ns: median(&mut times) }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn time(protocol: &Protocol, machine: &Machine) -> f64 {
    (protocol.run)(&Place::Simulated(machine.clone())).ns
}

/// A machine of two cpus on which the raw word takes `line`: the longer a transfer, the longer that.
fn machine(raw: &Protocol, line: f64) -> Machine {
    let (mut low, mut high) = (1.0, line);
    for _ in 0..20 {
        let middle = f64::midpoint(low, high);
        if time(raw, &Machine::flat(2, middle)) < line {
            low = middle;
        } else {
            high = middle;
        }
    }
    Machine::flat(2, f64::midpoint(low, high))
}
