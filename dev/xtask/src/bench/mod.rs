//! `cargo xtask bench NAME`: measures a part as its user runs it and checks
//! what the part promises. Never a test: a person or a script judges.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use kumiki_measure::bench::{Document, Row};
use kumiki_measure::schema::Machine;

use crate::{Bench, Slice};

mod against;
mod ahead;
mod judge;
mod lab;
mod measure;
mod node;
mod parasc;
mod promises;
mod python;
mod resource;
#[cfg(test)]
mod sample;
mod servers;
mod shadow;
mod verdicts;

/// Result of a bench.
struct BenchOutcome {
    machine: Machine,
    rows: Vec<Row>,
    musts: Vec<Must>,
}

impl BenchOutcome {
    /// Output of a program of `dev/bench/`.
    fn read(json: &[u8]) -> serde_json::Result<Self> {
        let Document { machine, rows, .. } = serde_json::from_slice(json)?;
        Ok(BenchOutcome { machine, rows, musts: Vec::new() })
    }
}

/// A promise, the figure that was measured, and whether it holds.
#[derive(Debug)]
struct Must {
    name: String,
    figure: String,
    limit: String,
    holds: bool,
}

impl Must {
    /// There is no figure, which is a failure too.
    fn unknown(name: &str, why: &str) -> Self {
        Must { name: name.to_owned(), figure: why.to_owned(), limit: String::new(), holds: false }
    }
}

/// Runs a bench, or these cases of it; fails if a promise does not hold. `against` is a
/// commit to be measured in turns with.
pub(crate) fn bench(
    name: Bench,
    json: Option<&Path>,
    check: bool,
    against: Option<&str>,
    cases: &[String],
    slice: &Slice,
) -> Result<ExitCode> {
    // Opened first: an unwritable file must not cost a run of minutes.
    let json = json.map(|path| {
        let file = File::create(path).with_context(|| format!("writing {}", path.display()))?;
        anyhow::Ok((path, BufWriter::new(file)))
    });
    let json = json.transpose()?;

    let mut outcome = match (name, against) {
        (Bench::Shadow | Bench::Parasc, Some(commit)) => {
            let bench = if name == Bench::Shadow { against::SHADOW } else { against::PARASC };
            against::against(&bench, commit, cases)?
        }
        (_, Some(_)) => bail!("--against is for `cargo xtask bench shadow` and `parasc` only"),
        (Bench::Resource, None) => resource::resource(check, cases)?,
        (Bench::Shadow, None) => shadow::shadow(check, cases)?,
        (Bench::Parasc, None) => parasc::parasc(check, cases)?,
        (Bench::Node, None) => node::node(check, cases)?,
        (Bench::Servers, None) => servers::servers(check, cases)?,
        (Bench::Python, None) => python::python(check, cases)?,
        (Bench::Ahead, None) => ahead::ahead(check, cases)?,
        (Bench::Verdicts, None) => verdicts::verdicts(slice, cases)?,
        _ if !cases.is_empty() => {
            bail!("--case is not for `cargo xtask bench measure` and `lab`")
        }
        (Bench::Measure, None) => measure::measure(check)?,
        (Bench::Lab, None) => lab::lab(check)?,
    };
    if !cases.is_empty() {
        // What was not asked for is no failure.
        outcome.musts.retain(|must| must.figure != judge::NOT_MEASURED);
    }
    if let Some((path, mut file)) = json {
        let document = Document::new(outcome.machine, outcome.rows);
        write_json(&mut file, &document).with_context(|| format!("writing {}", path.display()))?;
    }
    print_musts(&mut std::io::stdout().lock(), &outcome.musts)?;
    if outcome.musts.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let broken = outcome.musts.iter().filter(|must| !must.holds).count();
    println!("{} promises hold, {broken} fail", outcome.musts.len() - broken);
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_json(out: &mut impl Write, document: &Document) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn print_musts(out: &mut impl Write, musts: &[Must]) -> std::io::Result<()> {
    for Must { name, figure, limit, holds } in musts {
        let verdict = if *holds { "holds" } else { "FAILS" };
        let limit = if limit.is_empty() { String::new() } else { format!(" ({limit})") };
        writeln!(out, "{verdict}  {name}: {figure}{limit}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_names_figure_and_limit() {
        let mut out = Vec::new();
        let report = judge::of("report", || Some((41.23, judge::Bound::AtMost(60.0), "s")));
        let musts = [report, Must::unknown("memory", "not recorded")];
        print_musts(&mut out, &musts).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "holds  report: 41.230 s (at most 60 s)\nFAILS  memory: not recorded\n");
    }
}
