//! Rows of `dev/bench/` and promises about them, for every bench that it has.

use std::path::Path;

use anyhow::{Context, Result};

use super::{BenchOutcome, Must, Row};
use crate::debian;
use crate::run::{cargo, program, read, run, target_folder};

/// Our own subject.
pub(super) const KUMIKI: &str = "kumiki";

/// What two threads can copy that do nothing else.
pub(super) const COPY_LIMIT: &str = "nontemporal_2t";

/// Programs that some bench starts. All are built for each: with another set cargo would choose
/// other features, and build everything again.
pub(super) const PROGRAMS: &str =
    "--package kumiki-bench --package kumiki-capi --package kumiki-du";

/// Builds the programs, has `dev/bench/` measure everything or these cases, prints the rows.
pub(super) fn measured(bench: &str, cases: &[String]) -> Result<BenchOutcome> {
    debian::install("bench")?;
    let build = format!("build --profile dist --locked {PROGRAMS} --features kumiki-bench/peers");
    run(&mut cargo(&build))?;
    let words = std::iter::once(bench).chain(cases.iter().map(String::as_str));
    measured_by(&target_folder()?.join("dist/kumiki-bench"), words)
}

/// Has this program of `dev/bench/` measure, prints the rows.
pub(super) fn measured_by<'a>(
    binary: &Path,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<BenchOutcome> {
    let json = read(&mut program(&binary.to_string_lossy(), words))?;
    let outcome = BenchOutcome::read(json.as_bytes()).context("result of `kumiki-bench`")?;
    print_rows(&outcome.rows);
    Ok(outcome)
}

pub(super) fn print_rows(rows: &[Row]) {
    println!(
        "{:15} {:>9}  {:20} {:>12} {:>12} {:>4}  {:>8} {:>10}",
        "case", "n", "subject", "median", "p99", "unit", "÷ limit", "÷ base"
    );
    let ratio = |of: f64, to: Option<f64>| to.map_or(String::new(), |to| format!("{:.2}", of / to));
    for row in rows {
        let limit = match row.unit.as_str() {
            "ns" => row.limit,
            // A bandwidth is not compared with a round trip, but with the most
            // that two threads reach.
            _ => Figures(rows).at(&row.case, COPY_LIMIT, row.n).map(|limit| limit.median),
        };
        println!(
            "{:15} {:>9}  {:20} {:>12.4} {:>12.4} {:>4}  {:>8} {:>10}",
            row.case,
            row.n,
            row.subject,
            row.median,
            row.p99,
            row.unit,
            ratio(row.median, limit),
            ratio(row.median, row.base),
        );
    }
}

/// The rows, to be asked.
pub(super) struct Figures<'a>(pub(super) &'a [Row]);

impl<'a> Figures<'a> {
    /// Rows of a case, of one subject.
    pub(super) fn rows(&self, case: &str, subject: &str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.case == case && row.subject == subject)
    }

    /// The only row of a case without sizes.
    pub(super) fn one(&self, case: &str, subject: &str) -> Option<&'a Row> {
        self.rows(case, subject).next()
    }

    /// The row of a case at one size.
    pub(super) fn at(&self, case: &str, subject: &str, n: usize) -> Option<&'a Row> {
        self.rows(case, subject).find(|row| row.n == n)
    }

    /// Median of one subject ÷ median of the other at each size in `sizes` that either
    /// has; `None` for one that lacks the other.
    pub(super) fn ratios(
        &self,
        case: &str,
        subjects: [&str; 2],
        sizes: impl Fn(usize) -> bool,
    ) -> Vec<(usize, Option<f64>)> {
        let both = subjects.into_iter().flat_map(|subject| self.rows(case, subject));
        let mut all: Vec<usize> = both.map(|row| row.n).filter(|&n| sizes(n)).collect();
        all.sort_unstable();
        all.dedup();
        let [subject, other] = subjects;
        let ratio = |n| Some(self.at(case, subject, n)?.median / self.at(case, other, n)?.median);
        all.into_iter().map(|n| (n, ratio(n))).collect()
    }
}

/// In place of a figure.
pub(super) const NOT_MEASURED: &str = "not measured";

/// Bound of a figure.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

/// Part of a floor's figure by which another one may be worse and still be at it.
const AT_FLOOR: f64 = 1.05;

impl Bound {
    /// True if a figure is as good as the floor's, or all but.
    pub(super) fn is_at(self, floor: f64, figure: f64) -> bool {
        match self {
            Bound::AtMost(_) | Bound::Below(_) => figure <= floor * AT_FLOOR,
            Bound::AtLeast(_) => figure * AT_FLOOR >= floor,
        }
    }

    pub(super) fn holds(self, figure: f64) -> bool {
        match self {
            Bound::AtMost(limit) => figure <= limit,
            Bound::Below(limit) => figure < limit,
            Bound::AtLeast(limit) => figure >= limit,
        }
    }

    /// Whether `a` is harder to hold than `b`; what is no number is hardest.
    fn worse(self, a: f64, b: f64) -> bool {
        let further = match self {
            Bound::AtMost(_) | Bound::Below(_) => a > b,
            Bound::AtLeast(_) => a < b,
        };
        !b.is_nan() && (a.is_nan() || further)
    }

    pub(super) fn text(self, unit: &str) -> String {
        match self {
            Bound::AtMost(limit) => format!("at most {limit} {unit}"),
            Bound::Below(limit) => format!("below {limit} {unit}"),
            Bound::AtLeast(limit) => format!("at least {limit} {unit}"),
        }
    }
}

/// A promise of one figure; without it, a subject was not measured.
pub(super) fn of<'u>(name: &str, figure: impl FnOnce() -> Option<(f64, Bound, &'u str)>) -> Must {
    let Some((figure, bound, unit)) = figure() else {
        return Must::unknown(name, NOT_MEASURED);
    };
    Must {
        name: name.to_owned(),
        figure: format!("{} {unit}", digits(figure)),
        limit: bound.text(unit),
        holds: bound.holds(figure),
    }
}

/// Judges a promise of every size, of which none may be missing: the worst counts. Says which was.
pub(super) fn worst_at(
    name: &str,
    ratios: Vec<(usize, Option<f64>)>,
    bound: Bound,
) -> (Must, Option<usize>) {
    if let Some((n, _)) = ratios.iter().find(|(_, ratio)| ratio.is_none()) {
        return (Must::unknown(name, &format!("not measured at n = {n}")), None);
    }
    let known = ratios.into_iter().filter_map(|(n, ratio)| Some((n, ratio?)));
    let worst = known.reduce(|a, b| if bound.worse(b.1, a.1) { b } else { a });
    let Some((n, ratio)) = worst else { return (Must::unknown(name, NOT_MEASURED), None) };
    let mut must = of(name, || Some((ratio, bound, "×")));
    must.figure += &format!(" at n = {n}");
    (must, Some(n))
}

/// Enough digits to see on which side of a limit a figure is.
pub(super) fn digits(figure: f64) -> String {
    if figure.abs() < 0.1 { format!("{figure:.5}") } else { format!("{figure:.3}") }
}
