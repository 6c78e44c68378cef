//! What an operation costs, from many of them.

use crate::engine::{Counts, Run};

/// Costs of one operation.
#[derive(Clone, Debug)]
pub struct Report {
    /// Lines fetched.
    pub data: f64,
    /// Times that others' copies were invalidated, and nothing was fetched.
    pub upgrades: f64,
    /// Transfers of the line that moved most.
    pub worst: f64,
    /// Place in a program that has moved that line most.
    pub place: String,
    /// Time, nanoseconds.
    pub ns: f64,
    /// Sleeps and wakes, of all operations.
    pub counts: Counts,
}

impl Report {
    /// Costs of one of so many things that the operation does.
    pub(crate) fn each(self, things: u32) -> Report {
        let things = f64::from(things);
        let [data, upgrades, worst, ns] =
            [self.data, self.upgrades, self.worst, self.ns].map(|sum| sum / things);
        Report { data, upgrades, worst, ns, ..self }
    }
}

/// Runs `operation` `warm` times, and then `rounds` times, which count.
pub(crate) fn counted(run: &Run, warm: u32, rounds: u32, mut operation: impl FnMut()) -> Report {
    (0..warm).for_each(|_| operation());
    run.forget();
    let begin = run.now();
    (0..rounds).for_each(|_| operation());
    let (ns, rounds) = (run.now() - begin, f64::from(rounds));
    let lines = run.moved();
    let sum = |count: fn(&crate::directory::LineCounts) -> u64| {
        lines.iter().map(count).sum::<u64>() as f64 / rounds
    };
    let worst = lines.first();
    Report {
        data: sum(|line| line.data),
        upgrades: sum(|line| line.upgrades),
        worst: worst.map_or(0.0, |line| (line.data + line.upgrades) as f64 / rounds),
        place: worst.and_then(|line| line.busiest()).map(|(_, name)| name).unwrap_or_default(),
        ns: ns / rounds,
        counts: run.counts(),
    }
}
