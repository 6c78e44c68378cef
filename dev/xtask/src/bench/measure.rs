//! `kumiki measure` and `kumiki report`, run as a user runs them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use kumiki_measure::schema::{self, Results, SCHEMA, Unit};

use super::judge::{Figures, KUMIKI};
use super::{BenchOutcome, Row, promises};
use crate::run::{cargo, program, read, run, target_folder};

/// Promise that a short bench leaves out.
const LONG: &str = "default report, time";

/// Builds the tool and measures it; `long` also makes the default report.
pub(super) fn measure(long: bool) -> Result<BenchOutcome> {
    run(&mut cargo("build --release --locked --package kumiki-cli"))?;
    let folder = tempfile::tempdir().context("making a folder for this bench's files")?;
    let kumiki =
        MeasureRun { binary: target_folder()?.join("release/kumiki"), folder: folder.path() };

    let mut figures = vec![figure("report_quick", "s", kumiki.report(&["report", "--quick"])?)];
    if long {
        figures.push(figure("report_default", "s", kumiki.report(&["report"])?));
    }
    let first = kumiki.measure()?;
    let second = kumiki.measure()?;
    figures.extend(memory(&[&first, &second]));
    figures.extend(repeatability(&first, &second));
    let mut musts = promises::musts("measure", &Figures(&figures));
    // What was not asked for is no failure.
    musts.retain(|must| long || must.name != LONG);
    let rows = first.rows.iter().map(row).chain(figures).collect();
    Ok(BenchOutcome { machine: first.machine, rows, musts })
}

/// The release binary, with its files in a folder of ours.
struct MeasureRun<'a> {
    binary: PathBuf,
    folder: &'a Path,
}

impl MeasureRun<'_> {
    /// Makes a report. Seconds.
    fn report(&self, words: &[&str]) -> Result<f64> {
        let mut command = self.command(words);
        let page = self.folder.join("report.html");
        command.arg("--output").arg(&page);
        let start = Instant::now();
        run(&mut command)?;
        let seconds = start.elapsed().as_secs_f64();
        ensure!(page.is_file(), "`kumiki report` ended well but wrote no {}", page.display());
        Ok(seconds)
    }

    /// Makes a quick run.
    fn measure(&self) -> Result<Results> {
        parse(&read(&mut self.command(&["measure", "--quick", "--json"]))?)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = program(&self.binary.to_string_lossy(), words.iter().copied());
        command.arg("--db").arg(self.folder.join("results.db"));
        command
    }
}

fn parse(json: &str) -> Result<Results> {
    let results: Results = serde_json::from_str(json).context("result of `kumiki measure`")?;
    let schema = results.schema;
    ensure!(schema == SCHEMA, "`kumiki measure` wrote schema {schema}, this bench reads {SCHEMA}");
    Ok(results)
}

/// A figure of the tool itself.
fn figure(case: &str, unit: &str, median: f64) -> Row {
    let (case, subject, unit) = (case.to_owned(), KUMIKI.to_owned(), unit.to_owned());
    Row { case, subject, unit, n: 1, median, p99: median, ci: [median; 2], ..Row::default() }
}

/// The larger peak of the runs, without what the cases asked for, if one was recorded.
fn memory(runs: &[&Results]) -> Option<Row> {
    let peaks: Option<Vec<u64>> = runs.iter().map(|results| results.run.peak_bytes).collect();
    let bytes = peaks?.into_iter().max()?;
    Some(figure("peak_memory", "MiB", bytes as f64 / f64::from(1 << 20)))
}

/// Rows of two runs in a row that agree within their printed intervals; names those that do not
/// on stderr.
fn repeatability(first: &Results, second: &Results) -> Option<Row> {
    let compared = compare(first, second);
    for row in compared.iter().filter(|row| !row.agrees()) {
        eprintln!("differs: {row}");
    }
    let disturbed = compared.iter().filter(|row| row.disturbed).count();
    let agreed = compared.iter().filter(|row| row.agrees()).count();
    eprintln!("{agreed} of {} rows agree, {disturbed} disturbed", compared.len());
    let percent = 100.0 * agreed as f64 / compared.len() as f64;
    (!compared.is_empty()).then(|| figure("agreement", "%", percent))
}

