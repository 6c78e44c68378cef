//! How often `kumiki compare` and `kumiki ab` are wrong, as a user runs them, and what other
//! rules say of the same samples.

mod rules;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use kumiki_measure::schema::Machine;
use serde_json::Value;

use super::judge::{Bound, KUMIKI, of};
use super::{Must, Outcome, Row};
use crate::run::{cargo, program, read, run, target_folder};
use rules::{Share, hyperfine, t_test};

/// From so many trials on runs are default ones, of four minutes each.
const FULL: usize = 200;

/// Turns of a shell's loop: some 20 ms.
const TURNS: u32 = 40_000;

/// What is slower is so by this.
const SLOWER: f64 = 1.03;

/// A case of a run is slowed by this.
const SLOWED: f64 = 1.15;

/// Cases of which one a time is slowed.
const CASES: [&str; 5] =
    ["signal.catch", "process.exec", "file.pread", "memory.mmap_munmap", "thread.create.pthread"];

/// Seconds until `ab` must have found what is slower: quiet, and beside a busy process.
const PATIENCE: [&str; 2] = ["60", "120"];

/// `ab` finds out whether A is slower than itself by at most so many pairs.
const PAIRS: &str = "60";

const KINDS: [&str; 5] =
    ["compare_same", "compare_slowed", "ab_same_busy", "ab_slowed", "ab_slowed_busy"];

/// Builds the tool and lets it compare, `trials` times each, or these cases only.
pub(super) fn verdicts(trials: usize, cases: &[String]) -> Result<Outcome> {
    if let Some(odd) = cases.iter().find(|case| !KINDS.contains(&case.as_str())) {
        anyhow::bail!("no case {odd:?}; there are {}", KINDS.join(", "));
    }
    ensure!(trials > 0, "--trials 0 measures nothing");
    run(&mut cargo("build --release --locked --package kumiki-cli"))?;
    let folder = tempfile::tempdir().context("making a folder for this bench's files")?;
    let kumiki = Kumiki { binary: target_folder()?.join("release/kumiki"), folder: folder.path() };
    let asked = |case: &str| cases.is_empty() || cases.iter().any(|asked| asked == case);
    let mut rows = Vec::new();
    if asked("compare_same") || asked("compare_slowed") {
        rows.extend(kumiki.compared(trials)?);
    }
    if asked("ab_same_busy") {
        let _busy = Busy::start()?;
        rows.extend(kumiki.decided("ab_same_busy", trials, 1.0, &["--pairs", PAIRS])?);
    }
    // Each takes up to a minute or two: fewer tell.
    let fewer = trials.div_ceil(4).min(50);
    if asked("ab_slowed") {
        rows.extend(kumiki.decided("ab_slowed", fewer, SLOWER, &["--for", PATIENCE[0]])?);
    }
    if asked("ab_slowed_busy") {
        let _busy = Busy::start()?;
        rows.extend(kumiki.decided("ab_slowed_busy", fewer, SLOWER, &["--for", PATIENCE[1]])?);
    }
    for row in &rows {
        println!("{:24} {:10} {:.3} of {}", row.case, row.subject, row.median, row.n);
    }
    let musts = musts(&rows);
    Ok(Outcome { machine: kumiki.machine()?, rows, musts })
}

/// A process that does nothing but use a cpu.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Ok(Busy(command.spawn().context("starting a busy process")?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Kumiki<'a> {
    binary: PathBuf,
    folder: &'a Path,
}

