//! Comparisons by `kumiki ab`, and what other rules say of the same runs.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Tool;
use super::rules::{criterion, hyperfine, perfgate, t_test};
use crate::bench::judge::KUMIKI;

/// Rule that decides.
pub(super) const SUBJECTS: [&str; 5] = [KUMIKI, "hyperfine", "t_test", "criterion", "perfgate"];

/// What is compared, and beside whom.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Comparisons that a whole bench has.
    pub(super) quota: usize,
    /// Comparisons in a row.
    each: usize,
    /// Turns of a shell's loop: 10,000 are some 5 ms.
    turns: u32,
    /// B has so many times as many.
    factor: f64,
    /// Busy processes beside it.
    busy: usize,
    more: [&'static str; 2],
}

/// Every kind. What is the same has as many pairs as most comparisons take; its runs are
/// short, so that two hundred comparisons take minutes. What is slower has its time.
pub(super) const KINDS: [Kind; 7] = [
    Kind {
        name: "ab_same_busy",
        quota: 200,
        each: 10,
        turns: 10_000,
        factor: 1.0,
        busy: 1,
        more: ["--pairs", "60"],
    },
    same("ab_same_busy_2", 2),
    same("ab_same_busy_4", 4),
    same("ab_same_busy_8", 8),
    Kind {
        name: "ab_slowed",
        quota: 30,
        each: 2,
        turns: 40_000,
        factor: 1.03,
        busy: 0,
        more: ["--for", "60"],
    },
    Kind {
        name: "ab_slowed_busy_8",
        quota: 40,
        each: 2,
        turns: 40_000,
        factor: 1.03,
        busy: 8,
        more: ["--for", "60"],
    },
    Kind {
        name: "ab_slowed_busy",
        quota: 20,
        each: 1,
        turns: 40_000,
        factor: 1.03,
        busy: 1,
        more: ["--for", "120"],
    },
];

/// Equal commands beside so many busy processes.
const fn same(name: &'static str, busy: usize) -> Kind {
    Kind { name, quota: 100, each: 5, turns: 10_000, factor: 1.0, busy, more: ["--pairs", "60"] }
}

/// Verdict on one comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    pub(super) kind: String,
    /// Whether B was called slower, by each of [`SUBJECTS`].
    pub(super) slower: Vec<bool>,
    /// Marks of those in which one was called slower or faster, of ours by any measure, whatever answered.
    #[serde(default)]
    pub(super) different: Vec<bool>,
    /// Seconds after which each was over: those that take all pairs are as long as ours.
    #[serde(default)]
    pub(super) took: Vec<f64>,
    pairs: usize,
    pub(super) seconds: f64,
    /// Measure that answered, of ours, and its exit status: why one was missed is asked later.
    #[serde(default)]
    by: String,
    #[serde(default)]
    status: i32,
}

impl Kind {
    /// Some comparisons in a row.
    pub(super) fn trials(&self, tool: &Tool) -> Result<Vec<Verdict>> {
        let _busy: Vec<Busy> = (0..self.busy).map(|_| Busy::start()).collect::<Result<_>>()?;
        (0..self.each).map(|_| self.trial(tool)).collect()
    }

    fn trial(&self, tool: &Tool) -> Result<Verdict> {
        let turns = |turns: u32| format!("i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done");
        let b = turns((f64::from(self.turns) * self.factor) as u32);
        let commands = ["--json", "--", "sh", "-c", &turns(self.turns), "---", "sh", "-c", &b];
        let (value, code) = tool.json(&[&["ab"], &self.more[..], &commands[..]].concat())?;
        let wall = |pair: &Value| -> Option<[f64; 2]> {
            Some([pair[0]["wall_ns"].as_f64()?, pair[1]["wall_ns"].as_f64()?])
        };
        let pairs: Vec<[f64; 2]> =
            value["pairs"].as_array().into_iter().flatten().filter_map(wall).collect();
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|[a, b]| (*a, *b)).unzip();
        let looked = perfgate(&pairs);
        let seconds = value["seconds"].as_f64().unwrap_or_default();
        let until = |pairs: &[[f64; 2]]| pairs.iter().flatten().sum::<f64>();
        let share = until(&pairs[..looked.pairs]) / until(&pairs).max(1.0);
        let either = |rule: fn(&[f64], &[f64]) -> bool| rule(&a, &b) || rule(&b, &a);
        let any = value["findings"].as_array().into_iter().flatten();
        let apart =
            |finding: &Value| finding["verdict"] == "slower" || finding["verdict"] == "faster";
        Ok(Verdict {
            kind: self.name.to_owned(),
            slower: vec![
                code == 1,
                hyperfine(&a, &b),
                t_test(&a, &b),
                criterion(&a, &b),
                looked.slower == Some(1),
            ],
            different: vec![
                any.into_iter().any(apart),
                either(hyperfine),
                either(t_test),
                either(criterion),
                looked.slower.is_some(),
            ],
            took: vec![seconds, seconds, seconds, seconds, seconds * share],
            pairs: a.len(),
            seconds,
            by: value["by"].as_str().unwrap_or_default().to_owned(),
            status: code,
        })
    }
}

/// A process that does nothing but use a cpu.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Ok(Busy(command.spawn().context("starting a busy process")?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
