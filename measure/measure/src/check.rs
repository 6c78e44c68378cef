//! What no result holds, however it was made: refused when it is stored and
//! when it is read, so that a figure never rests on it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::schema::{Machine, Params, Run, Unit, Visit};

/// The largest figure: 10¹⁸ ns are 31 years. It keeps every sum of squares
/// finite.
const LARGEST: f64 = 1e18;

/// The most operations of a visit, so that those of a run can be added up.
const MOST_OPERATIONS: u64 = 1 << 48;

/// Says what is wrong with how and where a run was made.
pub(crate) fn run(run: &Run, machine: &Machine) -> Result<(), String> {
    // Of a file that tells no more than rows it is empty.
    if !run.started.is_empty() {
        let parsed = run.started.parse::<Timestamp>();
        parsed
            .map_err(|_| format!("run.started is {:?}, no date as RFC 3339 has it", run.started))?;
    }
    let others = run.others.iter().map(|other| ("run.others.cpu_seconds", Some(other.cpu_seconds)));
    let amounts = [
        ("run.seconds", Some(run.seconds)),
        ("machine.tsc_hz", machine.tsc_hz),
        ("machine.load", machine.load),
        ("machine.round_trip_ns", machine.round_trip_ns),
    ];
    for (name, value) in amounts.into_iter().chain(others) {
        amount(value.unwrap_or(0.0)).map_err(|wrong| format!("{name} is {wrong}"))?;
    }
    Ok(())
}

/// Says what is wrong with a visit.
pub(crate) fn visit(visit: &Visit) -> Result<(), String> {
    if visit.samples.is_empty() {
        return Err("has no samples".to_owned());
    }
    if visit.batch.saturating_mul(visit.samples.len() as u64) > MOST_OPERATIONS {
        return Err(format!(
            "has {} samples of {} operations, together more than 2^48",
            visit.samples.len(),
            visit.batch
        ));
    }
    for (i, &sample) in visit.samples.iter().enumerate() {
        // A fixed name for all of them: only the index tells them apart.
        amount(sample).map_err(|wrong| format!("sample {i} is {wrong}"))?;
    }
    let amounts = [
        ("round_trip_before_ns", visit.round_trip_before_ns),
        ("round_trip_after_ns", visit.round_trip_after_ns),
        ("cycle_ns", visit.cycle_ns[0]),
        ("cycle_ns", visit.cycle_ns[1]),
        ("quiet_cycle_ns", visit.quiet_cycle_ns),
        ("activity.wall_ns", Some(visit.activity.wall_ns)),
    ];
    for (name, value) in amounts {
        amount(value.unwrap_or(0.0)).map_err(|wrong| format!("{name} is {wrong}"))?;
    }
    // These are differences of two measurements: noise may make them negative.
    let differences = [
        ("overhead_ns", Some(visit.overhead_ns)),
        ("cpu.user_ns", Some(visit.cpu.user_ns)),
        ("cpu.system_ns", Some(visit.cpu.system_ns)),
        ("cpu.children_ns", Some(visit.cpu.children_ns)),
        ("activity.other_cpu_ns", visit.activity.other_cpu_ns),
        ("activity.lost_cpu_ns", visit.activity.lost_cpu_ns),
    ];
    for (name, value) in differences {
        amount(value.unwrap_or(0.0).abs()).map_err(|wrong| format!("{name} is {wrong}"))?;
    }
    Ok(())
}

fn amount(value: f64) -> Result<(), String> {
    if (0.0..=LARGEST).contains(&value) {
        Ok(())
    } else {
        Err(format!("{value}, not a number from 0 to {LARGEST:e}"))
    }
}

/// The rows seen so far, to find one that comes twice.
#[derive(Default)]
pub(crate) struct Identities(BTreeSet<String>);

impl Identities {
    /// Checks a row's identity and visits.
    pub(crate) fn row(
        &mut self,
        case: &str,
        params: &Params,
        unit: Unit,
        visits: &[Visit],
    ) -> Result<(), String> {
        if case.is_empty() {
            return Err("a row has no case name".to_owned());
        }
        let name = identity(case, params, unit);
        if visits.is_empty() {
            return Err(format!("{name} has no visits"));
        }
        for (i, v) in visits.iter().enumerate() {
            visit(v).map_err(|wrong| format!("{name}: visit {i} {wrong}"))?;
        }
        if self.0.contains(&name) {
            return Err(format!("{name} is there twice"));
        }
        self.0.insert(name);
        Ok(())
    }
}

/// A row's identity, readable: `process.fork data_bytes=4096 touch="none" [ns]`.
pub(crate) fn identity(case: &str, params: &Params, unit: Unit) -> String {
    let mut name = case.to_owned();
    for (param, value) in params {
        // Quotes only around words: the word "1" is not the number 1.
        match value {
            crate::schema::Value::Word(word) => name += &format!(" {param}={word:?}"),
            value => name += &format!(" {param}={value}"),
        }
    }
    name + " [" + unit.as_str() + "]"
}
