//! Promises of benches, by `dev/bench/promises.toml`, and their judge.

mod file;
mod ratios;
#[cfg(test)]
mod tests;

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::judge::{Bound, Figures, NOT_MEASURED, digits, of, worst_at};
use super::{Must, Row};
use ratios::Ratios;

/// In place of a subject: the raw round trip of the same turns.
const LIMIT: &str = "limit";

/// A figure with its bound, or either of two.
struct Promise {
    bench: String,
    name: String,
    term: Term,
    or: Option<Term>,
    /// Subject that shows how far one can get here and today: a figure within a twentieth of its
    /// own holds, whatever the bound.
    floor: Option<String>,
}

/// A figure, what it is divided by, and its bound.
#[derive(Clone)]
struct Term {
    case: String,
    subject: String,
    n: Option<Sizes>,
    figure: Figure,
    over: Option<Over>,
    /// Case and size of the divisor's row, if they are others.
    over_case: Option<String>,
    over_n: Option<usize>,
    /// Added to the raw round trip, and taken from the figure.
    plus: Option<More>,
    minus: Option<More>,
    /// Words for the divisor, where either of two figures is enough.
    named: Option<String>,
    /// Of a figure that is not divided; `µs` of nanoseconds.
    unit: Option<String>,
    bound: Bound,
}

/// A row whose median is added or taken away.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct More {
    case: String,
    subject: String,
    n: Option<usize>,
}

/// Subject whose figure a figure is divided by.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Over {
    One(String),
    /// The fastest of these, none of which may be missing. A name with a star is of all that
    /// begin so and were measured; `by` is the case in which they are compared.
    Best {
        best_of: Vec<String>,
        by: Option<String>,
    },
}

/// Rows of a case that a promise is about.
#[derive(Clone, Copy)]
enum Sizes {
    At(usize),
    Range { from: usize, to: Option<usize> },
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Figure {
    #[default]
    Median,
    P99,
    /// Median of the ratios, instance by instance.
    Instances,
    /// Ratio that nineteen of twenty instances keep.
    NineteenOfTwenty,
    /// Median of the ratios to the plain way, which had a turn beside each turn.
    Turns,
    /// Twice the plain way's turn ÷ a turn of two cores: by how much the second one gains.
    Gain,
    /// Median ÷ n.
    Each,
}

impl Sizes {
    fn has(self, n: usize) -> bool {
        match self {
            Sizes::At(at) => n == at,
            Sizes::Range { from, to } => n >= from && to.is_none_or(|to| n <= to),
        }
    }
}

impl Over {
    /// Name of the subject, which may be that of the fastest here.
    fn subject(&self, figures: &Figures, case: &str, n: Option<usize>) -> Option<String> {
        let (names, by) = match self {
            Over::One(name) => return Some(name.clone()),
            Over::Best { best_of, by } => (best_of, by.as_deref().unwrap_or(case)),
        };
        let mut rows = Vec::new();
        for name in names {
            let found = figures.0.iter().filter(|row| {
                let is_named = match name.strip_suffix('*') {
                    Some(begin) => row.subject.starts_with(begin),
                    None => row.subject == *name,
                };
                is_named && row.case == by && n.is_none_or(|n| row.n == n)
            });
            let before = rows.len();
            rows.extend(found);
            if rows.len() == before {
                return None;
            }
        }
        let best = rows.into_iter().min_by(|a, b| a.median.total_cmp(&b.median))?;
        Some(best.subject.clone())
    }

    fn words(&self) -> String {
        match self {
            Over::One(name) => name.clone(),
            Over::Best { best_of, .. } => format!("the best of {}", best_of.join(", ")),
        }
    }
}

impl Term {
    /// Refuses what cannot be judged.
    fn check(&self) -> Result<()> {
        let is_plain = self.figure == Figure::Median
            && self.over_case.is_none()
            && self.over_n.is_none()
            && self.minus.is_none();
        let is_ratio = matches!(&self.over, Some(Over::One(other)) if other != LIMIT);
        ensure!(!self.is_of_many() || is_ratio && is_plain, "several sizes need another subject");
        let is_divided = self.over.is_some() || matches!(self.figure, Figure::Gain | Figure::Each);
        ensure!(is_divided != self.unit.is_some(), "one of over and unit is needed");
        let is_of_limit = matches!(&self.over, Some(Over::One(other)) if other == LIMIT);
        ensure!(self.plus.is_none() || is_of_limit, "plus is added to the limit");
        Ok(())
    }

    fn is_of_many(&self) -> bool {
        matches!(self.n, Some(Sizes::Range { .. }))
    }

    fn at(&self) -> Option<usize> {
        match self.n {
            Some(Sizes::At(n)) => Some(n),
            _ => None,
        }
    }

