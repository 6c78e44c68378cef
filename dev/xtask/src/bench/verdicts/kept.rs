//! The folder with runs and comparisons, of this call and of earlier ones.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kumiki_measure::stats::{bootstrap, describe};

use super::rules::Share;
use super::trials::{Kind, SUBJECTS, Verdict};
use super::{CASES, Length, Tool};
use crate::bench::Row;
use crate::run::read;

/// Seconds of a short run.
const SHORT: &str = "5";

/// Results that are kept.
pub(super) struct Kept {
    folder: PathBuf,
    /// Length of the runs.
    length: Length,
    runs: Vec<PathBuf>,
    told: Vec<Verdict>,
}

impl Kept {
    /// Makes the folder, or reads what is in it.
    pub(super) fn open(folder: &Path, length: Length) -> Result<Self> {
        let folder = std::path::absolute(folder)?;
        let mut kept = Kept { folder, length, runs: Vec::new(), told: Vec::new() };
        let runs = kept.folder_of_runs();
        fs::create_dir_all(&runs).with_context(|| format!("making {}", runs.display()))?;
        for entry in fs::read_dir(&runs)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ext| ext == "json") {
                kept.runs.push(path);
            }
        }
        kept.runs.sort();
        let file = kept.file();
        if file.exists() {
            for line in fs::read_to_string(&file)?.lines() {
                let told = serde_json::from_str(line);
                kept.told.push(told.with_context(|| file.display().to_string())?);
            }
        }
        Ok(kept)
    }

    fn folder_of_runs(&self) -> PathBuf {
        self.folder.join(self.length.name())
    }

    fn file(&self) -> PathBuf {
        self.folder.join("ab.jsonl")
    }

    /// Files with runs, in the order in which they were made.
    pub(super) fn runs(&self) -> &[PathBuf] {
        &self.runs
    }

    /// A path for a file that is made and read at once.
    pub(super) fn scratch(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Comparisons of this kind.
    pub(super) fn count(&self, kind: &Kind) -> usize {
        self.told.iter().filter(|told| told.kind == kind.name).count()
    }

    /// One more run.
    pub(super) fn add_run(&mut self, tool: &Tool) -> Result<()> {
        // The file of a database grows with each run, and a run with it.
        let db = tempfile::tempdir().context("making a folder for a run's database")?;
        let db = db.path().join("results.db").display().to_string();
        let mode = match self.length {
            Length::Short => [&["--quick", "--time", SHORT][..], &CASES[..]].concat(),
            Length::Quick => vec!["--quick"],
            Length::Default => Vec::new(),
        };
        let json =
            read(&mut tool.command(&[&["measure", "--json", "--db", &db], &mode[..]].concat()))?;
        let path = self.folder_of_runs().join(format!("{:04}.json", self.runs.len()));
        // Whole or not at all, whenever this is ended.
        let part = path.with_extension("part");
        fs::write(&part, json)?;
        fs::rename(&part, &path)?;
        self.runs.push(path);
        Ok(())
    }

    /// Some more comparisons.
    pub(super) fn add_trials(&mut self, kind: &'static Kind, tool: &Tool) -> Result<()> {
        let told = kind.trials(tool)?;
        let path = self.file();
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        for one in &told {
            let mut line = serde_json::to_vec(one)?;
            line.push(b'\n');
            file.write_all(&line).with_context(|| format!("writing {}", path.display()))?;
        }
        self.told.extend(told);
        Ok(())
    }

    /// Shares of comparisons in which each rule called B slower, and one of them slower or faster, and
    /// the time that it took.
    pub(super) fn rows(&self, kind: &Kind) -> Vec<Row> {
        let own = || self.told.iter().filter(|told| told.kind == kind.name);
        // What an earlier call kept may know fewer rules.
        let share = |case: &str, of: fn(&Verdict) -> &[bool], (at, subject): (usize, &&str)| {
            let mut share = Share::default();
            own().filter_map(|told| of(told).get(at)).for_each(|said| share.add(*said));
            share.row(case, subject)
        };
        let different = format!("{}_different", kind.name);
        let seconds = format!("{}_seconds", kind.name);
        let time = |(at, subject): (usize, &&str)| {
            let own = own().filter_map(|told| match at {
                0 => Some(told.seconds),
                at => told.took.get(at).copied(),
            });
            time(&seconds, subject, &own.collect::<Vec<_>>())
        };
        let subjects = || SUBJECTS.iter().enumerate();
        let slower = subjects().map(|of| share(kind.name, |told| &told.slower, of));
        let apart = subjects().map(|of| share(&different, |told| &told.different, of));
        let all = slower.chain(apart).chain(subjects().map(time));
        all.filter(|row| row.n > 0).collect()
    }
}

/// Time of comparisons, seconds.
fn time(case: &str, subject: &str, seconds: &[f64]) -> Row {
    let sorted = describe::sorted(seconds.iter().copied());
    Row {
        case: case.to_owned(),
        subject: subject.to_owned(),
        n: seconds.len(),
        unit: "s".to_owned(),
        median: describe::median(&sorted),
        p99: describe::quantile(&sorted, 0.99),
        ci: bootstrap::median_ci([seconds]),
        ..Row::default()
    }
}
