//! A comparison as it came out, and as it is kept in a file.

mod against;

use std::path::Path;

use kumiki_measure::schema::Machine;
use serde::{Deserialize, Serialize};

use crate::against::Against;
use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::estimate::Figures;
use crate::finding::Finding;
use crate::leaves::Leaves;
use crate::measure::Measure;
use crate::note::Note;
use crate::process::Sample;
use crate::side::Side;
use crate::verdict::{Clear, Verdict};

/// Version of the JSON. A reader refuses a newer one.
pub const SCHEMA: u32 = 2;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Side A, the command as it is.
    pub a: Side,
    /// Side B, which may be slower.
    pub b: Side,
    /// The least difference that matters, as a share.
    pub detect: f64,
    /// Measure that answers.
    #[serde(default)]
    pub by: Measure,
    /// Judgement of the difference by that measure.
    pub verdict: Verdict,
    /// B over A; nothing without a pair that counts.
    pub ratio: Option<f64>,
    /// Its interval, which misses in 5 of 100 comparisons however often it is looked at;
    /// nothing before the tenth pair.
    pub interval: Option<[f64; 2]>,
    /// Findings of each measure.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// True if a command waits by itself or works on several cpus, so that the time that it takes
    /// is not what it costs.
    #[serde(default)]
    pub waits: bool,
    /// Counts of a run, and how far they are apart.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// Effect of each side on the run after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Leaves>,
    /// Pairs that would clear it up, if nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clear: Option<Clear>,
    /// A's and B's figures; nothing without a pair that counts.
    pub figures: Option<[Figures; 2]>,
    /// Warnings that belong to it.
    pub notes: Vec<Note>,
    /// Pairs that count.
    pub pairs_counted: usize,
    /// Rounds of pairs that the interval is of.
    pub rounds: usize,
    /// True if a person ended it.
    pub interrupted: bool,
    /// Time from start to end, seconds.
    pub seconds: f64,
    /// RFC 3339, UTC.
    #[serde(default)]
    pub started: String,
    /// Machine on which it ran.
    #[serde(default)]
    pub machine: Machine,
    /// Difference between this B and the B of an outcome that was kept, by their A, if that was
    /// asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// Every pair, A and B, in the order in which they were run.
    pub pairs: Vec<[Sample; 2]>,
}

impl Outcome {
    /// Outcome without a pair.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Outcome {
            schema: SCHEMA,
            a: Side::default(),
            b: Side::default(),
            detect: 0.0,
            by: Measure::Wall,
            verdict: Verdict::CannotSay,
            ratio: None,
            interval: None,
            findings: Vec::new(),
            waits: false,
            causes: Vec::new(),
            leaves: None,
            clear: None,
            figures: None,
            notes: Vec::new(),
            pairs_counted: 0,
            rounds: 0,
            interrupted: false,
            seconds: 0.0,
            started: String::new(),
            machine: Machine::default(),
            against: None,
            pairs: Vec::new(),
        }
    }

    /// Findings of all measures, also where an earlier version kept what wall time said.
    pub fn kept(&self) -> Vec<Finding> {
        let wall = || {
            Some(Finding {
                by: self.by,
                verdict: self.verdict,
                ratio: self.ratio?,
                interval: self.interval,
                pairs: self.rounds,
                stood_after: None,
                against: None,
            })
        };
        match self.findings.is_empty() {
            true => wall().into_iter().collect(),
            false => self.findings.clone(),
        }
    }

    /// Finding of a measure.
    pub fn finding(&self, by: Measure) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.by == by)
    }

    /// Reads an outcome from a file that was saved.
    ///
    /// # Errors
    /// It cannot be read, is no outcome, or of a newer schema.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |why: String| Error::File { path: path.to_owned(), why };
        let bytes = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|e| failed(format!("no outcome of `kumiki ab --save`: {e}")))?;
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(schema) if schema > u64::from(SCHEMA) => Err(failed(format!(
                "of schema {schema}, this version knows {SCHEMA}: use a newer kumiki"
            ))),
            _ => serde_json::from_value(value)
                .map_err(|e| failed(format!("no outcome of `kumiki ab --save`: {e}"))),
        }
    }
}
