//! `kumiki results`: what the store holds.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use kumiki_measure::file::read_results;
use kumiki_measure::schema;
use kumiki_measure::store::{Imported, Store};
use kumiki_report::{export, format};

use crate::args::{Format, ResultsCommand};
use crate::destination::Destination;
use crate::{Verdict, output, session};

pub(crate) fn run(command: ResultsCommand) -> Result<Verdict> {
    match command {
        ResultsCommand::Ls { db, json } => ls(&session::open(db.db.as_deref())?, json),
        ResultsCommand::Show { result, db, json } => {
            let results = load(&result, db.db.as_deref())?;
            if json {
                output::json(&results)?
            } else {
                output::table(&results)?
            }
            Ok(Verdict::Fine)
        }
        ResultsCommand::Export { result, format, output, db } => {
            let results = load(&result, db.db.as_deref())?;
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
        ResultsCommand::Import { files, db } => {
            let read: Vec<_> = files.iter().map(|f| read_results(f)).collect::<Result<_, _>>()?;
            let mut store = session::open(db.db.as_deref())?;
            for (file, results) in files.iter().zip(read) {
                let Imported { id, new } = store.import(&results)?;
                let is = if new { "is now" } else { "is already" };
                output::talk(format_args!("{} {is} result {id}", file.display()));
            }
            Ok(Verdict::Fine)
        }
        ResultsCommand::Rm { results, db } => {
            let mut store = session::open(db.db.as_deref())?;
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

/// A result by number, label, `latest`, `latest~1`, or from a JSON file.
pub(crate) fn load(name: &str, db: Option<&Path>) -> Result<schema::Results> {
    let path = Path::new(name);
    // A pipe is a file too: `/dev/stdin`, `<(ssh host kumiki results export)`.
    let there = path.exists() && !path.is_dir();
    if there || path.extension().is_some_and(|e| e == "json") {
        return Ok(read_results(path)?);
    }
    let store = session::open(db)?;
    let id = store.resolve(name)?;
    Ok(store.load(id)?)
}

fn ls(store: &Store, json: bool) -> Result<Verdict> {
    let list = store.list()?;
    if json {
        output::json(&list)?;
        return Ok(Verdict::Fine);
    }
    if list.is_empty() {
        output::talk("no results yet; `kumiki measure` makes one");
        return Ok(Verdict::Fine);
    }
    let mut table =
        output::columns(&["id", "label", "started", "mode", "host", "kernel", "rows", "took"], 6);
    for entry in list {
        let took = format::wait(entry.run.seconds);
        table.add_row([
            entry.id.to_string(),
            entry.run.label.unwrap_or_default(),
            entry.run.started,
            entry.run.mode,
            entry.machine.hostname,
            entry.machine.kernel,
            entry.rows.to_string(),
            if entry.run.complete { took } else { "unfinished".to_owned() },
        ]);
    }
    output::line(table.trim_fmt())?;
    Ok(Verdict::Fine)
}

fn write(results: &schema::Results, format: Format, mut out: impl Write) -> Result<()> {
    match format {
        Format::Json => export::json(results, &mut out)?,
        Format::Csv => export::csv(results, &mut out)?,
        Format::Markdown => out.write_all(export::markdown(results).as_bytes())?,
    }
    out.flush()?;
    Ok(())
}
