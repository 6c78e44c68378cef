//! The package for Python: `kumiki.files` beside loops of `os`, and `kumiki.Template` beside a fresh interpreter.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;
use serde::Deserialize;

use crate::run::median_of;

/// The programs in Python, and the package that they measure.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lib/python");
/// The library for C, as cargo builds it beside this program.
const LIBRARY: &str = "libkumiki_c.so";
/// Debian's, for which its packages numpy and pandas are.
const DEBIAN: &str = "/usr/bin/python3";
const TEMPLATE: &str = "python_template";
/// Beginning of the cases of loaders of data.
const LOADER: &str = "python_loader";
/// GiB of the program that starts a template's children.
const SIZES: [u64; 2] = [1, 8];
const KUMIKI: &str = "kumiki";

/// One case: what was seen of each way, by turns.
#[derive(Deserialize)]
struct PythonCase {
    case: String,
    n: usize,
    /// Unit of the samples; nanoseconds where nothing is said.
    unit: Option<String>,
    samples: std::collections::BTreeMap<String, Vec<f64>>,
}

/// Measures all, or the cases in `only` if it names some.
pub(crate) fn rows(only: &[&str]) -> Result<Vec<Row>> {
    let is_loader = |case: &&str| case.starts_with(LOADER);
    let files = only.iter().copied().filter(|case| *case != TEMPLATE && !is_loader(case));
    let files: Vec<&str> = files.collect();
    let mut cases = Vec::new();
    if only.is_empty() || !files.is_empty() {
        cases.extend(measured("files.py", &files)?);
    }
    if only.is_empty() || only.contains(&TEMPLATE) {
        let sizes: Vec<String> = SIZES
            .into_iter()
            .filter(|gib| crate::resource::process::fits(gib << 10))
            .map(|gib| gib.to_string())
            .collect();
        cases.extend(measured(
            "template.py",
            &sizes.iter().map(String::as_str).collect::<Vec<_>>(),
        )?);
    }
    if only.is_empty() || only.iter().any(is_loader) {
        cases.extend(measured("loader.py", &[])?);
    }
    let known = |name: &&str| cases.iter().any(|case| case.case == *name);
    ensure!(only.iter().all(known), "the bench python has no such case, or not here: {only:?}");
    Ok(cases.into_iter().flat_map(of_case).collect())
}

/// A row for each way, whose turns are its instances: the machine is the same for those of one turn.
fn of_case(case: PythonCase) -> Vec<Row> {
    let plain = case.samples.iter().find(|(way, _)| *way != KUMIKI);
    let base = plain.map(|(_, samples)| median_of(std::slice::from_ref(samples)));
    let ways = case.samples.into_iter().map(|(way, samples)| {
        let groups: Vec<Vec<f64>> = samples.iter().map(|sample| vec![*sample]).collect();
        let unit = case.unit.as_deref().unwrap_or("ns");
        let row = Row::of((&case.case, &way), unit, &groups, base).of_size(case.n);
        Row { instances: samples, ..row }
    });
    ways.collect()
}

fn measured(script: &str, words: &[&str]) -> Result<Vec<PythonCase>> {
    eprintln!("{script} {}", words.join(" "));
    let mut python = Command::new(if Path::new(DEBIAN).exists() { DEBIAN } else { "python3" });
    python.arg(PathBuf::from(SCRIPTS).join(script)).args(words);
    python.env("PYTHONPATH", PACKAGE).env("KUMIKI_LIBRARY", library()?);
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = python.stderr(Stdio::inherit()).output().context("running python3")?;
    ensure!(output.status.success(), "{script}: {}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("what {script} printed"))
}

fn library() -> Result<PathBuf> {
    let library =
        std::env::current_exe().context("finding our own program")?.with_file_name(LIBRARY);
    ensure!(
        library.exists(),
        "the bench python needs {}: build the package kumiki-capi, too",
        library.display()
    );
    Ok(library)
}
