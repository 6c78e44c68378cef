//! The table of counts, and its comparison with the one that is kept.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::machine::Machine;
use crate::place::Place;
use crate::protocol::{PROTOCOLS, Protocol};
use crate::report::Report;

/// Counts as they were last accepted: protocol, cpus, data, upgrades, worst line.
const KEPT: &str = include_str!("../counts.txt");
/// A count may differ from the kept one by this part of it, and by [`LEAST`]: where threads
/// contend for a line, a stack elsewhere changes who comes first.
const PART: f64 = 0.03;
const LEAST: f64 = 0.05;

/// Prints the protocols named by `words`, or all; with `--check` compares them with the kept ones.
///
/// # Errors
/// A word that names no protocol.
pub fn table(words: impl Iterator<Item = String>) -> Result<ExitCode> {
    let (mut check, mut keep, mut wanted) = (false, false, Vec::new());
    let mut own = Own::default();
    let mut words = words;
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().with_context(|| format!("{word} takes a number"))?;
            value.parse::<f64>().with_context(|| format!("{word} {value}: no number"))
        };
        match word.as_str() {
            "--against" => {
                let file = words.next().context("--against takes a file")?;
                crate::against::compare(std::path::Path::new(&file))?;
                return Ok(ExitCode::SUCCESS);
            }
            "--measured" => {
                crate::measured::compare()?;
                return Ok(ExitCode::SUCCESS);
            }
            "--predict" => {
                crate::predict::predict();
                return Ok(ExitCode::SUCCESS);
            }
            "--check" => check = true,
            "--keep" => keep = true,
            "--cpus" => own.cpus = Some(number()? as usize),
            "--near" => own.near = Some(number()?),
            "--far" => own.far = Some(number()?),
            _ => wanted.push(word),
        }
    }
    ensure!(
        !own.is_any() || !(check || keep),
        "what is kept is of the machines that are always counted"
    );
    let names: Vec<_> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
    for word in &wanted {
        ensure!(
            names.contains(&word.as_str()),
            "no protocol is called {word}: {}",
            names.join(", ")
        );
    }
    let kept = kept(KEPT)?;
    let (mut faults, mut lines) = (Vec::new(), String::new());
    println!(
        "{:<12} {:>5} {:>10} {:>10} {:>10}  {:<18} {:>12}",
        "protocol", "cpus", "data", "upgrades", "worst", "by", "ns"
    );
    for protocol in
        PROTOCOLS.iter().filter(|p| wanted.is_empty() || wanted.iter().any(|w| w == p.name))
    {
        for cpus in own.sizes(protocol.sizes) {
            let report = (protocol.run)(&Place::Simulated(own.machine(cpus)));
            let Report { data, upgrades, worst, ref place, ns, .. } = report;
            println!(
                "{:<12} {cpus:>5} {data:>10.2} {upgrades:>10.2} {worst:>10.2}  {place:<18} {ns:>12.0}",
                protocol.name
            );
            writeln!(lines, "{} {cpus} {data:.2} {upgrades:.2} {worst:.2}", protocol.name)?;
            let found = Counted::of(protocol, cpus, &report);
            faults.extend(compared(&kept, &found));
        }
    }
    if keep {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/counts.txt"), lines)?;
    }
    if check && !faults.is_empty() {
        eprintln!("error: counts differ from dev/sim/counts.txt:\n  {}", faults.join("\n  "));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Machine that is asked for in place of those that are always counted.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    cpus: Option<usize>,
    near: Option<f64>,
    far: Option<f64>,
}

impl Own {
    fn is_any(self) -> bool {
        self.cpus.is_some() || self.near.is_some() || self.far.is_some()
    }

    fn sizes(self, all: &[usize]) -> Vec<usize> {
        match self.cpus {
            // What needs two cpus has no more use for others.
            Some(cpus) if all.len() > 1 => vec![cpus],
            _ => all.to_vec(),
        }
    }

    fn machine(self, cpus: usize) -> Machine {
        let mut machine = if cpus == 2 { Machine::flat(2, 100.0) } else { Machine::of(cpus) };
        if let (Some(near), Some(group)) = (self.near, machine.groups.first_mut()) {
            group.1 = near;
        }
        machine.far = self.far.unwrap_or(machine.far);
        machine
    }
}

/// A row of counts.
#[derive(Clone, Debug, PartialEq)]
struct Counted {
    name: String,
    cpus: usize,
    /// Data, upgrades, worst line.
    counts: [f64; 3],
}

impl Counted {
    fn of(protocol: &Protocol, cpus: usize, report: &Report) -> Self {
        let counts = [report.data, report.upgrades, report.worst];
        Counted { name: protocol.name.to_owned(), cpus, counts }
    }
}

