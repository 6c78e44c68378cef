//! `kumiki compare A B`.

use anyhow::Result;
use kumiki_measure::compare::{Compared, Comparison, Side, Verdict as Found, compare};
use kumiki_report::format;

use crate::args::Compare;
use crate::{Verdict, output, results};

pub(crate) fn run(args: Compare) -> Result<Verdict> {
    let db = args.db.db.as_deref();
    let (a, b) = (results::load(&args.a, db)?, results::load(&args.b, db)?);
    let comparison = compare(&a, &b, args.threshold / 100.0);
    if args.json {
        output::json(&comparison)?;
    } else {
        print(&comparison, args.all)?;
    }
    let regressions = comparison.count(Found::Regression);
    Ok(if regressions > 0 || comparison.rows.is_empty() {
        Verdict::Negative
    } else {
        Verdict::Fine
    })
}

fn print(comparison: &Comparison, all: bool) -> Result<()> {
    let mut table = output::columns(
        &["verdict", "case", "parameters", "A", "B", "B/A", "95 % CI", "p", "line A → B"],
        3,
    );
    let told =
        |row: &&Compared| all || matches!(row.verdict, Found::Regression | Found::Improvement);
    for row in comparison.rows.iter().filter(told) {
        let median = |side: &Side| {
            let mark = if side.disturbed { "! " } else { "" };
            format!("{mark}{}", format::quantity(side.median, row.unit))
        };
        table.add_row([
            word(row.verdict).to_owned(),
            row.case.clone(),
            output::params(&row.params),
            median(&row.a),
            median(&row.b),
            format!("{:.3}", row.ratio),
            format!("[{:.3}, {:.3}]", row.ci[0], row.ci[1]),
            format!("{:.3}", row.p),
            distance(row),
        ]);
    }
    if table.row_iter().next().is_some() {
        output::line(table.trim_fmt())?;
        output::line("")?;
    }
    let count = |found| comparison.count(found);
    output::line(format_args!(
        "{} rows compared at {:.0} %: {} worse, {} better, {} the same, {} unclear; only in A {}, only in B {}",
        comparison.rows.len(),
        comparison.threshold * 100.0,
        count(Found::Regression),
        count(Found::Improvement),
        count(Found::Same),
        count(Found::Unclear),
        comparison.only_a.len(),
        comparison.only_b.len(),
    ))?;
    if comparison.rows.is_empty() {
        output::talk("the two results have no row in common; there is nothing to compare");
    }
    Ok(())
}

fn word(verdict: Found) -> &'static str {
    match verdict {
        Found::Regression => "worse",
        Found::Improvement => "better",
        Found::Same => "same",
        Found::Unclear => "unclear",
    }
}

fn distance(row: &Compared) -> String {
    match (row.a.round_trip_ns, row.b.round_trip_ns) {
        (Some(a), Some(b)) => format!("{} → {}", format::time(a), format::time(b)),
        _ => String::new(),
    }
}