/// The same case with the same parameters in two runs.
#[derive(Debug)]
struct Compared {
    title: String,
    /// Confidence intervals; `None` where a run lacks the row.
    ci: [Option<[f64; 2]>; 2],
    disturbed: bool,
}

impl Compared {
    /// Whether the intervals overlap. A row that only one run has does not agree.
    fn agrees(&self) -> bool {
        matches!(self.ci, [Some([a_low, a_high]), Some([b_low, b_high])]
            if a_low <= b_high && b_low <= a_high)
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:", self.title)?;
        for ci in self.ci {
            match ci {
                Some([low, high]) => write!(f, " [{low:.1}, {high:.1}]")?,
                None => write!(f, " missing")?,
            }
        }
        f.write_str(if self.disturbed { ", disturbed" } else { "" })
    }
}

fn compare(first: &Results, second: &Results) -> Vec<Compared> {
    let same = |a: &schema::Row, b: &schema::Row| a.case == b.case && a.params == b.params;
    let both = first.rows.iter().map(|row| {
        let other = second.rows.iter().find(|other| same(row, other));
        Compared {
            title: title(row),
            ci: [Some(row.ci), other.map(|other| other.ci)],
            disturbed: row.disturbed || other.is_some_and(|other| other.disturbed),
        }
    });
    let added = second.rows.iter().filter(|row| !first.rows.iter().any(|other| same(row, other)));
    let added = added.map(|row| Compared {
        title: title(row),
        ci: [None, Some(row.ci)],
        disturbed: row.disturbed,
    });
    both.chain(added).collect()
}

/// A case with its parameters, e.g. `process.fork data_bytes=4096 touch=read`.
fn title(row: &schema::Row) -> String {
    let params = row.params.iter().map(|(name, value)| format!(" {name}={value}"));
    std::iter::once(row.case.clone()).chain(params).collect()
}

