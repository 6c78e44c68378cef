//! Figures from facts.

use crate::moves;
use crate::schema::{CpuTime, Machine, Params, Results, Row, Run, SCHEMA, Skipped, Unit, Visit};
use crate::stats::widen::{widen, within};
use crate::stats::{bootstrap, describe, quiet, slope};

/// Share of a row's visits that one cause must have struck before the row
/// counts as disturbed: fewer leave the median alone and widen its interval.
const DISTURBED: f64 = 0.25;

impl Row {
    /// Derives every figure of a row from its visits. The same visits give the
    /// same figures, everywhere. Without any sample the figures are NaN.
    pub fn summarise(
        case: &str,
        params: Params,
        unit: Unit,
        cpus: Vec<usize>,
        visits: Vec<Visit>,
    ) -> Row {
        let samples = describe::sorted(visits.iter().flat_map(|v| v.samples.iter().copied()));
        let median = describe::median(&samples);
        let mad = describe::mad(&samples, median);
        // The slow tail: large times, small bandwidths.
        let p99 = describe::quantile(&samples, if unit.less_is_better() { 0.99 } else { 0.01 });
        let (disturbed, disturbances) = disturbances(&visits);
        let cpu = mean_cpu(&visits);
        let wander = wander(&visits);
        let resampled = bootstrap::median_ci(visits.iter().map(|v| v.samples.as_slice()));
        let costs: Vec<f64> = visits
            .iter()
            .filter(|visit| !visit.samples.is_empty())
            .map(|visit| quiet::of_visit(&visit.samples, unit))
            .collect();
        let min = samples.first().copied().unwrap_or(f64::NAN);
        let max = samples.last().copied().unwrap_or(f64::NAN);
        let moves = moves::of_a_run(case, moves::Span::of(cpus.len()));
        let (quiet, quiet_ci) = quiet::over_visits(&costs, [min, max], wander, moves);
        Row {
            case: case.to_owned(),
            params,
            unit,
            n: samples.len(),
            median,
            p99,
            ci: within(widen(resampled, median, &[wander]), [min, max]),
            quiet,
            quiet_ci,
            wander,
            min,
            mad,
            outliers: describe::outliers(&samples, median, mad),
            cpu_ns: cpu.total_ns(),
            cpu,
            disturbed,
            disturbances,
            round_trip_ns: round_trip(&visits),
            cpus,
            visits,
        }
    }
}

impl Results {
    /// A whole result; the slopes are derived from the rows.
    pub fn new(run: Run, machine: Machine, rows: Vec<Row>, skipped: Vec<Skipped>) -> Results {
        let slopes = slope::slopes(&rows);
        Results { schema: SCHEMA, run, machine, rows, slopes, skipped }
    }
}

/// Mean over the samples: a visit counts by how many it has.
fn mean_cpu(visits: &[Visit]) -> CpuTime {
    let samples: usize = visits.iter().map(|v| v.samples.len()).sum();
    let mean = |part: fn(&CpuTime) -> f64| {
        let sum: f64 = visits.iter().map(|v| part(&v.cpu) * v.samples.len() as f64).sum();
        sum / samples as f64
    };
    CpuTime {
        user_ns: mean(|cpu| cpu.user_ns),
        system_ns: mean(|cpu| cpu.system_ns),
        children_ns: mean(|cpu| cpu.children_ns),
    }
}

/// True if a cause struck [`DISTURBED`] of the visits, with all causes and the number of visits
/// that each struck.
fn disturbances(visits: &[Visit]) -> (bool, Vec<String>) {
    let mut struck: Vec<(&str, usize)> = Vec::new();
    for cause in visits.iter().flat_map(|v| &v.disturbances) {
        match struck.iter_mut().find(|(known, _)| known == cause) {
            Some((_, times)) => *times += 1,
            None => struck.push((cause, 1)),
        }
    }
    let all = visits.len();
    let disturbed = struck.iter().any(|&(_, times)| times as f64 >= DISTURBED * all as f64);
    let words = struck.iter().map(|(cause, times)| format!("{cause} ({times} of {all} visits)"));
    (disturbed, words.collect())
}

