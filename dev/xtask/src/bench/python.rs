//! The package for Python, measured by `dev/bench/`, and what it promises.

use anyhow::Result;

use super::judge::{Figures, measured_by};
use super::{BenchOutcome, promises};
use crate::debian;
use crate::run::{cargo, run, target_folder};

/// Measures all cases, or these; with `judge` says whether the promises hold.
pub(super) fn python(judge: bool, cases: &[String]) -> Result<BenchOutcome> {
    debian::install("bench-python")?;
    // It has no peers that are built.
    let build = "build --profile dist --locked --package kumiki-bench --package kumiki-capi";
    run(&mut cargo(build))?;
    let words = std::iter::once("python").chain(cases.iter().map(String::as_str));
    let mut outcome = measured_by(&target_folder()?.join("dist/kumiki-bench"), words)?;
    if judge {
        outcome.musts = promises::musts("python", &Figures(&outcome.rows));
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::judge::KUMIKI;
    use super::super::sample::{broken, row};
    use super::*;

    #[test]
    fn each_promise_is_of_a_case_that_is_measured() {
        let mut rows = Vec::new();
        let paths = [1, 2, 4, 10, 16, 300];
        for (case, counts) in [
            ("stat", &paths[..]),
            ("exists", &paths),
            ("read", &paths),
            ("write", &[300]),
            ("rename", &[300]),
            ("walk", &[0, 4]),
            ("scandir", &[4, 300]),
            ("scandir_stat", &[4, 300]),
        ] {
            for n in counts {
                rows.push(row(&format!("python_{case}"), KUMIKI, *n, 60.0));
                rows.push(row(&format!("python_{case}"), "os", *n, 100.0));
            }
        }
        for case in ["python_slow_stat", "python_slow_read"] {
            rows.push(row(case, KUMIKI, 10_000, 50_000.0));
            rows.push(row(case, "os", 10_000, 1_000_000.0));
        }
        for (part, plain) in [("start", "fork"), ("memory", "spawn"), ("memory_collected", "spawn")]
        {
            rows.push(row(&format!("python_loader_{part}"), KUMIKI, 2, 60.0));
            rows.push(row(&format!("python_loader_{part}"), plain, 2, 100.0));
        }
        for gib in [1, 8] {
            rows.push(row("python_template", KUMIKI, gib, 20e6));
        }
        assert_eq!(broken(promises::musts("python", &Figures(&rows))), Vec::<String>::new());
        for row in rows.iter_mut().filter(|row| row.subject == KUMIKI) {
            row.median *= 2.0;
        }
        let musts = promises::musts("python", &Figures(&rows));
        assert_eq!(broken(musts).len(), rows.len() / 2 + 1, "each is broken by a row of its own");
        let scripts = crate::run::root().join("dev/bench/python");
        let files = std::fs::read_to_string(scripts.join("files.py")).unwrap();
        let template = std::fs::read_to_string(scripts.join("template.py")).unwrap();
        let loader = std::fs::read_to_string(scripts.join("loader.py")).unwrap();
        for case in rows.iter().map(|row| &row.case) {
            let part = case.trim_start_matches("python_");
            let of_loader = part.strip_prefix("loader_").unwrap_or("none");
            let named = loader.contains(&format!("row(\"{of_loader}\""));
            assert!(files.contains(part) || template.contains(&**case) || named, "{case}");
        }
    }
}
