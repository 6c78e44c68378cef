//! What a reader has to know beside the verdict.

use std::fmt;

use kumiki_measure::stats::{describe, mann_whitney};
use serde::{Deserialize, Serialize};

use crate::estimate::TOLERATED;
use crate::process::{End, Sample};

/// A third of a side's runs is compared with another from so many on.
const THIRD: usize = 5;

/// A difference between thirds that chance makes this rarely is one.
const CHANCE: f64 = 0.01;

/// Warning about the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// Runs of a side that failed; their pairs count for nothing.
    Failed {
        /// `A` or `B`.
        side: char,
        /// Number of runs that failed.
        runs: usize,
        /// Number of all runs.
        of: usize,
        /// End of the first of them, in words.
        how: String,
    },
    /// The sides print different things.
    OutputsDiffer,
    /// A side does not print the same each time.
    OutputVaries {
        /// `A` or `B`.
        side: char,
        /// Number of different outputs.
        kinds: usize,
    },
    /// Processes outlived the commands, and run beside the runs that follow.
    LeftBehind {
        /// Number of processes at the end.
        processes: usize,
    },
    /// The last third of a side's runs differs from the first by more than chance.
    Drifts {
        /// `A` or `B`.
        side: char,
        /// Median of the last third over that of the first.
        ratio: f64,
    },
    /// Many of the runs lost more than a twentieth of their time to others.
    Disturbed {
        /// Share of the runs.
        share: f64,
    },
    /// Pairs that were set aside because the machine slept.
    Slept {
        /// Number of pairs.
        pairs: usize,
    },
    /// Others' use of the cpus is not known here.
    OthersUnknown,
    /// The runs are so short that the start of a process is much of them.
    Short {
        /// Time of the usual pair, milliseconds.
        ms: f64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Failed { side, runs, of, how } => write!(
                f,
                "{side} failed in {runs} of {of} runs ({how}); their pairs are kept and do not count"
            ),
            Note::OutputsDiffer => {
                write!(f, "A and B print different things: do they do the same work?")
            }
            Note::OutputVaries { side, kinds } => {
                write!(
                    f,
                    "{side} printed {kinds} different things: does it do the same work each time?"
                )
            }
            Note::LeftBehind { processes } => write!(
                f,
                "{processes} processes that the commands left behind still run, beside later runs"
            ),
            Note::Drifts { side, ratio } if *ratio < 1.0 => write!(
                f,
                "{side} became {:.1} % faster by itself from its first third of runs to its last: \
                 do caches fill? --prepare can bring each run to the same state",
                100.0 * (1.0 - ratio)
            ),
            Note::Drifts { side, ratio } => write!(
                f,
                "{side} became {:.1} % slower by itself from its first third of runs to its last: \
                 does something fill up, or the machine get warm?",
                100.0 * (ratio - 1.0)
            ),
            Note::Disturbed { share } => write!(
                f,
                "{:.0} % of the runs lost more than {:.0} % of their time to others; pairs allow for \
                 it, and take longer",
                100.0 * share,
                100.0 * TOLERATED
            ),
            Note::Slept { pairs } => {
                write!(f, "the machine slept in {pairs} pairs, which do not count")
            }
            Note::Short { ms } => write!(
                f,
                "a run takes {ms:.1} ms, and the start of a process is much of that: what the \
                 commands do may differ by more than their times. Have each do its work some times"
            ),
            Note::OthersUnknown => {
                write!(
                    f,
                    "what others took meanwhile is not known: /proc/PID/schedstat is not there"
                )
            }
        }
    }
}

/// All that is to be said of these pairs.
pub(crate) fn notes(pairs: &[[Sample; 2]], left: usize, detect: f64) -> Vec<Note> {
    let side = |at: usize| -> Vec<&Sample> { pairs.iter().map(|pair| &pair[at]).collect() };
    let sides = [('A', side(0)), ('B', side(1))];
    let mut notes = Vec::new();
    for (name, samples) in &sides {
        let failed: Vec<&&Sample> =
            samples.iter().filter(|s| !matches!(s.end, End::Success | End::Slept)).collect();
        if let Some(first) = failed.first() {
            let (runs, of, how) = (failed.len(), samples.len(), first.end.words());
            notes.push(Note::Failed { side: *name, runs, of, how });
        }
    }
    notes.extend(outputs(&sides));
    // What moves both alike is the machine, and pairs allow for it.
    let apart: Vec<f64> = pairs.iter().map(|[a, b]| b.compared() / a.compared()).collect();
    if drift(&apart, detect).is_some() {
        for (side, samples) in &sides {
            let wall: Vec<f64> = samples.iter().map(|s| s.compared()).collect();
            let drift = drift(&wall, detect);
            notes.extend(drift.map(|ratio| Note::Drifts { side: *side, ratio }));
        }
    }
    notes.extend(short(pairs));
    let slept = pairs.iter().filter(|pair| pair.iter().any(|s| s.end == End::Slept)).count();
    if slept > 0 {
        notes.push(Note::Slept { pairs: slept });
    }
    if left > 0 {
        notes.push(Note::LeftBehind { processes: left });
    }
    let known: Vec<f64> = pairs.iter().flatten().filter_map(|s| s.others).collect();
    let struck = known.iter().filter(|others| **others > TOLERATED).count();
    match known.len() {
        0 if pairs.is_empty() => {}
        0 => notes.push(Note::OthersUnknown),
        all if 10 * struck > all => {
            notes.push(Note::Disturbed { share: struck as f64 / all as f64 });
        }
        _ => {}
    }
    notes
}

/// Runs shorter than this are short: a process starts in about a millisecond.
const SHORT_NS: f64 = 5e6;

fn short(pairs: &[[Sample; 2]]) -> Option<Note> {
    // One that measures by itself is as long as it likes.
    let timed = pairs.iter().flatten().filter(|sample| sample.cost.is_none());
    let usual = describe::median_of(timed.map(|sample| sample.wall_ns));
    (usual < SHORT_NS).then_some(Note::Short { ms: usual / 1e6 })
}

fn outputs(sides: &[(char, Vec<&Sample>); 2]) -> Vec<Note> {
    let kinds = |samples: &[&Sample]| {
        let ok = samples.iter().filter(|s| s.end == End::Success);
        let mut all: Vec<(u64, u64)> = ok.map(|s| s.output).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let [a, b] = [kinds(&sides[0].1), kinds(&sides[1].1)];
    let varies =
        |side, all: &[_]| (all.len() > 1).then_some(Note::OutputVaries { side, kinds: all.len() });
    let differ = (a.len() == 1 && b.len() == 1 && a != b).then_some(Note::OutputsDiffer);
    [varies('A', &a), varies('B', &b), differ].into_iter().flatten().collect()
}

/// The last third over the first, where they differ by more than chance and by what matters.
fn drift(values: &[f64], detect: f64) -> Option<f64> {
    let third = values.len() / 3;
    if third < THIRD {
        return None;
    }
    let (first, last) = (&values[..third], &values[values.len() - third..]);
    let median = |some: &[f64]| describe::median_of(some.iter().copied());
    let ratio = median(last) / median(first);
    let matters = ratio.ln().abs() > detect.ln_1p();
    (matters && mann_whitney::p_value(first, last) < CHANCE).then_some(ratio)
}