/// [`Row::wander`]; 0 where the cycle was not measured.
fn wander(visits: &[Visit]) -> f64 {
    let cycles = describe::sorted(visits.iter().flat_map(|v| v.cycle_ns).flatten());
    if cycles.is_empty() {
        return 0.0;
    }
    let [low, middle, high] = [0.05, 0.5, 0.95].map(|q| describe::quantile(&cycles, q));
    (high - low) / 2.0 / middle
}

/// Median of what was measured before and after each visit.
fn round_trip(visits: &[Visit]) -> Option<f64> {
    let both = |v: &Visit| [v.round_trip_before_ns, v.round_trip_after_ns];
    let all = describe::sorted(visits.iter().flat_map(both).flatten());
    (!all.is_empty()).then(|| describe::median(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(samples: &[f64], system_ns: f64, round_trip: f64, disturbed: &[&str]) -> Visit {
        Visit {
            batch: 4,
            samples: samples.to_vec(),
            cpu: CpuTime { system_ns, ..CpuTime::default() },
            round_trip_before_ns: Some(round_trip),
            disturbances: disturbed.iter().map(|&d| d.to_owned()).collect(),
            ..Visit::default()
        }
    }

    fn row(unit: Unit) -> Row {
        let slow: Vec<f64> = (1..=99).map(f64::from).collect();
        let visits = vec![
            visit(&slow, 10.0, 45.0, &["steal"]),
            visit(&[100.0], 110.0, 600.0, &["other work", "steal"]),
        ];
        Row::summarise("file.read", Params::new(), unit, vec![1], visits)
    }

    #[test]
    fn figures_follow_from_visits() {
        let row = row(Unit::Nanoseconds);
        assert_eq!((row.n, row.median, row.min, row.mad), (100, 50.5, 1.0, 25.0));
        assert!((row.p99 - 99.01).abs() < 1e-9);
        assert_eq!(row.cpu_ns, 11.0);
        assert_eq!(row.round_trip_ns, Some(322.5));
        assert_eq!(row.disturbances, ["steal (2 of 2 visits)", "other work (1 of 2 visits)"]);
        assert!(row.disturbed);
        assert_eq!(row.outliers, 0);
    }

    #[test]
    fn one_struck_visit_of_many_does_not_disturb_a_row() {
        let mut visits = vec![visit(&[1.0], 0.0, 45.0, &[]); 4];
        visits.push(visit(&[9.0], 0.0, 45.0, &["steal"]));
        let row = Row::summarise("c", Params::new(), Unit::Nanoseconds, vec![1], visits);
        assert!(!row.disturbed);
        assert_eq!(row.disturbances, ["steal (1 of 5 visits)"]);
    }

    #[test]
    fn a_wandering_clock_widens_the_interval() {
        let samples = [vec![100.0; 30], vec![80.0, 120.0]].concat();
        let at =
            |cycle: f64| Visit { cycle_ns: [Some(cycle); 2], ..visit(&samples, 0.0, 45.0, &[]) };
        let summary =
            |visits| Row::summarise("c", Params::new(), Unit::Nanoseconds, vec![1], visits);
        let steady = summary(vec![at(0.25); 8]);
        assert_eq!((steady.wander, steady.ci), (0.0, [100.0, 100.0]));
        let moving = summary(vec![at(0.24), at(0.25), at(0.25), at(0.26)]);
        assert!((moving.wander - 0.04).abs() < 1e-9, "{}", moving.wander);
        assert_eq!(moving.ci, widen([100.0, 100.0], 100.0, &[moving.wander]));
        // Five chains in a row that were interrupted: no clock moves so far.
        let broken = summary(vec![at(0.25), at(0.25), at(0.25), at(9.0)]);
        assert!(broken.wander > 10.0, "{}", broken.wander);
        assert_eq!(broken.ci, [80.0, 120.0]);
    }

    #[test]
    fn slow_tail_of_a_bandwidth_is_its_small_end() {
        assert!((row(Unit::GigabytesPerSecond).p99 - 1.99).abs() < 1e-9);
    }
}
