//! `kumiki compare A B`.

use anyhow::Result;
use kumiki_measure::compare::{
    Cause, Compared, Comparison, Doubt, Side, Verdict as Found, compare,
};
use kumiki_report::format;

use crate::args::{Compare, FailOn};
use crate::results::Loaded;
use crate::{Verdict, output, results};

/// Unclear rows of one cause that are named unless all are asked for.
const EXAMPLES: usize = 3;

/// More visits than so many times as many are not counted.
const MANY: f64 = 100.0;

/// A threshold above this share finds nothing any more, and is not proposed.
const LARGEST_THRESHOLD: f64 = 0.5;

pub(crate) fn run(args: Compare) -> Result<Verdict> {
    let db = args.db.db.as_deref();
    let (a, b) = (results::load(&args.a, db)?, results::load(&args.b, db)?);
    let comparison = compare(&a.results, &b.results, args.threshold / 100.0);
    if args.json {
        output::json(&comparison)?;
    } else {
        print(&comparison, [&a, &b], args.all)?;
    }
    let unclear = args.fail_on == FailOn::Unclear && comparison.count(Found::Unclear) > 0;
    let worse = comparison.count(Found::Regression) > 0;
    Ok(if worse || unclear || comparison.rows.is_empty() {
        Verdict::Negative
    } else {
        Verdict::Fine
    })
}

fn print(comparison: &Comparison, sides: [&Loaded; 2], all: bool) -> Result<()> {
    let headings =
        ["", "verdict", "case", "parameters", "A", "B/A", "B", "95 % CI", "p", "line A → B"];
    let shown = if output::narrow(output::WIDE) { &headings[..6] } else { &headings[..] };
    let mut table = output::Rows::new(shown, 4);
    let told =
        |row: &&Compared| all || matches!(row.verdict, Found::Regression | Found::Improvement);
    for row in comparison.rows.iter().filter(told) {
        let median = |side: &Side| format::quantity(side.median, row.unit);
        let cells = [
            output::mark(row.a.disturbed || row.b.disturbed).to_owned(),
            word(row.verdict).to_owned(),
            row.case.clone(),
            output::params(&row.params),
            median(&row.a),
            format!("{:.3}", row.ratio),
            median(&row.b),
            format!("[{:.3}, {:.3}]", row.ci[0], row.ci[1]),
            format!("{:.3}", row.p),
            distance(row),
        ];
        table.add(&cells[..shown.len()]);
    }
    if !table.is_empty() {
        table.print()?;
        output::line("")?;
    }
    unclear(comparison, all)?;
    for (side, loaded) in ["A", "B"].iter().zip(sides) {
        output::text(output::wrapped(&origin(side, loaded), ""))?;
    }
    let count = |found| comparison.count(found);
    let counts = format!(
        "{} rows compared at {} %: {} worse, {} better, {} the same, {} unclear; only in A {}, \
         only in B {}",
        comparison.rows.len(),
        percent(comparison.threshold),
        count(Found::Regression),
        count(Found::Improvement),
        count(Found::Same),
        count(Found::Unclear),
        comparison.only_a.len(),
        comparison.only_b.len(),
    );
    output::text(output::wrapped(&counts, ""))?;
    if comparison.rows.is_empty() {
        output::talk("the two results have no row in common; there is nothing to compare");
    }
    Ok(())
}

/// What a side is: its name, machine and run.
fn origin(side: &str, Loaded { name, results }: &Loaded) -> String {
    let (machine, run) = (&results.machine, &results.run);
    let day = run.started.split('T').next().unwrap_or_default();
    let words = [&machine.cpu_model, &format!("Linux {}", machine.kernel), day];
    let told: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    format!("{side} is {name}: {}, {} run", told.join(", "), run.mode)
}

/// Why rows are unclear and what would clear them, cause by cause, the most
/// frequent first.
fn unclear(comparison: &Comparison, all: bool) -> Result<()> {
    let mut causes: Vec<(Cause, Vec<(&Compared, &Doubt)>)> = Vec::new();
    for row in &comparison.rows {
        let Some(doubt) = &row.doubt else { continue };
        match causes.iter_mut().find(|(cause, _)| *cause == doubt.cause) {
            Some((_, rows)) => rows.push((row, doubt)),
            None => causes.push((doubt.cause, vec![(row, doubt)])),
        }
    }
    causes.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    let mut text = String::new();
    for (cause, rows) in causes {
        let heading = format!("{} unclear: {}", rows.len(), title(cause));
        text += &output::wrapped(&heading, "");
        text += &output::wrapped(&format!("→ {}", cause.remedy()), "  ");
        let shown = if all { rows.len() } else { EXAMPLES };
        for (row, doubt) in rows.iter().take(shown) {
            text += &output::wrapped(&one(row, doubt), "  ");
        }
        if let Some(more @ 1..) = rows.len().checked_sub(shown) {
            text += &format!("  and {more} more (--all)\n");
        }
        text += "\n";
    }
    output::text(text)
}

/// A row, why it is unclear, and what would clear just this one.
fn one(row: &Compared, doubt: &Doubt) -> String {
    let mut ways = Vec::new();
    if let Some(times) = doubt.times_visits {
        let about =
            if times > MANY { format!("over {MANY}") } else { format!("about {}", times.ceil()) };
        ways.push(format!("{about} times as many visits"));
    }
    if let Some(same) = doubt.same_at.filter(|same| *same <= LARGEST_THRESHOLD) {
        // Rounded up: at the threshold that is named the row is the same.
        ways.push(format!("the same at --threshold {}", (same * 1000.0).ceil() / 10.0));
    }
    let ways = if ways.is_empty() { String::new() } else { format!("; {}", ways.join(", or ")) };
    let name = format!("{} {}", row.case, output::params(&row.params));
    format!("{}: {}{ways}", name.trim_end(), doubt.why)
}

fn title(cause: Cause) -> &'static str {
    match cause {
        Cause::Moved => "the cpus were not as far apart on both sides",
        Cause::FewVisits => "too few visits to show any difference",
        Cause::Disturbed => "other work disturbed the visits",
        Cause::Clock => "the core's clock wandered",
        Cause::Overlap => "medians are apart, but visits of A and B overlap",
        Cause::Wide => "visits spread too far for this threshold",
        Cause::Near => "the difference is about the threshold itself",
    }
}

/// A share in percent with the digits that it was given with: 0.1, not 0.
fn percent(share: f64) -> f64 {
    // Dividing by 100 and multiplying again may leave a last bit behind.
    (share * 100.0 * 1e9).round() / 1e9
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
