//! What the machine of lines says of teams, before anybody has seen a machine of that size.
//!
//! `predictions.txt` is written by `cargo xtask sim --predict`: a row has a protocol, cpus, the raw round trip of a
//! line between the farthest two in nanoseconds, and the time in nanoseconds. Cpus are in groups of eight, whose lines
//! take 45 ns. Between two rows it goes by the logarithms.

use serde::Serialize;

use crate::Team;

const ROWS: &str = include_str!("predictions.txt");

/// A prediction beside the figure that was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Predicted {
    /// The operation.
    pub what: &'static str,
    /// Members of the team.
    pub members: usize,
    /// Time by the machine of lines, nanoseconds.
    pub predicted_ns: f64,
    /// Here, nanoseconds.
    pub seen_ns: f64,
}

/// Holds these teams against what was predicted for lines so far apart, nanoseconds there and back.
pub fn predicted(teams: &[Team], far_ns: f64) -> Vec<Predicted> {
    let rows = |team: &Team| {
        [("broadcast", team.broadcast_ns), ("barrier", team.barrier_ns)].map(|(what, seen_ns)| {
            let predicted_ns = by_lines(what, team.members, far_ns)?;
            Some(Predicted { what, members: team.members, predicted_ns, seen_ns })
        })
    };
    teams.iter().flat_map(rows).flatten().collect()
}

struct Row {
    cpus: f64,
    far_ns: f64,
    ns: f64,
}

fn rows(protocol: &str) -> Vec<Row> {
    let row = |line: &str| {
        let mut words = line.split(' ');
        let is_it = words.next() == Some(protocol);
        let mut number = || words.next().and_then(|word| word.parse::<f64>().ok());
        let (cpus, far_ns, ns) = (number()?, number()?, number()?);
        is_it.then_some(Row { cpus, far_ns, ns })
    };
    ROWS.lines().filter_map(row).collect()
}

/// Time of a protocol; `None` outside of the sizes that were simulated.
fn by_lines(protocol: &str, cpus: usize, far_ns: f64) -> Option<f64> {
    let rows = rows(protocol);
    let cpus = cpus as f64;
    let (least, most) = rows
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), row| (least.min(row.cpus), most.max(row.cpus)));
    if !(least..=most).contains(&cpus) {
        return None;
    }
    // A machine whose lines are nearer or farther than any that was simulated is taken for the one at that end.
    let mut at_sizes: Vec<(f64, f64)> = Vec::new();
    for row in &rows {
        if !at_sizes.iter().any(|(size, _)| *size == row.cpus) {
            let of_size =
                rows.iter().filter(|other| other.cpus == row.cpus).map(|it| (it.far_ns, it.ns));
            at_sizes.push((row.cpus, between(of_size.collect(), far_ns)?));
        }
    }
    between(at_sizes, cpus)
}

/// Value at `at` by the points on both sides of it, in logarithms; beyond the last one that one's.
fn between(mut points: Vec<(f64, f64)>, at: f64) -> Option<f64> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let above = points.iter().position(|point| point.0 >= at);
    match above {
        None => points.last().map(|point| point.1),
        Some(0) => points.first().map(|point| point.1),
        Some(above) => {
            let ((x0, y0), (x1, y1)) = (points[above - 1], points[above]);
            let part = (at.ln() - x0.ln()) / (x1.ln() - x0.ln());
            Some((y0.ln() + part * (y1.ln() - y0.ln())).exp())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_it_says_and_between_two_it_is_between() {
        let [first, .., last] = &rows("broadcast")[..] else { panic!("no rows") };
        let ns = by_lines("broadcast", first.cpus as usize, first.far_ns).unwrap();
        assert!((ns / first.ns - 1.0).abs() < 1e-9);
        let more = by_lines("broadcast", 48, last.far_ns).unwrap();
        let [less, most] = [32, 64].map(|cpus| by_lines("broadcast", cpus, last.far_ns).unwrap());
        assert!(less < more && more < most, "{less} {more} {most}");
        assert_eq!(by_lines("broadcast", 1, 200.0), None);
        assert_eq!(by_lines("broadcast", 100_000, 200.0), None);
    }

    #[test]
    fn farther_lines_take_longer() {
        for protocol in ["broadcast", "barrier"] {
            assert!(by_lines(protocol, 64, 1600.0) > by_lines(protocol, 64, 600.0), "{protocol}");
        }
    }
}
