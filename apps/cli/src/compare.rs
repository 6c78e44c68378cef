//! `kumiki compare A B`, and several results of each side.

mod runs;

use std::ffi::OsString;

use anyhow::{Result, bail};
use kumiki_measure::compare::{
    Cause, Compared, Comparison, Doubt, Family, MOST_TOLD, Side, Verdict as Found, compare,
};
use kumiki_measure::stats::quiet::LEAST;
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

/// Word between the results of both sides as a person types it, which would be an option to clap.
const BETWEEN: &str = "---";

/// Form of that word that no option has.
const PARTED: &str = " --- ";

/// The command line with the word between the sides of `compare` as it can be parsed.
pub(crate) fn parted(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "compare") {
        words.iter_mut().filter(|word| *word == BETWEEN).for_each(|word| *word = PARTED.into());
    }
    words
}

pub(crate) fn run(args: Compare) -> Result<Verdict> {
    let db = args.db.db.as_deref();
    let mut sides = args.results.split(|word| word == PARTED || word == BETWEEN);
    let (a, b) = match (sides.next(), sides.next(), sides.next()) {
        (Some([a, b]), None, _) | (Some([a]), Some([b]), None) if !args.time => (a, b),
        (Some(a @ [_, ..]), Some(b @ [_, ..]), None) => return runs::run(&args, a, b),
        _ => bail!(
            "two results, or several of each side with `---` between the sides: kumiki compare A B, \
             kumiki compare A… --- B…; --time is for several of each side"
        ),
    };
    let (a, b) = (results::load(a, db)?, results::load(b, db)?);
    let comparison = compare(&a.results, &b.results, args.threshold / 100.0);
    if args.json {
        output::json(&comparison)?;
    } else {
        print(&comparison, [&a, &b], args.all)?;
    }
    let any = |verdict| comparison.count(verdict) + comparison.families(verdict) > 0;
    let unclear = args.fail_on == FailOn::Unclear && any(Found::Unclear);
    let worse = any(Found::Regression);
    Ok(if worse || unclear || comparison.rows.is_empty() {
        Verdict::Negative
    } else {
        Verdict::Fine
    })
}

fn print(comparison: &Comparison, sides: [&Loaded; 2], all: bool) -> Result<()> {
    families(comparison, all)?;
    let headings =
        ["", "verdict", "case", "parameters", "A", "B/A", "B", "95 % CI", "p", "line A → B"];
    let shown = if output::narrow(output::WIDE) { &headings[..6] } else { &headings[..] };
    let mut table = output::Rows::new(shown, 4);
    let differs =
        |row: &&Compared| all || matches!(row.verdict, Found::Regression | Found::Improvement);
    for row in comparison.rows.iter().filter(differs) {
        let quiet = |side: &Side| format::quantity(side.quiet, row.unit);
        let cells = [
            output::mark(row.a.disturbed || row.b.disturbed).to_owned(),
            word(row.verdict).to_owned(),
            row.case.clone(),
            output::params(&row.params),
            quiet(&row.a),
            format!("{:.3}", row.ratio),
            quiet(&row.b),
            interval(row.ci),
            probability(row.p),
            distance(row),
        ];
        table.add(&cells[..shown.len()]);
    }
    if !table.is_empty() {
        output::line("row by row")?;
        table.print()?;
        output::line("")?;
    }
    if all {
        unclear(comparison, all)?;
    }
    for (side, loaded) in ["A", "B"].iter().zip(sides) {
        output::text(output::wrapped(&origin(side, loaded), ""))?;
    }
    output::text(output::wrapped(&certainty(comparison), ""))?;
    let counted = |[one, several]: [&str; 2], of: usize, count: &dyn Fn(Found) -> usize| {
        format!(
            "{of} {} compared at {} %: {} worse, {} better, {} the same, {} unclear",
            if of == 1 { one } else { several },
            percent(comparison.threshold),
            count(Found::Regression),
            count(Found::Improvement),
            count(Found::Same),
            count(Found::Unclear),
        )
    };
    let families = &|found| comparison.families(found);
    let counts = counted(["family", "families"], comparison.families.len(), families);
    output::text(output::wrapped(&counts, ""))?;
    let counts = format!(
        "{}; only in A {}, only in B {}",
        counted(["row", "rows"], comparison.rows.len(), &|found| comparison.count(found)),
        comparison.only_a.len(),
        comparison.only_b.len(),
    );
    output::text(output::wrapped(&counts, ""))?;
    if comparison.rows.is_empty() {
        output::talk("the two results have no row in common; there is nothing to compare");
    }
    Ok(())
}

/// The families that differ and those that are unclear; the others too if all are asked for.
fn families(comparison: &Comparison, all: bool) -> Result<()> {
    let headings = ["verdict", "family", "parameters", "B/A", "95 % CI", "rows", ""];
    let shown = if output::narrow(output::WIDE) { 4 } else { headings.len() };
    let mut table = output::Rows::new(&headings[..shown], 3);
    let order = [Found::Regression, Found::Improvement, Found::Unclear, Found::Same];
    for verdict in order {
        for family in comparison.families.iter().filter(|family| family.verdict == verdict) {
            if verdict == Found::Same && !all {
                continue;
            }
            let cells = [
                word(verdict).to_owned(),
                family.case.clone(),
                output::params(&family.params),
                format!("{:.3}", family.ratio),
                interval(family.ci),
                family.rows.to_string(),
                clears(family),
            ];
            table.add(&cells[..shown]);
        }
    }
    if !table.is_empty() {
        output::line("families: rows that differ in sizes and counts only, pooled")?;
        table.print()?;
        output::line("")?;
    }
    remedies(comparison)
}