    fn own<'a>(&self, figures: &Figures<'a>, subject: &str) -> Option<&'a Row> {
        row(figures, &self.case, subject, self.at())
    }

    fn other<'a>(&self, figures: &Figures<'a>, subject: &str) -> Option<&'a Row> {
        let case = self.over_case.as_ref().unwrap_or(&self.case);
        row(figures, case, subject, self.over_n.or(self.at()))
    }

    /// Name of the divisor's subject.
    fn divisor(&self, figures: &Figures) -> Option<String> {
        self.over.as_ref()?.subject(figures, &self.case, self.at())
    }

    /// The figure of a subject, and what is told of its turns.
    fn figure(&self, figures: &Figures, subject: &str) -> Option<(f64, String)> {
        let own = self.own(figures, subject)?;
        let one = |row: &Row| match self.figure {
            Figure::P99 => Some(row.p99),
            Figure::Gain => Ratios::of_plain(row).map(|ratios| 2.0 / ratios.middle()),
            Figure::Each => Some(row.median / row.n as f64),
            _ => Some(row.median),
        };
        let less = self.minus.as_ref().map_or(Some(0.0), |minus| minus.median(figures))?;
        if self.figure == Figure::Turns {
            let ratios = Ratios::of_plain(own)?;
            return Some((ratios.median(), ratios.range()));
        }
        let Some(over) = &self.over else {
            let scale = if self.unit.as_deref() == Some("µs") { 1e3 } else { 1.0 };
            return Some(((one(own)? - less) / scale, String::new()));
        };
        let more = self.plus.as_ref().map_or(Some(0.0), |plus| plus.median(figures))?;
        let figure = match (over, self.figure) {
            (Over::One(name), Figure::Instances) if name == LIMIT => {
                Ratios::of_limit(own, more)?.median()
            }
            (Over::One(name), _) if name == LIMIT => (one(own)? - less) / (own.limit? + more),
            _ => {
                let other = self.other(figures, &self.divisor(figures)?)?;
                match self.figure {
                    Figure::Instances => Ratios::of(own, other).median(),
                    Figure::NineteenOfTwenty => Ratios::of(own, other).of_twenty(19)?,
                    _ => (one(own)? - less) / one(other)?,
                }
            }
        };
        Some((figure, String::new()))
    }

    /// The figure with its words and bound, and whether it holds, for a promise of two figures.
    fn verdict(&self, figures: &Figures) -> Option<(String, String, bool)> {
        let (figure, _) = self.figure(figures, &self.subject)?;
        let words = self.named.clone().or(self.over.as_ref().map(Over::words))?;
        let unit = format!("× {words}");
        let told = format!("{} {unit}", digits(figure));
        Some((told, self.bound.text(&unit), self.bound.holds(figure)))
    }
}

impl More {
    fn median(&self, figures: &Figures) -> Option<f64> {
        Some(row(figures, &self.case, &self.subject, self.n)?.median)
    }
}

/// The row of a case at one size, or the only one.
fn row<'a>(figures: &Figures<'a>, case: &str, subject: &str, n: Option<usize>) -> Option<&'a Row> {
    match n {
        Some(n) => figures.at(case, subject, n),
        None => figures.one(case, subject),
    }
}

impl Promise {
    /// Judges it; of several sizes the worst counts.
    fn judge(&self, figures: &Figures) -> Must {
        let Promise { term, or, .. } = self;
        let best = term.divisor(figures).or(term.over.as_ref().map(Over::words));
        let name = self.name.replace("{best}", &best.unwrap_or_default());
        if let Some(or) = or {
            let Some((first, second)) = term.verdict(figures).zip(or.verdict(figures)) else {
                return Must::unknown(&name, NOT_MEASURED);
            };
            return Must {
                name,
                figure: format!("{}, {}", first.0, second.0),
                limit: format!("{}, or {}", first.1, second.1),
                holds: first.2 || second.2,
            };
        }
        if let (Some(sizes @ Sizes::Range { .. }), Some(Over::One(other))) = (term.n, &term.over) {
            let subjects = [term.subject.as_str(), other];
            let ratios = figures.ratios(&term.case, subjects, |n| sizes.has(n));
            let (mut must, at) = worst_at(&name, ratios, term.bound);
            let floor = at.and_then(|n| self.beside(figures, Some(n)));
            must.figure += &floor.map_or(String::new(), |(_, words)| words);
            return must;
        }
        let figure = term.figure(figures, &term.subject);
        let unit = term.unit.as_deref().unwrap_or("×");
        let mut must = of(&name, || Some((figure.as_ref()?.0, term.bound, unit)));
        must.figure += figure.as_ref().map_or("", |(_, turns)| turns);
        if let Some((floor, words)) = self.beside(figures, term.at()) {
            must.figure += &words;
            let own = figure.map(|(figure, _)| figure);
            if !must.holds && own.is_some_and(|own| term.bound.is_at(floor, own)) {
                must.holds = true;
                must.figure += ", which is no further than a twentieth";
            }
        }
        must
    }

    /// The same figure of the floor, at one size of several, and words for it.
    fn beside(&self, figures: &Figures, n: Option<usize>) -> Option<(f64, String)> {
        let floor = self.floor.as_ref()?;
        // A subject has no turn of the plain way beside it: by that way's row.
        let figure = match self.term.figure {
            Figure::Turns | Figure::NineteenOfTwenty => Figure::Instances,
            figure => figure,
        };
        let term = Term { n: n.map(Sizes::At), figure, ..self.term.clone() };
        let (figure, _) = term.figure(figures, floor)?;
        Some((figure, format!(", {} {}", floor.replace('_', " "), digits(figure))))
    }
}

/// Judges the promises of a bench.
pub(super) fn musts(bench: &str, figures: &Figures) -> Vec<Must> {
    let (_, all) = file::read(file::FILE).expect("a test reads the file");
    let of_bench = all.iter().filter(|promise| promise.bench == bench);
    of_bench.map(|promise| promise.judge(figures)).collect()
}
