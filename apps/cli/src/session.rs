//! A measuring session: checks everything first, then measures, keeps every
//! visit as soon as it is made, and shows how far it is.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use kumiki_measure::case::{Case, Level};
use kumiki_measure::machine;
use kumiki_measure::meter::Meter;
use kumiki_measure::sampler::{Observer, Progress, Sampler, Settings};
use kumiki_measure::schema::{Results, Run, Skipped, Visit};
use kumiki_measure::store::{RunId, Store};
use kumiki_sys::clock::Clock;

use crate::args::How;
use crate::interrupt::Interrupt;
use crate::select::Select;
use crate::{Verdict, output, select, visit};

/// Result of a session.
pub(crate) struct Measured {
    /// Its number in the database.
    pub(crate) id: RunId,
    /// Results as they were stored.
    pub(crate) results: Results,
    /// Interrupt by which a person may have ended it.
    pub(crate) interrupt: Interrupt,
}

/// A run in which no case could run is no success. An interrupted one ends as
/// the signal would have ended it.
pub(crate) fn verdict(interrupt: &Interrupt, results: &Results) -> Verdict {
    match interrupt.signal() {
        Some(signal) => Verdict::Interrupted(signal),
        None if results.rows.is_empty() => Verdict::Negative,
        None => Verdict::Fine,
    }
}

/// Measures, and returns what was stored.
pub(crate) fn measure(select: &Select, how: &How) -> Result<Measured> {
    let level = level(how.quick, how.full);
    let cases = select::cases(select, level)?;
    let scratch = Scratch::new(how.scratch.as_deref())?;
    let place = machine::place(how.cpus.as_deref(), scratch.path())?;
    let mut store = open(how.db.db.as_deref())?;
    let mut settings = Settings::of(level);
    if let Some(time) = how.time {
        settings.budget = time;
    }
    let meter = Meter::new(Clock::new());
    let machine = machine::describe(&place, &meter)?;
    let mut run = Run {
        label: how.label.clone(),
        started: jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string(),
        mode: name(level).to_owned(),
        command: command_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Run::default()
    };
    let id = store.begin(&run, &machine)?;
    let interrupt = Interrupt::watch({
        let folder = scratch.path().to_owned();
        move || kumiki_sys::directory::remove_with_company(&folder)
    })?;
    let mut recorder = Recorder { store, id, bar: bar(), reported: HashSet::new() };
    let stop = interrupt.stop();
    let apart = visit::apart(select.sizes.sizes.as_deref());
    let apart = Some(&apart);
    let sampler = Sampler { place: &place, settings: &settings, meter: &meter, stop, apart };
    let outcome = sampler.run(&cases, &mut recorder);
    recorder.bar.finish_and_clear();
    let mut store = recorder.store;
    let outcome = outcome.context("measuring stopped; what was done is kept")?;
    run.seconds = outcome.length.as_secs_f64();
    run.complete = outcome.complete;
    run.peak_bytes = outcome.peak_bytes;
    run.others = outcome.others;
    store.finish(id, &run, &machine)?;
    if !outcome.complete {
        output::talk(format_args!(
            "interrupted; what was measured until now is kept as result {id}"
        ));
    }
    let results = store.load(id)?;
    Ok(Measured { id, results, interrupt })
}

/// The store of `--db`, or the person's own.
pub(crate) fn open(db: Option<&Path>) -> Result<Store> {
    let path = match db {
        Some(path) => path.to_owned(),
        None => Store::default_path()?,
    };
    Ok(Store::open(&path)?)
}

/// The level that the two switches mean.
pub(crate) fn level(quick: bool, full: bool) -> Level {
    match (quick, full) {
        (true, _) => Level::Quick,
        (_, true) => Level::Full,
        _ => Level::Default,
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Quick => "quick",
        Level::Default => "default",
        Level::Full => "full",
    }
}

fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("kumiki".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The run's own folder for files, removed at the end.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new(parent: Option<&Path>) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, PathBuf::from);
        if !fs::metadata(&parent).is_ok_and(|m| m.is_dir()) {
            bail!("scratch folder {}: not a folder; choose one with --scratch", parent.display());
        }
        tempfile::Builder::new().prefix("kumiki-").tempdir_in(&parent).map(Scratch).with_context(
            || format!("scratch folder {}: choose another by --scratch", parent.display()),
        )
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn bar() -> ProgressBar {
    // Hidden by itself where standard error is not a terminal.
    let style = ProgressStyle::with_template("{bar:32} {percent:>3} % {prefix} left  {msg}")
        .expect("the template is a constant");
    ProgressBar::new(1000).with_style(style)
}

/// Keeps each visit and moves the bar.
struct Recorder {
    store: Store,
    id: RunId,
    bar: ProgressBar,
    /// Cases and reasons that were said: once for all of their sizes.
    reported: HashSet<(&'static str, String)>,
}

impl Observer for Recorder {
    fn visited(
        &mut self,
        case: &Case,
        pass: usize,
        cpus: &[usize],
        visit: &Visit,
    ) -> kumiki_measure::Result<()> {
        let (name, params) = (case.name, &case.params);
        self.store.visit(self.id, name, params, case.unit, cpus, pass, visit).map_err(kept)
    }

    fn skipped(&mut self, case: &Case, reason: &str) -> kumiki_measure::Result<()> {
        if self.reported.insert((case.name, reason.to_owned())) {
            self.bar.suspend(|| output::talk(format_args!("skipped {}: {reason}", case.name)));
        }
        let (case, params) = (case.name.to_owned(), case.params.clone());
        let skipped = Skipped { case, params, reason: reason.to_owned() };
        self.store.skipped(self.id, &skipped).map_err(kept)
    }

    fn progress(&mut self, progress: Progress<'_>) {
        let whole = (progress.elapsed + progress.left).max(Duration::from_millis(1));
        let done = progress.elapsed.as_secs_f64() / whole.as_secs_f64();
        self.bar.set_position((done.min(1.0) * 1000.0) as u64);
        self.bar.set_prefix(format!("{:>3} s", progress.left.as_secs()));
        self.bar.set_message(progress.next.to_owned());
    }
}

fn kept(error: kumiki_measure::store::Error) -> kumiki_measure::Error {
    kumiki_measure::Error::Observer(Box::new(error))
}
