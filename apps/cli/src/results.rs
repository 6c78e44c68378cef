//! `kumiki results`: what the store holds.

mod trend;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use kumiki_measure::file::read_results;
use kumiki_measure::schema;
use kumiki_measure::store::{Imported, Store};
use kumiki_report::format::{self, minute};
use kumiki_report::reference::{self, Reference};
use kumiki_report::{export, prometheus};

use crate::args::{Db, Format, ResultsCommand};
use crate::destination::Destination;
use crate::{Verdict, disturbed, output, session};

pub(crate) fn run(command: Option<ResultsCommand>) -> Result<Verdict> {
    let list = ResultsCommand::Ls { db: Db::default(), json: false };
    match command.unwrap_or(list) {
        ResultsCommand::Ls { db, json } => ls(db.db.as_deref(), json),
        ResultsCommand::Show { result, db, json, verbose } => {
            let Loaded { results, .. } = load(&result, db.db.as_deref())?;
            if json {
                output::json(&results)?
            } else {
                output::table(&results)?;
                let disturbed = disturbed::text(&results, verbose);
                if !disturbed.is_empty() {
                    output::text(format!("\n{disturbed}"))?;
                }
            }
            Ok(Verdict::Fine)
        }
        ResultsCommand::Export { result, format, output, db } => {
            let Loaded { results, .. } = load(&result, db.db.as_deref())?;
            match output {
                Some(path) => Destination::new(&path)?.write(|out| write(&results, format, out))?,
                None => {
                    let mut text = Vec::new();
                    write(&results, format, &mut text)?;
                    output::data(&text)?;
                }
            }
            Ok(Verdict::Fine)
        }
        ResultsCommand::Trend { words, db, output, json, fail_on } => {
            trend::run(&words, db.db.as_deref(), output.as_deref(), json, fail_on)
        }
        ResultsCommand::Import { files, label, db } => {
            let read: Vec<_> = files.iter().map(|f| read_results(f)).collect::<Result<_, _>>()?;
            let mut store = session::open(db.db.as_deref())?;
            for (file, mut results) in files.iter().zip(read) {
                if let Some(label) = &label {
                    results.run.label = Some(label.clone());
                }
                let Imported { id, new } = store.import(&results)?;
                let is = if new { "is now" } else { "is already" };
                output::talk(format_args!("{} {is} result {id}", file.display()));
            }
            Ok(Verdict::Fine)
        }
        ResultsCommand::Rm { results, db } => {
            if let Some(name) = results.iter().find(|name| name.starts_with('@')) {
                bail!(
                    "{name} is a reference, shipped with the tool: only stored results are removed"
                );
            }
            let Some(mut store) = existing(db.db.as_deref())? else { bail!(NOTHING) };
            // All names are looked up first: a typing error removes nothing.
            let ids: BTreeSet<_> =
                results.iter().map(|name| store.resolve(name)).collect::<Result<_, _>>()?;
            for id in ids {
                store.remove(id)?;
            }
            Ok(Verdict::Fine)
        }
    }
}

/// A result, and what to call it.
#[derive(Clone)]
pub(crate) struct Loaded {
    /// `result 3`, `@epyc-zen4-kvm-6.18`, a file.
    pub(crate) name: String,
    pub(crate) results: schema::Results,
}

/// A result by number, label, `latest`, `latest~1`, `@NAME` of a reference, or
/// from a JSON file. No database is opened unless it takes one.
pub(crate) fn load(name: &str, db: Option<&Path>) -> Result<Loaded> {
    if let Some(reference) = name.strip_prefix('@') {
        let found = reference::find(reference).ok_or_else(|| no_reference(name))?;
        return Ok(Loaded { name: name.to_owned(), results: found.results().clone() });
    }
    let path = Path::new(name);
    // A pipe is a file too: `/dev/stdin`, `<(ssh host kumiki results export)`.
    let there = path.exists() && !path.is_dir();
    if there || path.extension().is_some_and(|e| e == "json") {
        return Ok(Loaded { name: name.to_owned(), results: read_results(path)? });
    }
    let Some(store) = existing(db)? else {
        bail!("no result {name:?}: {NOTHING}");
    };
    let id = store.resolve(name)?;
    Ok(Loaded { name: format!("result {id}"), results: store.load(id)? })
}

fn no_reference(asked: &str) -> anyhow::Error {
    let names: Vec<String> = reference::all().iter().map(|r| format!("@{}", r.name())).collect();
    anyhow!("no reference {asked:?} is shipped with this version; there are: {}", names.join(", "))
}

/// The word, if a stored result has it as its label.
pub(crate) fn label_of<'a>(word: &'a str, db: Option<&Path>) -> Option<&'a str> {
    let store = existing(db).ok()??;
    store.resolve(word).is_ok().then_some(word)
}

/// Said where nothing has been kept.
pub(crate) const NOTHING: &str = "no results yet; `kumiki measure` makes one";

/// The store, unless it is the person's own and nothing has been kept in it yet:
/// reading makes no database.
pub(crate) fn existing(db: Option<&Path>) -> Result<Option<Store>> {
    if db.is_none() && !Store::default_path().is_ok_and(|path| path.exists()) {
        return Ok(None);
    }
    session::open(db).map(Some)
}

fn ls(db: Option<&Path>, json: bool) -> Result<Verdict> {
    let stored = existing(db)?.map(|store| store.list()).transpose()?.unwrap_or_default();
    if json {
        let references = reference::all().iter().map(as_json);
        let stored = stored.iter().map(|entry| serde_json::to_value(entry).map_err(Into::into));
        output::json(&references.map(Ok).chain(stored).collect::<Result<Vec<_>>>()?)?;
        return Ok(Verdict::Fine);
    }
    output::line("references, shipped with the tool (`kumiki compare @NAME latest`)")?;
    for one in reference::all() {
        let about = format!("{}, {} rows", one.date(), one.results().rows.len());
        output::line(format_args!("  @{}  {about}", one.name()))?;
        output::text(output::wrapped(&one.conditions(), "    "))?;
    }
    if stored.is_empty() {
        output::talk(NOTHING);
        return Ok(Verdict::Fine);
    }
    let mut table =
        output::Rows::new(&["id", "label", "started", "mode", "host", "kernel", "rows", "took"], 6);
    for entry in stored {
        let took = format::wait(entry.run.seconds);
        table.add([
            entry.id.to_string(),
            entry.run.label.unwrap_or_default(),
            minute(&entry.run.started),
            entry.run.mode,
            entry.machine.hostname,
            entry.machine.kernel,
            entry.rows.to_string(),
            if entry.run.complete { took } else { "unfinished".to_owned() },
        ]);
    }
    output::line("")?;
    table.print()?;
    Ok(Verdict::Fine)
}

/// A reference in the shape of a stored result.
fn as_json(one: &Reference) -> serde_json::Value {
    let results = one.results();
    serde_json::json!({
        "id": format!("@{}", one.name()),
        "reference": true,
        "conditions": one.conditions(),
        "run": results.run,
        "machine": results.machine,
        "rows": results.rows.len(),
    })
}

fn write(results: &schema::Results, format: Format, mut out: impl Write) -> Result<()> {
    match format {
        Format::Json => export::json(results, &mut out)?,
        Format::Csv => export::csv(results, &mut out)?,
        Format::Markdown => out.write_all(export::markdown(results).as_bytes())?,
        Format::Prometheus => out.write_all(prometheus::metrics(results).as_bytes())?,
    }
    out.flush()?;
    Ok(())
}
