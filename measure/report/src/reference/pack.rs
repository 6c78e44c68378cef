//! Makes a result small enough to be shipped.

use std::io;

use kumiki_measure::schema::{Results, Row, Visit};
use lzma_rust2::{XzOptions, XzWriter};
use serde::{Deserialize, Serialize};

/// Contents of a file of the folder `references`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Packed {
    pub(super) conditions: String,
    pub(super) samples_a_visit: usize,
    pub(super) results: Results,
}

/// A reference is compiled into every program that shows results.
const LARGEST_BYTES: usize = 450_000;

/// Numbers of samples of a visit that are kept, the most that fits.
const SAMPLES_A_VISIT: [usize; 6] = [256, 64, 32, 16, 8, 4];

/// Significant digits that are kept of a sample.
const DIGITS: usize = 4;

/// A result as the bytes of a file for the folder `references`: fewer samples
/// of each visit, at evenly spaced ranks, and each figure as these give it.
///
/// # Errors
///
/// Fails if the result is too large even with few samples.
pub fn pack(results: &Results, conditions: &str) -> io::Result<Vec<u8>> {
    let visits = results.rows.iter().flat_map(|row| &row.visits);
    let there = visits.map(|visit| visit.samples.len()).max().unwrap_or(0);
    let mut bytes = 0;
    for samples_a_visit in SAMPLES_A_VISIT {
        // One that is packed again has no more than it was left.
        let samples_a_visit = samples_a_visit.min(there);
        let results = thinned(results, samples_a_visit);
        let packed = Packed { conditions: conditions.to_owned(), samples_a_visit, results };
        let mut file = XzWriter::new(Vec::new(), XzOptions::with_preset(6))?;
        serde_json::to_writer(&mut file, &packed)?;
        let file = file.finish()?;
        if file.len() <= LARGEST_BYTES {
            return Ok(file);
        }
        bytes = file.len();
    }
    let least = SAMPLES_A_VISIT[SAMPLES_A_VISIT.len() - 1];
    Err(io::Error::other(format!(
        "with {least} samples of each visit it takes {bytes} bytes, more than {LARGEST_BYTES}; \
         measure fewer cases or sizes"
    )))
}

fn thinned(results: &Results, samples_a_visit: usize) -> Results {
    let row = |row: &Row| {
        let visits = row.visits.iter().map(|v| visit(v, samples_a_visit)).collect();
        Row::summarise(&row.case, row.params.clone(), row.unit, row.cpus.clone(), visits)
    };
    let rows = results.rows.iter().map(row).collect();
    Results::new(results.run.clone(), results.machine.clone(), rows, results.skipped.clone())
}

fn visit(visit: &Visit, samples: usize) -> Visit {
    let mut visit = visit.clone();
    visit.samples = evenly(&visit.samples, samples).into_iter().map(rounded).collect();
    let Visit { overhead_ns, cpu, activity, round_trip_before_ns, round_trip_after_ns, .. } =
        &mut visit;
    let times = [&mut cpu.user_ns, &mut cpu.system_ns, &mut cpu.children_ns];
    let others = [overhead_ns, &mut activity.wall_ns];
    let known = [
        &mut activity.other_cpu_ns,
        &mut activity.lost_cpu_ns,
        round_trip_before_ns,
        round_trip_after_ns,
    ];
    for value in times.into_iter().chain(others).chain(known.into_iter().flatten()) {
        *value = rounded(*value);
    }
    visit
}

/// Picks at most so many, at evenly spaced ranks, in the order in which they came.
fn evenly(samples: &[f64], most: usize) -> Vec<f64> {
    if samples.len() <= most {
        return samples.to_vec();
    }
    let mut by_rank: Vec<usize> = (0..samples.len()).collect();
    by_rank.sort_by(|a, b| samples[*a].total_cmp(&samples[*b]));
    let rank = |i: usize| (2 * i + 1) * samples.len() / (2 * most);
    let mut kept: Vec<usize> = (0..most).map(|i| by_rank[rank(i)]).collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| samples[at]).collect()
}

fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_at_even_ranks_stay_in_their_order() {
        let samples: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100)).collect();
        let kept = evenly(&samples, 5);
        let mut sorted = kept.clone();
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, [10.0, 30.0, 50.0, 70.0, 90.0]);
        let places: Vec<_> = kept.iter().map(|s| samples.iter().position(|x| x == s)).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(evenly(&[3.0, 1.0], 5), [3.0, 1.0]);
    }

    #[test]
    fn four_digits_are_kept() {
        assert_eq!(rounded(123_456.0), 123_500.0);
        assert_eq!(rounded(0.001_234_56), 0.001_235);
        assert_eq!(rounded(0.0), 0.0);
    }
}