/// Remedies for unclear families, cause by cause.
fn remedies(comparison: &Comparison) -> Result<()> {
    let mut causes: Vec<(Cause, usize)> = Vec::new();
    for doubt in comparison.families.iter().filter_map(|family| family.doubt.as_ref()) {
        match causes.iter_mut().find(|(cause, _)| *cause == doubt.cause) {
            Some((_, count)) => *count += 1,
            None => causes.push((doubt.cause, 1)),
        }
    }
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (cause, count) in &causes {
        let what = if *count == 1 { "family" } else { "families" };
        let heading = format!("{count} {what} unclear: {}", title(*cause));
        output::text(output::wrapped(&heading, ""))?;
        output::text(output::wrapped(&format!("→ {}", cause.remedy()), "  "))?;
    }
    if causes.is_empty() { Ok(()) } else { output::line("") }
}

/// Ground of a family's verdict, or its remedy.
fn clears(family: &Family) -> String {
    if let Some(within) = family.same_within {
        return format!("within {} %", tenth(within));
    }
    let Some(doubt) = &family.doubt else { return String::new() };
    let same = doubt.same_at.filter(|same| *same <= LARGEST_THRESHOLD);
    let same = same.map(|same| format!("the same at --threshold {}", tenth(same)));
    match (doubt.times_visits, same) {
        (Some(times), _) if times > 1.0 && times <= MANY => {
            format!("{:.0} times the visits tell", times.ceil())
        }
        (_, Some(same)) => same,
        _ => doubt.why.clone(),
    }
}

/// A probability, which is never 0.
fn probability(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// A share in percent, rounded up: within what is named it holds.
fn tenth(share: f64) -> f64 {
    (share * 1000.0).ceil() / 10.0
}

fn name(case: &str, params: &kumiki_measure::schema::Params) -> String {
    format!("{case} {}", output::params(params)).trim_end().to_owned()
}

fn interval([low, high]: [f64; 2]) -> String {
    if high.is_finite() { format!("[{low:.3}, {high:.3}]") } else { "unknown".to_owned() }
}

/// Certainty of the comparison, and the unit in which costs are compared.
fn certainty(comparison: &Comparison) -> String {
    let mut text = format!(
        "Where nothing has changed, something is called worse in at most {} % of comparisons: so far \
         as runs move from one to the next as on the guests (KVM, AMD EPYC) by which that table was \
         made. Elsewhere that share is not known, and three runs of each side know it by themselves \
         (kumiki compare A… --- B…).",
        percent(comparison.level)
    );
    let kinds = ["on one cpu", "between cpus"];
    let tells: Vec<String> = kinds
        .iter()
        .zip(comparison.tells)
        .filter_map(|(kind, tells)| {
            let tells = tells?;
            let more = if tells < MOST_TOLD { "" } else { "more than " };
            Some(format!("{more}{:.0} % {kind}", 100.0 * tells))
        })
        .collect();
    if !tells.is_empty() {
        text += &format!(
            " So of most families two runs like these show differences of {} and more.",
            tells.join(", ")
        );
    } else if !comparison.families.is_empty() {
        text += &format!(
            " No family has {LEAST} visits on each side: two runs like these show no difference."
        );
    }
    match comparison.clock {
        Some(clock) if clock.cycles => {
            text += &format!(
                " Costs are compared in cycles: B's core took {:.3} times as long for one.",
                clock.b_ns / clock.a_ns
            );
        }
        Some(clock) => {
            text += &format!(
                " B's core took {:.2} times as long for a cycle, so costs are compared in time.",
                clock.b_ns / clock.a_ns
            );
        }
        None => {}
    }
    text
}

/// Origin of a side: its name, machine and run.
fn origin(side: &str, Loaded { name, results }: &Loaded) -> String {
    let (machine, run) = (&results.machine, &results.run);
    let day = run.started.split('T').next().unwrap_or_default();
    let words = [&machine.cpu_model, &format!("Linux {}", machine.kernel), day];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    format!("{side} is {name}: {}, {} run", words.join(", "), run.mode)
}

/// Causes for which rows are unclear, with their remedies, the most frequent first.
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
        ways.push(format!("the same at --threshold {}", tenth(same)));
    }
    let ways = if ways.is_empty() { String::new() } else { format!("; {}", ways.join(", or ")) };
    format!("{}: {}{ways}", name(&row.case, &row.params), doubt.why)
}

fn title(cause: Cause) -> &'static str {
    match cause {
        Cause::Moved => "the cpus were not as far apart on both sides",
        Cause::FewVisits => "too few visits to show any difference",
        Cause::Disturbed => "other work disturbed the visits",
        Cause::Runs => "what moves whole runs moves it by as much",
        Cause::Overlap => "costs are apart, but visits of A and B overlap",
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
