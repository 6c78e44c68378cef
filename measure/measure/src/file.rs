//! Reads a result from a JSON file.
//!
//! Only facts are taken from the file. Figures and slopes in it are for other
//! readers; here they are derived again from the visits.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::check::{self, Identities};
use crate::schema::{Machine, Params, Results, Row, Run, SCHEMA, Skipped, Unit, Visit};

/// The largest file that is read. A full run is about 10 MiB.
pub const LARGEST_BYTES: u64 = 256 << 20;

/// Reason for which a file is no result.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The file is larger than [`LARGEST_BYTES`].
    #[error("{}: larger than {} MiB, so not a result of Kumiki", path.display(), LARGEST_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Not JSON, or a value of the wrong kind; `source` has line and column.
    #[error("{}: not a result of Kumiki: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Fault, with its line and column.
        #[source]
        source: serde_json::Error,
    },
    /// JSON without a schema version.
    #[error(
        "{}: not a result of Kumiki: it has no \"schema\" number (`kumiki measure --json` and \
         `kumiki results export` write one)",
        path.display()
    )]
    NoSchema {
        /// The file.
        path: PathBuf,
    },
    /// A schema version that this program does not read.
    #[error(
        "{}: result has schema {found}, this program reads schema {SCHEMA}; {}",
        path.display(),
        if *found > u64::from(SCHEMA) { "update Kumiki" } else { "measure again" }
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: u64,
    },
    /// A value that no measurement yields.
    #[error("{}: inconsistent: {what}", path.display())]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// Row and value.
        what: String,
    },
}

kumiki_sys::debug_is_display!(Error);

/// Reads a result. `/dev/stdin` is a file too.
pub fn read_results(path: &Path) -> Result<Results, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    parse(&bytes, path)
}

/// Facts of a [`Results`]; every other field is ignored.
#[derive(Deserialize)]
struct Facts {
    #[serde(default)]
    run: Run,
    machine: Machine,
    rows: Vec<RowFacts>,
    #[serde(default)]
    skipped: Vec<Skipped>,
}

/// Facts of a [`Row`].
#[derive(Deserialize)]
struct RowFacts {
    case: String,
    params: Params,
    unit: Unit,
    #[serde(default)]
    cpus: Vec<usize>,
    visits: Vec<Visit>,
}

/// The version is read by itself first: a newer file may differ in all else.
#[derive(Deserialize)]
struct Version {
    schema: Option<u64>,
}

