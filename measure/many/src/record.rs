//! All that was measured, with the machine's shape and nothing that says whose it is.

use kumiki_measure::error::{Error, Result};
use kumiki_measure::round_trip::RoundTrip;
use kumiki_measure::stats::describe::median_of;
use kumiki_sys::affinity;
use kumiki_sys::clock::Clock;
use kumiki_sys::cpu::Features;
use kumiki_sys::topology::{Relation, Topology};
use serde::Serialize;

use crate::calls::CALLS;
use crate::curve::{Curve, curve, joint};
use crate::joint::JOINTS;
use crate::prediction::{Predicted, predicted};
use crate::teams::{Team, teams};
use crate::{Effort, Say, order};

/// A run on one machine.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Version of this format: 1.
    pub schema: u32,
    /// The machine's shape.
    pub machine: Machine,
    /// Raw round trips of a line from the first cpu, the nearest first.
    pub lines: Vec<Lines>,
    /// A curve a call, and one for each thing that threads do together.
    pub curves: Vec<Curve>,
    /// A row a size.
    pub teams: Vec<Team>,
    /// The teams beside what was predicted.
    pub predictions: Vec<Predicted>,
}

/// Shape of a machine. Names, addresses and serial numbers are left out, and of the kernel's release all but its number.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// Hypervisor that it is a guest of, if it is one.
    pub hypervisor: Option<String>,
    /// The kernel's version: digits and dots.
    pub kernel: String,
    /// Cpus that take part.
    pub cpus: usize,
    /// Cores online.
    pub cores: usize,
    /// Hardware threads of a core.
    pub threads_per_core: usize,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Runnable tasks a minute on average, when it began.
    pub load: Option<f64>,
}

/// Lines of one distance.
#[derive(Clone, Debug, Serialize)]
pub struct Lines {
    /// Nearest thing that the two cpus have in common: `core`, `cache 3`, `node`, `package` or `machine`.
    pub common: String,
    /// Nanoseconds there and back, the median.
    pub round_trip_ns: f64,
}

/// Measures everything on all cpus that this process may use.
///
/// # Errors
/// A call that cannot be made here, a cpu that cannot be used, no memory for threads.
pub fn record(effort: Effort, say: Say<'_>) -> Result<Record> {
    let topology = Topology::read()?;
    let cpus = order::order(&topology, &affinity::current()?);
    let machine = machine(&topology, cpus.len());
    say("lines between cpus");
    let lines = lines(&topology, &cpus)?;
    let folder = tempfile::tempdir().map_err(|error| Error::os("a folder for files", error))?;
    let mut curves = Vec::new();
    for call in CALLS {
        say(call.name);
        curves.push(curve(&call, &cpus, folder.path(), effort)?);
    }
    for it in JOINTS {
        say(it.name);
        curves.push(joint(&it, &cpus, effort)?);
    }
    say("teams");
    let teams = teams(&cpus, effort)?;
    let far_ns = lines.iter().map(|line| line.round_trip_ns).fold(0.0, f64::max);
    let predictions = predicted(&teams, far_ns);
    Ok(Record { schema: 1, machine, lines, curves, teams, predictions })
}

fn machine(topology: &Topology, cpus: usize) -> Machine {
    let features = Features::detect();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    Machine {
        processor: features.brand.clone(),
        hypervisor: features.hypervisor.clone(),
        kernel: number_of(&release),
        cpus,
        cores: topology.cores(),
        threads_per_core: topology.threads_per_core(),
        numa_nodes: topology.numa_nodes(),
        load: load.and_then(|text| text.split(' ').next()?.parse().ok()),
    }
}

/// The digits and dots that a release begins with: what follows may be a machine's name.
fn number_of(release: &str) -> String {
    let end = release.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(release.len());
    release[..end].trim_end_matches('.').to_owned()
}

/// One line of each distance from the first cpu: to the first that is so far.
fn lines(topology: &Topology, cpus: &[usize]) -> Result<Vec<Lines>> {
    let [first, others @ ..] = cpus else { return Ok(Vec::new()) };
    let mut found: Vec<(Relation, usize)> = Vec::new();
    for &other in others {
        let relation = topology.relation(*first, other);
        if !found.iter().any(|(known, _)| *known == relation) {
            found.push((relation, other));
        }
    }
    found.sort();
    let clock = Clock::new();
    let _bound = affinity::bind(*first)?;
    let mut lines = Vec::new();
    for (relation, other) in found {
        let mut trip = RoundTrip::start(*first, other)?;
        let seen: Vec<f64> = (0..20).filter_map(|_| trip.measure(&clock)).collect();
        if !seen.is_empty() {
            lines.push(Lines { common: common(relation), round_trip_ns: median_of(seen) });
        }
    }
    Ok(lines)
}

fn common(relation: Relation) -> String {
    match relation {
        Relation::Same | Relation::Sibling => "core".to_owned(),
        Relation::Cache { level } => format!("cache {level}"),
        Relation::Node => "node".to_owned(),
        Relation::Package => "package".to_owned(),
        Relation::Remote => "machine".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_kernel_s_own_name_is_not_told() {
        assert_eq!(number_of("6.18.44-of-jane"), "6.18.44");
        assert_eq!(number_of("6.1.0-44-amd64"), "6.1.0");
        assert_eq!(number_of("strange"), "");
    }

    #[test]
    fn a_record_is_whole_and_says_nothing_of_whose_machine_it_is() {
        let effort = Effort { span: Duration::from_millis(3), rounds: 1 };
        let mut said = Vec::new();
        let record = record(effort, &mut |what| said.push(what.to_owned())).unwrap();
        assert_eq!(record.curves.len(), CALLS.len() + JOINTS.len());
        assert!(said.contains(&"rename".to_owned()), "{said:?}");
        let text = serde_json::to_string(&record).unwrap().to_lowercase();
        let name = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        let home = std::env::var("HOME").unwrap_or_default().to_lowercase();
        let user = std::env::var("USER").unwrap_or_default().to_lowercase();
        for word in [name, home, user].iter().filter(|word| word.len() > 4) {
            assert!(!text.contains(word.as_str()), "{word} in {text}");
        }
        assert!(!text.contains("/tmp") && !text.contains("127.0.0.1"), "{text}");
    }
}
