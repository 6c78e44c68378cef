//! What an engineer wants to know of a machine first: a dozen figures, each
//! held against a reference, and what to do about those that are bad.
//!
//! ```text
//! Results ── figures ── Figure: value, interval, meaning
//!               │
//! references ── standing ── good · usual · bad, and how many times the reference
//!               │
//!            advice ── what to do, the most urgent first
//! ```
//!
//! The command's answer and the page's first screen are both made from it.

mod advice;
mod figures;
mod standing;

use kumiki_measure::schema::{Results, Unit};

use crate::format;
use crate::reference::{self, Reference};

pub use advice::{Advice, mostly_disturbed, much_disturbed};
pub use standing::{BAD, GOOD, Grade, Standing};

/// A result's figures and what to do about them.
#[derive(Clone, Debug)]
pub struct Headline {
    /// Figures that the result has rows for, in the order in which they are shown.
    pub figures: Vec<Figure>,
    /// Advice, the most urgent first.
    pub advice: Vec<Advice>,
    /// The reference whose machine is most like this one.
    pub reference: Option<&'static Reference>,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// A word for programs: `fork-gib`.
    pub key: &'static str,
    /// Name of the operation, at most 26 characters: `fork with 1 GiB written`.
    pub name: &'static str,
    /// Value in `unit`.
    pub value: f64,
    /// Unit of `value` and `interval`.
    pub unit: Unit,
    /// 95 % confidence interval; of the cache line, what 90 % of the run's
    /// measurements of it lie in.
    pub interval: [f64; 2],
    /// Meaning of the figure and of what stands beside it, in a sentence.
    pub meaning: String,
    /// True if a row below it was disturbed.
    pub disturbed: bool,
    /// True if it was not measured, but follows from a line through what was.
    pub extrapolated: bool,
    /// Standing beside a reference; nothing where none has the like.
    pub standing: Option<Standing>,
}

impl Figure {
    /// The figure with its unit: `86.0 ns`.
    pub fn quantity(&self) -> String {
        format::quantity(self.value, self.unit)
    }

    /// The interval with its unit: `[84.0, 88.0] ns`.
    pub fn interval_text(&self) -> String {
        format::interval(self.interval, self.unit)
    }
}

/// A result's figures, held against the references nearest to its machine.
pub fn headline(results: &Results) -> Headline {
    let nearest = reference::nearest(&results.machine);
    let others: Vec<(&'static str, &Results)> =
        nearest.iter().map(|reference| (reference.name(), reference.results())).collect();
    let (figures, advice) = against(results, &others);
    Headline { figures, advice, reference: nearest.first().copied() }
}

/// The figures against others, the nearest first, and the advice.
pub(crate) fn against(
    results: &Results,
    others: &[(&'static str, &Results)],
) -> (Vec<Figure>, Vec<Advice>) {
    let mostly = mostly_disturbed(results);
    let figure = |question: &figures::HeadlineQuestion| {
        let found = (question.find)(results)?;
        let all = others
            .iter()
            .filter_map(|(name, other)| standing::standing(&found, &(question.find)(other)?, name));
        let standing = standing::beside(all);
        // Of a machine that others used, the figures are the others' too.
        let standing = standing.map(|standing| match mostly {
            true => Standing { grade: Grade::Unclear, otherwise: None, ..standing },
            false => standing,
        });
        Some(Figure {
            key: question.key,
            name: question.name,
            value: found.value,
            unit: found.unit,
            interval: found.interval,
            meaning: found.meaning,
            disturbed: found.disturbed,
            extrapolated: found.extrapolated,
            standing,
        })
    };
    let figures: Vec<Figure> = figures::QUESTIONS.iter().filter_map(figure).collect();
    let advice = advice::advice(results, &figures);
    (figures, advice)
}
