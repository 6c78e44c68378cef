//! Simulated runs, whose true median is known, and results of any content.

use std::collections::BTreeSet;

use proptest::prelude::*;

pub(crate) use super::bootstrap::normal;
use crate::schema::{
    Activity, CpuTime, Machine, Params, Results, Row, Run, Skipped, Unit, Value, Visit,
};

/// Samples of `visits` visits around a true median: log-normal between visits
/// and within, with these standard deviations of the logarithm.
pub(crate) fn visits(
    rng: &mut fastrand::Rng,
    visits: usize,
    samples: usize,
    median: f64,
    between: f64,
    within: f64,
) -> Vec<Vec<f64>> {
    let visit = |rng: &mut fastrand::Rng| {
        let center = median * (between * normal(rng)).exp();
        (0..samples).map(|_| center * (within * normal(rng)).exp()).collect()
    };
    (0..visits).map(|_| visit(rng)).collect()
}

/// Any result that a run could leave.
pub(crate) fn results() -> impl Strategy<Value = Results> {
    let rows = prop::collection::vec(row(), 0..5).prop_map(|mut rows: Vec<Row>| {
        let mut seen = BTreeSet::new();
        rows.retain(|row| seen.insert(format!("{} {:?} {:?}", row.case, row.params, row.unit)));
        rows
    });
    let skipped = prop::collection::vec(skipped(), 0..3);
    (run(), machine(), rows, skipped)
        .prop_map(|(run, machine, rows, skipped)| Results::new(run, machine, rows, skipped))
}

fn params() -> impl Strategy<Value = Params> {
    let value = prop_oneof![
        any::<bool>().prop_map(Value::Flag),
        any::<u64>().prop_map(Value::Number),
        ".{0,8}".prop_map(Value::Word),
    ];
    prop::collection::btree_map("[a-z_]{1,6}", value, 0..3)
}

fn visit() -> impl Strategy<Value = Visit> {
    let time = || prop_oneof![Just(0.0), 0.0..1e6f64, 0.0..1e18f64];
    let cpu = (time(), time(), time()).prop_map(|(user_ns, system_ns, children_ns)| CpuTime {
        user_ns,
        system_ns,
        children_ns,
    });
    let activity = (time(), any::<u64>(), any::<Option<u64>>(), prop::option::of(time()));
    let samples = prop::collection::vec(time(), 1..12);
    let words = prop::collection::vec(".{0,12}", 0..3);
    (0..1_u64 << 40, time(), samples, cpu, prop::option::of(time()), activity, words).prop_map(
        |(batch, overhead_ns, samples, cpu, round_trip_before_ns, activity, disturbances)| {
            let (wall_ns, minor_faults, steal_ns, other_cpu_ns) = activity;
            let activity =
                Activity { wall_ns, minor_faults, steal_ns, other_cpu_ns, ..Activity::default() };
            let round_trip_after_ns = None;
            Visit {
                batch,
                overhead_ns,
                samples,
                cpu,
                round_trip_before_ns,
                round_trip_after_ns,
                cycle_ns: [None; 2],
                quiet_cycle_ns: None,
                activity,
                disturbances,
            }
        },
    )
}

fn row() -> impl Strategy<Value = Row> {
    let unit = prop_oneof![Just(Unit::Nanoseconds), Just(Unit::GigabytesPerSecond)];
    let cpus = prop::collection::vec(any::<usize>(), 0..3);
    let visits = prop::collection::vec(visit(), 1..4);
    ("[a-z.]{1,8}", params(), unit, cpus, visits).prop_map(|(case, params, unit, cpus, visits)| {
        Row::summarise(&case, params, unit, cpus, visits)
    })
}

fn skipped() -> impl Strategy<Value = Skipped> {
    ("[a-z.]{1,8}", params(), ".{0,20}").prop_map(|(case, params, reason)| Skipped {
        case,
        params,
        reason,
    })
}

fn run() -> impl Strategy<Value = Run> {
    let label = prop::option::of("[a-k]{1,10}");
    let started = prop_oneof![Just(""), Just("2026-11-25T01:02:03Z"), Just("1970-01-01T00:00Z")];
    (label, started.prop_map(str::to_owned), 0.0..1e6f64, any::<bool>()).prop_map(
        |(label, started, seconds, complete)| Run {
            label,
            started,
            seconds,
            complete,
            ..Run::default()
        },
    )
}

fn machine() -> impl Strategy<Value = Machine> {
    (
        ".{0,10}",
        any::<usize>(),
        prop::option::of(0.0..1e10f64),
        prop::collection::vec(".{0,9}", 0..3),
    )
        .prop_map(|(hostname, cpus, tsc_hz, mitigations)| Machine {
            hostname,
            cpus,
            tsc_hz,
            mitigations,
            ..Machine::default()
        })
}
