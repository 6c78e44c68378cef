//! From Python: `kumiki.Popen` beside subprocess with a hook before exec.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;
use serde::Deserialize;

use crate::run::Turns;

use super::fits;
use super::request::Request;

/// The program in Python, and the package that it measures.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/spawn.py");
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lib/python");
/// The library for C, as cargo builds it beside this program.
const LIBRARY: &str = "libkumiki_c.so";

/// Nanoseconds of each way, by turns.
#[derive(Deserialize)]
struct Answer {
    kumiki: Vec<f64>,
    subprocess: Vec<f64>,
}

/// Of the smallest and of the largest Python.
pub(super) fn rows(parents: &[u64], program: &Path) -> Result<Vec<Row>> {
    let own = std::env::current_exe().context("finding our own program")?;
    let library = own.with_file_name(LIBRARY);
    ensure!(
        library.exists(),
        "python_spawn needs {}: build the package kumiki-capi, too",
        library.display()
    );
    let mut rows = Vec::new();
    let ends = parents.first().into_iter().chain(parents.last());
    for &mib in ends.filter(|mib| fits(**mib)) {
        eprintln!("python_spawn {mib}");
        let mut python = Command::new("python3");
        python.arg(SCRIPT).arg(mib.to_string()).arg(program);
        python.env("PYTHONPATH", PACKAGE).env("KUMIKI_LIBRARY", &library);
        let output = python.stderr(Stdio::inherit()).output().context("running python3")?;
        ensure!(output.status.success(), "{SCRIPT}: {}", output.status);
        let answer: Answer = serde_json::from_slice(&output.stdout).context("of spawn.py")?;
        let turns = |samples: Vec<f64>| Turns::of(samples.into_iter().map(|ns| vec![ns]).collect());
        let (kumiki, subprocess) = (turns(answer.kumiki), turns(answer.subprocess));
        let (case, base) = (Request::PythonSpawn { mib }, Some(subprocess.median()));
        rows.push(crate::run::row(case, "kumiki", &kumiki, base));
        rows.push(crate::run::row(case, "subprocess", &subprocess, base));
    }
    Ok(rows)
}