/// Reads a result from a file's bytes; `path` names it in errors.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Results, Error> {
    let json = |source| Error::Json { path: path.to_owned(), source };
    let version: Version = serde_json::from_slice(bytes).map_err(json)?;
    match version.schema {
        None => return Err(Error::NoSchema { path: path.to_owned() }),
        Some(found) if found != u64::from(SCHEMA) => {
            return Err(Error::Schema { path: path.to_owned(), found });
        }
        Some(_) => {}
    }
    let facts: Facts = serde_json::from_slice(bytes).map_err(json)?;
    check::run(&facts.run, &facts.machine)
        .map_err(|what| Error::Inconsistent { path: path.to_owned(), what })?;
    let mut identities = Identities::default();
    for row in &facts.rows {
        let checked = identities.row(&row.case, &row.params, row.unit, &row.visits);
        checked.map_err(|what| Error::Inconsistent { path: path.to_owned(), what })?;
    }
    let summarise =
        |row: RowFacts| Row::summarise(&row.case, row.params, row.unit, row.cpus, row.visits);
    let rows = facts.rows.into_iter().map(summarise).collect();
    Ok(Results::new(facts.run, facts.machine, rows, facts.skipped))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::stats::simulate;

    fn read(bytes: &[u8]) -> Result<Results, Error> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        read_results(file.path())
    }

    fn message(bytes: &str) -> String {
        let error = read(bytes.as_bytes()).expect_err("refused").to_string();
        assert!(error.starts_with("/"), "names the file: {error}");
        error
    }

    fn with_visit(visit: &str) -> String {
        format!(
            r#"{{"schema":1,"machine":{{}},"rows":[{{"case":"a.b","params":{{"bytes":1}},"unit":"ns",
            "visits":[{{"batch":1,"overhead_ns":0,"cpu":{{"user_ns":0,"system_ns":0,"children_ns":0}},
            "activity":{{}},{visit}}}]}}]}}"#
        )
    }

    #[test]
    fn figures_are_derived_from_the_visits() {
        let results = read(with_visit(r#""samples":[3,1,2]"#).as_bytes()).unwrap();
        assert_eq!(results.rows[0].median, 2.0);
        let lie = with_visit(r#""samples":[3,1,2]"#).replace(r#""case""#, r#""median":9e9,"case""#);
        assert_eq!(read(lie.as_bytes()).unwrap(), results);
    }

    #[test]
    fn refusals_name_the_place() {
        assert!(message("").contains("line 1 column 0"));
        assert!(message("{\"schema\":1,\n  oops}").contains("line 2 column 3"));
        assert!(message("{}").contains("no \"schema\" number"));
        assert!(message("[]").contains("not a result"));
        assert!(
            message(r#"{"schema":2,"rows":"new"}"#)
                .contains("schema 2, this program reads schema 1; update")
        );
        assert!(message(r#"{"schema":0}"#).contains("measure again"));
        assert!(message(r#"{"schema":1,"machine":{}}"#).contains("`rows`"));
    }

    #[test]
    fn values_that_no_measurement_yields_are_refused() {
        for (visit, says) in [
            (r#""samples":[]"#, "a.b bytes=1 [ns]: visit 0 has no samples"),
            (r#""samples":[1,-2]"#, "visit 0 sample 1 is -2"),
            (r#""samples":[1e300]"#, "sample 0"),
            (r#""samples":[null]"#, "line"),
            (r#""samples":[NaN]"#, "line"),
            (r#""samples":[1],"round_trip_before_ns":-1"#, "round_trip_before_ns is -1"),
        ] {
            let message = message(&with_visit(visit));
            assert!(message.contains(says), "{message}");
        }
        let row = r#"{"case":"a.b","params":{},"unit":"ns","visits":[]}"#;
        let rows = |rows: &str| format!(r#"{{"schema":1,"machine":{{}},"rows":[{rows}]}}"#);
        assert!(message(&rows(row)).contains("a.b [ns] has no visits"));
        let one = with_visit(r#""samples":[1]"#);
        let (start, end) = (one.find("[{").unwrap() + 1, one.rfind("]").unwrap());
        let twice = rows(&format!("{0},{0}", &one[start..end]));
        assert!(message(&twice).contains("a.b bytes=1 [ns] is there twice"));
    }

    #[test]
    fn dates_and_durations_that_are_none_are_refused() {
        let with_run = |run: &str| {
            with_visit(r#""samples":[1]"#).replacen('{', &format!(r#"{{"run":{{{run}}},"#), 1)
        };
        for run in [
            "",
            r#""started":"2026-11-25T01:02:03Z","seconds":0"#,
            r#""started":"2026-11-25T01:02:03.5+02:00","seconds":86400.5"#,
        ] {
            read(with_run(run).as_bytes()).unwrap();
        }
        for (run, says) in [
            (r#""started":"yesterday""#, "run.started is \"yesterday\", no date"),
            (r#""started":"2026-02-30T00:00:00Z""#, "2026-02-30"),
            (r#""started":"2026-11-25""#, "no date"),
            (r#""started":"\u001b[2J""#, "\\u{1b}[2J"),
            (r#""seconds":-1"#, "run.seconds is -1, not a number from 0"),
            (r#""seconds":1e300"#, "run.seconds"),
            (r#""others":[{"name":"x","cpu_seconds":-2,"cpus":[]}]"#, "cpu_seconds is -2"),
        ] {
            let message = message(&with_run(run));
            assert!(message.contains(says), "{message}");
        }
        let batch = with_visit(r#""samples":[1,2]"#).replace(r#""batch":1"#, r#""batch":1e18"#);
        assert!(message(&batch).contains("line"), "a number of operations is whole");
        let batch = batch.replace("1e18", "18446744073709551615");
        assert!(message(&batch).contains("2 samples of 18446744073709551615 operations"));
    }

    #[test]
    fn folder_and_missing_file_are_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_results(dir.path()).unwrap_err().to_string().contains("directory"));
        let missing = read_results(&dir.path().join("no.json")).unwrap_err().to_string();
        assert!(missing.contains("no.json: No such file"), "{missing}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes, Path::new("x"));
        }

        #[test]
        fn any_damage_is_read_or_refused(
            at in any::<prop::sample::Index>(),
            with in ".{0,3}",
            cut in 0..20usize,
        ) {
            let whole = with_visit(r#""samples":[1,2.5,3e2]"#);
            let at = at.index(whole.len());
            let damaged = [&whole[..at], &with, &whole[(at + cut).min(whole.len())..]].concat();
            let _ = parse(damaged.as_bytes(), Path::new("x"));
        }

        #[test]
        fn written_results_read_back_equal(results in simulate::results()) {
            let json = serde_json::to_vec(&results).unwrap();
            prop_assert_eq!(parse(&json, Path::new("x")).unwrap(), results);
        }
    }
}