impl Kumiki<'_> {
    fn command(&self, words: &[&str]) -> Command {
        program(&self.binary.to_string_lossy(), words.iter().copied())
    }

    /// What it prints, whatever its verdict.
    fn json(&self, words: &[&str]) -> Result<(Value, i32)> {
        let output = self.command(words).stderr(Stdio::inherit()).output()?;
        let code = output.status.code().unwrap_or(-1);
        ensure!(code != 2 && code >= 0, "kumiki {words:?} failed");
        Ok((serde_json::from_slice(&output.stdout).context("result of `kumiki`")?, code))
    }

    fn machine(&self) -> Result<Machine> {
        let db = self.folder.join("results.db").display().to_string();
        let words = ["measure", "entry.getppid", "--quick", "--time", "1", "--json", "--db", &db];
        let (value, _) = self.json(&words)?;
        Ok(serde_json::from_value(value["machine"].clone())?)
    }

    /// Runs of this machine, one after the other, each compared with the one before.
    fn compared(&self, trials: usize) -> Result<Vec<Row>> {
        let db = self.folder.join("results.db").display().to_string();
        let mode: &[&str] = if trials >= FULL { &[] } else { &["--quick"] };
        let pairs = trials.div_ceil(20).max(2);
        let mut files = Vec::new();
        for at in 0..=pairs {
            let file = self.folder.join(format!("run{at}.json"));
            let json =
                read(&mut self.command(&[&["measure", "--json", "--db", &db], mode].concat()))?;
            std::fs::write(&file, json)?;
            files.push(file.display().to_string());
        }
        let mut alarms = Share::default();
        let (mut families, mut rows, mut found) =
            (Share::default(), Share::default(), Share::default());
        for (at, pair) in files.windows(2).enumerate() {
            let [a, b] = [&*pair[0], &*pair[1]];
            let (value, code) = self.json(&["compare", a, b, "--json"])?;
            alarms.add(code == 1);
            families.all(&value["families"], |family| family["verdict"] == "same");
            let (value, _) = self.json(&["compare", a, b, "--json", "--threshold", "10"])?;
            rows.all(&value["rows"], |row| row["verdict"] == "same");
            let case = CASES[at % CASES.len()];
            let slow = slowed(Path::new(b), case, &self.folder.join("slow.json"))?;
            let (value, code) = self.json(&["compare", a, &slow, "--json"])?;
            let worse =
                |family: &Value| family["case"] == case && family["verdict"] == "regression";
            let told = value["families"].as_array().is_some_and(|all| all.iter().any(worse));
            found.add(code == 1 && told);
        }
        let held = intervals(&files)?;
        Ok(vec![
            alarms.row("compare_same", KUMIKI),
            families.row("compare_same_families", KUMIKI),
            rows.row("compare_same_rows", KUMIKI),
            held.row("intervals", KUMIKI),
            found.row("compare_slowed", KUMIKI),
        ])
    }

    /// How often each rule calls B slower, by the same samples.
    fn decided(&self, case: &str, trials: usize, factor: f64, more: &[&str]) -> Result<Vec<Row>> {
        let turns = |turns: u32| format!("i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done");
        let (a, b) = (turns(TURNS), turns((f64::from(TURNS) * factor) as u32));
        let commands = ["--json", "--", "sh", "-c", &a, "---", "sh", "-c", &b];
        let mut shares = [KUMIKI, "hyperfine", "t_test"].map(|name| (name, Share::default()));
        for _ in 0..trials {
            let (value, code) = self.json(&[&["ab"], more, &commands[..]].concat())?;
            let wall = |side: usize| -> Vec<f64> {
                let pairs = value["pairs"].as_array().into_iter().flatten();
                pairs.filter_map(|pair| pair[side]["wall_ns"].as_f64()).collect()
            };
            let (a, b) = (wall(0), wall(1));
            for ((_, share), slower) in
                shares.iter_mut().zip([code == 1, hyperfine(&a, &b), t_test(&a, &b)])
            {
                share.add(slower);
            }
        }
        Ok(shares.into_iter().map(|(name, share)| share.row(case, name)).collect())
    }
}

/// The result with one case's samples multiplied.
fn slowed(from: &Path, case: &str, to: &Path) -> Result<String> {
    let mut value: Value = serde_json::from_slice(&std::fs::read(from)?)?;
    for row in value["rows"].as_array_mut().into_iter().flatten() {
        if row["case"] != case {
            continue;
        }
        for visit in row["visits"].as_array_mut().into_iter().flatten() {
            for sample in visit["samples"].as_array_mut().into_iter().flatten() {
                *sample = (sample.as_f64().unwrap_or_default() * SLOWED).into();
            }
        }
    }
    std::fs::write(to, value.to_string())?;
    Ok(to.display().to_string())
}

/// How many intervals of the quiet cost hold the middle of all runs.
fn intervals(files: &[String]) -> Result<Share> {
    let runs: Vec<Value> = files
        .iter()
        .map(|file| Ok(serde_json::from_slice(&std::fs::read(file)?)?))
        .collect::<Result<_>>()?;
    let key = |row: &Value| format!("{}{}{}", row["case"], row["params"], row["unit"]);
    let rows = |run: &Value| run["rows"].as_array().cloned().unwrap_or_default();
    let mut all: std::collections::BTreeMap<String, Vec<Value>> = Default::default();
    for row in runs.iter().flat_map(rows) {
        all.entry(key(&row)).or_default().push(row);
    }
    let mut share = Share::default();
    for rows in all.into_values().filter(|rows| rows.len() == runs.len()) {
        let mut costs: Vec<f64> = rows.iter().filter_map(|row| row["quiet"].as_f64()).collect();
        costs.sort_by(f64::total_cmp);
        let grand = costs[costs.len() / 2];
        for row in &rows {
            let end = |at: usize| row["quiet_ci"][at].as_f64();
            share.add(end(0).zip(end(1)).is_some_and(|(low, high)| low <= grand && grand <= high));
        }
    }
    Ok(share)
}

fn musts(rows: &[Row]) -> Vec<Must> {
    let promises = [
        ("compare_same", "A against A by default runs: exit 1", Bound::AtMost(0.1)),
        ("compare_same_families", "families the same", Bound::AtLeast(0.8)),
        ("compare_same_rows", "rows the same at 10 %", Bound::AtLeast(0.6)),
        ("intervals", "intervals that hold the middle of all runs", Bound::AtLeast(0.9)),
        ("compare_slowed", "a case slowed by 1.15: found", Bound::AtLeast(0.9)),
        ("ab_same_busy", "ab, A against A beside a busy process: slower", Bound::AtMost(0.05)),
        ("ab_slowed", "ab, 3 % slower: found", Bound::AtLeast(0.9)),
        ("ab_slowed_busy", "ab, 3 % slower beside a busy process: found", Bound::AtLeast(0.7)),
    ];
    let own = |case: &str| rows.iter().find(|row| row.case == case && row.subject == KUMIKI);
    promises
        .iter()
        .filter_map(|(case, name, bound)| {
            let row = own(case)?;
            Some(of(name, || Some((row.median, *bound, "share"))))
        })
        .collect()
}
