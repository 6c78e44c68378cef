//! `kumiki compare A… --- B…`.

use anyhow::{Result, bail};
use kumiki_measure::compare::{Basis, FamilyOfRuns, RunsCompared, Verdict as Found, compare_runs};
use kumiki_measure::schema::Results;

use super::{interval, percent, word};
use crate::args::{Compare, FailOn};
use crate::{Verdict, output, results};

pub(super) fn run(args: &Compare, a: &[String], b: &[String]) -> Result<Verdict> {
    let db = args.db.db.as_deref();
    let side = |names: &[String]| -> Result<Vec<Results>> {
        names.iter().map(|name| Ok(results::load(name, db)?.results)).collect()
    };
    let (a, b) = (named(a, side(a)?), named(b, side(b)?));
    each_is_another(&[&a[..], &b[..]].concat())?;
    let results =
        |side: Vec<(String, Results)>| side.into_iter().map(|(_, it)| it).collect::<Vec<_>>();
    let basis = if args.time { Basis::Time } else { Basis::Cycles };
    let compared = compare_runs(&results(a), &results(b), args.threshold / 100.0, basis);
    if args.json {
        output::json(&compared)?;
    } else {
        print(&compared, args.all)?;
    }
    let unclear = args.fail_on == FailOn::Unclear && compared.any(Found::Unclear);
    let worse = compared.any(Found::Regression);
    Ok(if worse || unclear || compared.families.is_empty() {
        Verdict::Negative
    } else {
        Verdict::Fine
    })
}

fn named(names: &[String], results: Vec<Results>) -> Vec<(String, Results)> {
    names.iter().cloned().zip(results).collect()
}

/// Refuses a run that is there twice: it would count as two experiments, which it is not.
fn each_is_another(all: &[(String, Results)]) -> Result<()> {
    for (at, (name, results)) in all.iter().enumerate() {
        let is_it = |(_, other): &&(String, Results)| {
            (&other.run.started, &other.rows) == (&results.run.started, &results.rows)
        };
        if let Some((first, _)) = all[..at].iter().find(is_it) {
            let same = if first == name { "is named twice" } else { "are one and the same run" };
            let names = if first == name { name.clone() } else { format!("{first} and {name}") };
            bail!(
                "{names} {same}: a run is one experiment, however often it is named; give results of other runs"
            );
        }
    }
    Ok(())
}

fn print(compared: &RunsCompared, all: bool) -> Result<()> {
    let headings = ["verdict", "family", "parameters", "B/A", "95 % CI", "p", "rows"];
    let mut table = output::Rows::new(&headings, 3);
    let order = [Found::Regression, Found::Improvement, Found::Unclear, Found::Same];
    for verdict in order {
        let own = compared.families.iter().filter(|family| family.verdict == verdict);
        for family in own.filter(|_| all || verdict != Found::Same) {
            table.add([
                word(verdict).to_owned(),
                family.case.clone(),
                output::params(&family.params),
                format!("{:.3}", family.ratio),
                interval(family.ci),
                format!("{:.3}", family.p),
                family.rows.to_string(),
            ]);
        }
    }
    if !table.is_empty() {
        table.print()?;
        output::line("")?;
    }
    output::text(output::wrapped(&summary(compared), ""))?;
    if compared.families.is_empty() {
        output::talk("the results have no row that all of them have; there is nothing to compare");
    }
    Ok(())
}

fn summary(compared: &RunsCompared) -> String {
    let told = |family: &FamilyOfRuns| {
        format!("{:.3} {}, {}", family.ratio, interval(family.ci), word(family.verdict))
    };
    let mut text = String::new();
    if let Some(everything) = &compared.everything {
        text += &format!("Everything: {}. ", told(everything));
    }
    if let Some(clock) = &compared.clock {
        text += &format!(
            "Costs are in cycles, of which one took {} (--time compares as users feel it). ",
            told(clock)
        );
    }
    let count = |verdict| compared.families.iter().filter(|one| one.verdict == verdict).count();
    text += &format!(
        "{} and {} runs, {} families compared at {} %: {} worse, {} better, {} the same, {} unclear. ",
        compared.a.len(),
        compared.b.len(),
        compared.families.len(),
        percent(compared.threshold),
        count(Found::Regression),
        count(Found::Improvement),
        count(Found::Same),
        count(Found::Unclear),
    );
    text += &match compared.few {
        true => format!(
            "So few runs say nothing worse or better at {} %: three of each side do.",
            percent(compared.level)
        ),
        false => format!(
            "p is the share of ways to name these runs in which any family is as far on that side; where \
             nothing has changed, something is called worse in at most {} % of comparisons.",
            percent(compared.level)
        ),
    };
    if compared.apart {
        text += " One side was measured before the other: what changes over hours is then taken for a \
                 difference. Measure in turns: A, B, A, B.";
    }
    text
}