/// In the shape that every bench writes. Only a time between two cpus has the
/// cache-line round trip as its limit.
fn row(row: &schema::Row) -> Row {
    let crosses = row.cpus.len() > 1 && row.unit == Unit::Nanoseconds;
    Row {
        case: title(row),
        subject: "kumiki".to_owned(),
        n: row.n,
        unit: row.unit.as_str().to_owned(),
        median: row.median,
        p99: row.p99,
        ci: row.ci,
        limit: row.round_trip_ns.filter(|_| crosses),
        base: None,
        instances: Vec::new(),
        limits: Vec::new(),
        of_plain: Vec::new(),
        failed: 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::judge::NOT_MEASURED;
    use super::*;

    fn sample(case: &str, params: Value, ci: [f64; 2]) -> Value {
        json!({
            "case": case, "params": params, "unit": "ns", "n": 5, "median": ci[0], "p99": ci[1],
            "ci": ci, "min": ci[0], "mad": 0.0, "outliers": 0, "cpu_ns": 1.0,
            "cpu": {"user_ns": 1.0, "system_ns": 0.0, "children_ns": 0.0}, "disturbed": false,
            "round_trip_ns": 50.0, "cpus": [0], "visits": [],
        })
    }

    fn results(rows: &[Value]) -> Results {
        parse(&json!({"schema": 1, "machine": {}, "rows": rows}).to_string()).unwrap()
    }

    /// Figures of the promises about this one that do not hold.
    fn broken(row: Option<Row>) -> Vec<String> {
        let rows: Vec<Row> = row.into_iter().collect();
        let musts = promises::musts("measure", &Figures(&rows)).into_iter();
        let measured = musts.filter(|must| must.figure != NOT_MEASURED && !must.holds);
        measured.map(|must| must.figure).collect()
    }

    #[test]
    fn the_promise_of_a_long_bench_is_there() {
        let musts = promises::musts("measure", &Figures(&[]));
        assert_eq!(musts.iter().filter(|must| must.name == LONG).count(), 1);
        assert_eq!((musts.len(), musts.iter().any(|must| must.holds)), (4, false));
    }

    #[test]
    fn overlapping_intervals_agree_and_others_do_not() {
        let fork = |size, ci| sample("process.fork", json!({"data_bytes": size}), ci);
        let first = results(&[fork(0, [1.0, 2.0]), fork(4096, [1.0, 2.0]), fork(8192, [5.0, 6.0])]);
        // In another order; touching, apart, inside.
        let second =
            results(&[fork(8192, [5.5, 5.6]), fork(0, [2.0, 3.0]), fork(4096, [2.1, 3.0])]);
        let agreed: Vec<_> = compare(&first, &second).iter().map(Compared::agrees).collect();
        assert_eq!(agreed, [true, false, true]);
        assert_eq!(broken(repeatability(&first, &second)), ["66.667 %"]);
    }

    #[test]
    fn nine_of_ten_are_enough() {
        let rows = |odd| -> Vec<_> {
            let ci = |i| if i < odd { [5.0, 6.0] } else { [1.0, 2.0] };
            (0..10).map(|i| sample("a", json!({"i": i}), ci(i))).collect()
        };
        let of = |odd| broken(repeatability(&results(&rows(0)), &results(&rows(odd))));
        assert_eq!((of(1), of(2)), (vec![], vec!["80.000 %".to_owned()]));
    }

    #[test]
    fn a_row_that_one_run_lacks_does_not_agree() {
        let both = sample("a", json!({}), [1.0, 2.0]);
        let one = sample("b", json!({}), [1.0, 2.0]);
        for (first, second) in [(vec![both.clone(), one.clone()], vec![both.clone()]), {
            (vec![both.clone()], vec![both.clone(), one.clone()])
        }] {
            let compared = compare(&results(&first), &results(&second));
            let agreed: Vec<_> = compared.iter().map(|row| (&*row.title, row.agrees())).collect();
            assert_eq!(agreed, [("a", true), ("b", false)]);
        }
    }

    #[test]
    fn runs_without_rows_prove_nothing() {
        assert!(repeatability(&results(&[]), &results(&[])).is_none());
    }

    #[test]
    fn the_larger_peak_counts_and_a_missing_one_fails() {
        let with = |mib: Option<u64>| {
            let mut results = results(&[]);
            results.run.peak_bytes = mib.map(|mib| mib << 20);
            results
        };
        assert_eq!(broken(memory(&[&with(Some(40)), &with(Some(99))])), [] as [&str; 0]);
        assert_eq!(broken(memory(&[&with(Some(100)), &with(Some(40))])), ["100.000 MiB"]);
        assert!(memory(&[&with(Some(40)), &with(None)]).is_none());
    }

    #[test]
    fn the_round_trip_limits_only_times_between_two_cpus() {
        let mut value = sample("ipc.pipe", json!({"bytes": 1, "way": "far"}), [1.0, 2.0]);
        let one = row(&results(&[value.clone()]).rows[0]);
        value["cpus"] = json!([0, 1]);
        let two = row(&results(&[value.clone()]).rows[0]);
        value["unit"] = json!("GB/s");
        let bandwidth = row(&results(&[value]).rows[0]);
        assert_eq!(one.case, "ipc.pipe bytes=1 way=far");
        assert_eq!((one.limit, two.limit, bandwidth.limit), (None, Some(50.0), None));
    }

    #[test]
    fn another_schema_is_refused() {
        let error = parse(r#"{"schema": 2, "machine": {}, "rows": []}"#).unwrap_err();
        assert!(error.to_string().contains("schema 2"), "{error}");
    }
}
