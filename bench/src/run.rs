//! The whole bench: phases of rounds, in each round a turn for each subject in
//! a new order, and a turn of the raw round trip before and after every one.

use std::time::Instant;

use anyhow::Result;
use kumiki_measure::machine;
use kumiki_measure::meter::Meter;
use kumiki_measure::schema::{Machine, SCHEMA};
use kumiki_measure::stats::{bootstrap, describe};
use kumiki_sys::clock::Clock;
use serde::Serialize;

use crate::copy::Arena;
use crate::pair::Pair;
use crate::plan::{self, Phase, RAW};
use crate::request::Request;
use crate::subject::Subject;

/// The result, in the shape that every bench writes.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    schema: u32,
    machine: Machine,
    rows: Vec<Row>,
}

/// One figure of one subject.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    case: &'static str,
    subject: &'static str,
    /// The case's size; without one, samples.
    n: u64,
    unit: &'static str,
    median: f64,
    p99: f64,
    ci: [f64; 2],
    limit: Option<f64>,
    base: Option<f64>,
}

/// Samples of one subject in one phase, and of the raw round trip just before
/// and after its turns.
#[derive(Debug, Default)]
struct Turns {
    samples: Vec<Vec<f64>>,
    raw: Vec<Vec<f64>>,
}

/// Runs everything.
///
/// # Errors
/// There are no two cpus, or a subject fails.
pub(crate) fn run() -> Result<Document> {
    let begin = Instant::now();
    let (pair, place) = Pair::choose()?;
    let machine = machine::describe(&place, &Meter::new(Clock::new()))?;
    let mut arena = Arena::new()?;
    let path = arena.path();
    let mut raw = Subject::start(RAW, pair, &path)?;
    let started = plan::subjects().map(|name| Subject::start(name, pair, &path));
    let mut subjects = started.collect::<Result<Vec<_>>>()?;
    let mut rng = fastrand::Rng::new();
    let mut rows = Vec::new();
    for phase in plan::phases() {
        let size = phase.request.size().map_or(String::new(), |n| format!(" {n}"));
        eprintln!("{:4} s  {}{size}", begin.elapsed().as_secs(), phase.request.case());
        rng.shuffle(&mut subjects);
        rows.extend(measure(phase, &mut raw, &mut subjects, &mut arena, &mut rng)?);
    }
    eprintln!("{:4} s  done", begin.elapsed().as_secs());
    Ok(Document { schema: SCHEMA, machine, rows })
}

fn measure(
    phase: Phase,
    raw: &mut Subject,
    subjects: &mut [Subject],
    arena: &mut Arena,
    rng: &mut fastrand::Rng,
) -> Result<Vec<Row>> {
    let mut order: Vec<_> = subjects.iter_mut().filter(|s| phase.asks(s.name())).collect();
    let mut turns: Vec<(&'static str, Turns)> =
        order.iter().map(|s| (s.name(), Turns::default())).collect();
    let mut limit = || Ok::<_, anyhow::Error>(raw.turn(Request::ForkJoinNull)?.unwrap_or_default());
    let mut all_raw = Turns::default();
    for _ in 0..phase.rounds {
        rng.shuffle(&mut order);
        let mut before = limit()?;
        for subject in &mut order {
            let Some(samples) = subject.turn(phase.next(arena))? else { continue };
            let after = limit()?;
            let name = subject.name();
            let (_, its) = turns.iter_mut().find(|(other, _)| *other == name).expect("asked");
            its.samples.push(samples);
            its.raw.extend([before, after.clone()]);
            before = after;
            all_raw.samples.push(before.clone());
        }
    }
    turns.retain(|(_, its)| !its.samples.is_empty());
    turns.sort_by_key(|(name, _)| *name);
    if phase.request == Request::ForkJoinNull {
        // Itself a row: its slow tail is a limit too.
        turns.insert(0, (RAW, all_raw));
    }
    let base = turns.iter().find(|(name, _)| Some(*name) == phase.base);
    let base = base.map(|(_, its)| describe::median(&pooled(&its.samples)));
    Ok(turns.iter().map(|(name, its)| row(phase.request, name, its, base)).collect())
}

fn pooled(visits: &[Vec<f64>]) -> Vec<f64> {
    describe::sorted(visits.iter().flatten().copied())
}

fn row(request: Request, subject: &'static str, turns: &Turns, base: Option<f64>) -> Row {
    let samples = pooled(&turns.samples);
    let slow = if request.less_is_better() { 0.99 } else { 0.01 };
    let raw = pooled(&turns.raw);
    Row {
        case: request.case(),
        subject: plan::shown(subject),
        n: request.size().unwrap_or(samples.len() as u64),
        unit: request.unit(),
        median: describe::median(&samples),
        p99: describe::quantile(&samples, slow),
        ci: bootstrap::median_ci(turns.samples.iter().map(Vec::as_slice)),
        limit: (!raw.is_empty()).then(|| describe::median(&raw)),
        base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(samples: &[&[f64]], raw: &[&[f64]]) -> Turns {
        let own = |visits: &[&[f64]]| visits.iter().map(|visit| visit.to_vec()).collect();
        Turns { samples: own(samples), raw: own(raw) }
    }

    #[test]
    fn a_row_has_the_medians_of_its_own_turns_and_of_the_raw_ones_beside_them() {
        let its = turns(&[&[1.0, 2.0], &[3.0]], &[&[0.5], &[0.7, 0.9]]);
        let row = row(Request::ForkJoinGap { ns: 10_000 }, "futex", &its, None);
        assert_eq!((row.median, row.limit, row.base), (2.0, Some(0.7), None));
        assert_eq!((row.case, row.n, row.unit), ("fork_join_gap", 10_000, "ns"));
        assert!(row.p99 > 2.9 && row.ci[0] <= 2.0 && row.ci[1] >= 2.0);
    }

    #[test]
    fn the_slow_tail_of_a_bandwidth_is_the_small_one() {
        let request = Request::CopyCold { bytes: 4096, offset: 0 };
        let row = row(request, "copy:libc", &turns(&[&[5.0, 6.0, 7.0]], &[]), Some(6.0));
        assert!(row.p99 < 5.1);
        assert_eq!(row.subject, "libc");
        assert_eq!((row.unit, row.n, row.limit, row.base), ("GB/s", 4096, None, Some(6.0)));
    }

    #[test]
    fn a_case_without_a_size_counts_its_samples() {
        let row = row(Request::ForkJoinNull, "raw", &turns(&[&[5.0, 6.0], &[7.0]], &[]), None);
        assert_eq!(row.n, 3);
    }

    #[test]
    fn json_has_the_common_shape() {
        let row = row(Request::IdleBurn, "park", &turns(&[&[0.5]], &[&[50.0]]), None);
        let document = Document { schema: SCHEMA, machine: Machine::default(), rows: vec![row] };
        let value = serde_json::to_value(document).unwrap();
        assert_eq!(value["schema"], 1);
        assert!(value["machine"].is_object());
        assert_eq!(
            value["rows"],
            serde_json::json!([{
                "case": "idle_burn", "subject": "park", "n": 1, "unit": "cpu", "median": 0.5,
                "p99": 0.5, "ci": [0.5, 0.5], "limit": 50.0, "base": null,
            }])
        );
    }
}
