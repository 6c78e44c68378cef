//! `kumiki measure` and `kumiki measure ls`.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::answer::Answer;
use crate::args::{Measure, MeasureCommand};
use crate::select::Select;
use crate::session::Measured;
use crate::{Verdict, many, output, select, session};

pub(crate) fn run(args: Measure) -> Result<Verdict> {
    match args.command {
        Some(MeasureCommand::Ls { select, quick, full, json }) => {
            return ls(&select, session::level(quick, full), json);
        }
        Some(MeasureCommand::Many { json }) => return many::measure(json),
        None => {}
    }
    output::check()?;
    let Measured { id, results, interrupt } = session::measure(&args.select, &args.how)?;
    let answer = Answer {
        name: &format!("result {id}"),
        results: &results,
        page: None,
        verbose: args.verbose,
        rows_above: true,
    };
    let text = answer.text();
    if args.json {
        output::json(&results)?;
        output::aside(&text);
    } else {
        output::table(&results)?;
        output::text(format!("\n{text}"))?;
    }
    Ok(session::verdict(&interrupt, &results))
}

fn ls(select: &Select, level: kumiki_measure::case::Level, json: bool) -> Result<Verdict> {
    let cases = select::cases(select, level)?;
    if json {
        let list: Vec<_> = cases
            .iter()
            .map(|case| {
                serde_json::json!({
                    "case": case.name,
                    "params": case.params,
                    "unit": case.unit,
                    "about": case.about,
                })
            })
            .collect();
        output::json(&list)?;
        return Ok(Verdict::Fine);
    }
    let mut names: Vec<(&str, &str)> = Vec::new();
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &cases {
        if !rows.contains_key(case.name) {
            names.push((case.name, case.about));
        }
        *rows.entry(case.name).or_default() += 1;
    }
    let width = names.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, about) in names {
        let start = format!("{name:width$}  {:>3}  ", rows[name]);
        let below = " ".repeat(start.len());
        text += &match output::narrow(output::WIDE) {
            true => output::hanging(about, &start, &below),
            false => format!("{start}{about}\n"),
        };
    }
    text += &format!("{:width$}  {:>3}  rows in all\n", "", cases.len());
    output::text(text)?;
    Ok(Verdict::Fine)
}