fn kept(text: &str) -> Result<Vec<Counted>> {
    text.lines().map(|line| row(line).with_context(|| format!("counts.txt: {line}"))).collect()
}

fn row(line: &str) -> Result<Counted> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [name, cpus, data, upgrades, worst] = words[..] else {
        bail!("a row has five words");
    };
    let counts = [data.parse()?, upgrades.parse()?, worst.parse()?];
    Ok(Counted { name: name.to_owned(), cpus: cpus.parse()?, counts })
}

/// Says where a row differs from the one that is kept.
fn compared(kept: &[Counted], found: &Counted) -> Vec<String> {
    let Counted { name, cpus, counts } = found;
    let Some(row) = kept.iter().find(|row| row.name == *name && row.cpus == *cpus) else {
        return vec![format!("{name} at {cpus} cpus is not there")];
    };
    let pairs = ["data", "upgrades", "worst line"].iter().zip(counts.iter().zip(row.counts));
    pairs
        .filter(|(_, (now, then))| (*now - then).abs() > then * PART + LEAST)
        .map(|(what, (now, then))| format!("{name} at {cpus} cpus: {what} {now:.2}, was {then:.2}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A test for each protocol: all in one take minutes beside others.
    macro_rules! kept {
        ($($test:ident $name:literal)*) => {
            mod counts_are_as_they_are_kept {
                $(#[test]
                fn $test() {
                    super::counts_are_kept($name);
                })*
            }
            const TESTED: &[&str] = &[$($name),*];
        };
    }
    kept! {
        raw "raw"
        contended "contended"
        lane "lane"
        two_lines "two-lines"
        fork "fork"
        broadcast "broadcast"
        lanes "lanes"
        for_each "for-each"
        barrier "barrier"
        meet "meet"
        meet_counter "meet-counter"
        meet_groups "meet-groups"
        meet_tree "meet-tree"
        meet_spread "meet-spread"
        split "split"
        owner "owner"
        each "each"
        claims "claims"
        claims_two "claims-two"
    }

    /// Runs it there; one at a time, as a process has one account of the cpus that shadows take.
    fn run(protocol: &Protocol, cpus: usize) -> Report {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        (protocol.run)(&Place::Simulated(Own::default().machine(cpus)))
    }

    fn counts_are_kept(name: &str) {
        let kept = kept(KEPT).unwrap();
        let protocol = PROTOCOLS.iter().find(|protocol| protocol.name == name).unwrap();
        let counted =
            protocol.sizes.iter().map(|cpus| Counted::of(protocol, *cpus, &run(protocol, *cpus)));
        let faults: Vec<_> = counted.flat_map(|found| compared(&kept, &found)).collect();
        assert_eq!(faults, [""; 0]);
    }

    #[test]
    fn each_protocol_has_a_test() {
        let names: Vec<_> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        assert_eq!(names, TESTED);
    }

    /// Nanoseconds of a protocol on so many cpus.
    fn ns(name: &str, cpus: usize) -> f64 {
        let protocol = PROTOCOLS.iter().find(|protocol| protocol.name == name).unwrap();
        run(protocol, cpus).ns
    }

    /// Groups move their lines at the same time.
    #[test]
    fn a_team_joins_64_in_half_of_the_time_that_a_line_a_helper_takes() {
        let (team, lanes) = (ns("broadcast", 64), ns("lanes", 64));
        assert!(team < 0.5 * lanes, "{team} {lanes}");
    }

    #[test]
    fn a_barrier_of_64_takes_at_most_one_and_a_half_of_the_best_that_is_published() {
        let published = ["meet-counter", "meet-groups", "meet-tree", "meet-spread"];
        let best = published.map(|name| ns(name, 64)).into_iter().reduce(f64::min).unwrap();
        let ours = ns("meet", 64);
        assert!(ours <= 1.5 * best, "{ours} {best}");
    }

    #[test]
    fn an_owner_answers_no_more_the_more_there_are_who_ask() {
        let [few, many] = [64, 256].map(|cpus| ns("owner", cpus));
        // A request's work, and a line between two groups.
        assert!(
            (0.9..1.1).contains(&(many / few)) && (200.0..450.0).contains(&many),
            "{few} {many}"
        );
    }

    #[test]
    fn a_transfer_more_is_a_fault_with_the_rows_name() {
        let kept = kept("fork 2 2.00 2.00 4.00\n").unwrap();
        let found = |data| Counted { name: "fork".to_owned(), cpus: 2, counts: [data, 2.0, 4.0] };
        assert_eq!(compared(&kept, &found(2.0)), [""; 0]);
        assert_eq!(compared(&kept, &found(3.0)), ["fork at 2 cpus: data 3.00, was 2.00"]);
        assert_eq!(compared(&[], &found(2.0)), ["fork at 2 cpus is not there"]);
    }
}
