//! Keeps results in an SQLite database.
//!
//! Only facts are stored, each visit at once and for good: a run that is
//! killed keeps every visit it made. Figures are derived when a run is loaded,
//! so that a better statistic serves old runs too. Several processes may use
//! one database at the same time.

mod error;
mod open;
mod read;
mod writable;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};
use serde::Serialize;

pub use error::{Error, Result};
pub use read::Listed;

use crate::check::{self, Identities};
use crate::label;
use crate::schema::{Machine, Params, Results, Run, Skipped, Unit, Visit};

/// Time to wait for another process that writes. A write takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// A run's number in its store; never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RunId(pub i64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Fate of a result that was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The run that it is.
    pub id: RunId,
    /// False if that run was there before.
    pub new: bool,
}

/// An open database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the database at `path`; makes it, and its folder, if it is not
    /// there. A file that is anything else is refused and left as it is. One that
    /// cannot be written (permissions, a read-only file system, a full disk) is
    /// opened for reading, and storing to it is an error.
    pub fn open(path: &Path) -> Result<Store> {
        Ok(Store { connection: open::open(path)?, path: path.to_owned() })
    }

    /// Path of the results unless a person chooses otherwise: `$XDG_DATA_HOME/kumiki/results.db`.
    ///
    /// # Errors
    /// There is no home, or it would be in one that is not there.
    pub fn default_path() -> Result<PathBuf> {
        let base = etcetera::base_strategy::Xdg::new();
        let base = base.map_err(|e| Error::NoDataFolder(e.to_string()))?;
        let (home, data) = (base.home_dir(), base.data_dir());
        // A home that is not there is nobody's to make.
        if data.starts_with(home) && !home.exists() {
            return Err(Error::NoDataFolder(format!("HOME is {}: not there", home.display())));
        }
        Ok(data.join("kumiki").join("results.db"))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a new run, to be filled by [`Store::visit`].
    pub fn begin(&mut self, run: &Run, machine: &Machine) -> Result<RunId> {
        insert_run(&self.connection, run, machine).map_err(|e| self.sql("beginning a run", e))
    }

    /// Stores one visit of one case, for good when this returns. `pass` is the
    /// run's round in which it was made.
    #[expect(clippy::too_many_arguments, reason = "a row's identity and its facts, as they come")]
    pub fn visit(
        &mut self,
        id: RunId,
        case: &str,
        params: &Params,
        unit: Unit,
        cpus: &[usize],
        pass: usize,
        visit: &Visit,
    ) -> Result<()> {
        check::visit(visit).map_err(|wrong| {
            Error::Inconsistent(format!("visit of {} {wrong}", check::identity(case, params, unit)))
        })?;
        insert_visit(&self.connection, id, &Key { case, params, unit, cpus }, pass, visit)
            .map_err(|e| self.of_run(id, "storing a visit", e))
    }

    /// Stores that a case could not run.
    pub fn skipped(&mut self, id: RunId, skipped: &Skipped) -> Result<()> {
        insert_skipped(&self.connection, id, skipped)
            .map_err(|e| self.of_run(id, "storing a skipped case", e))
    }

    /// Replaces what [`Store::begin`] knew about the run by what is known at
    /// its end.
    pub fn finish(&mut self, id: RunId, run: &Run, machine: &Machine) -> Result<()> {
        let update = "UPDATE runs SET run = ?2, machine = ?3 WHERE id = ?1";
        let changed = self.connection.execute(update, params![id.0, json(run), json(machine)]);
        match changed.map_err(|e| self.sql("finishing a run", e))? {
            0 => Err(self.no_such_run(&id.to_string())),
            _ => Ok(()),
        }
    }

    /// Stores a whole result, or nothing. Its figures are not stored. A result
    /// that is there already, to the last sample, is not stored again.
    pub fn import(&mut self, results: &Results) -> Result<Imported> {
        if let Some(label) = &results.run.label {
            label::check(label).map_err(|why| {
                Error::Inconsistent(format!("label {label:?} {why} (import has --label)"))
            })?;
        }
        check::run(&results.run, &results.machine).map_err(Error::Inconsistent)?;
        let mut identities = Identities::default();
        for row in &results.rows {
            let checked = identities.row(&row.case, &row.params, row.unit, &row.visits);
            checked.map_err(Error::Inconsistent)?;
        }
        let failed = |e| self.sql("importing a result", e);
        // From looking for it on, nobody else may store it.
        let immediate = TransactionBehavior::Immediate;
        let transaction =
            Transaction::new_unchecked(&self.connection, immediate).map_err(failed)?;
        if let Some(id) = self.holding(results)? {
            return Ok(Imported { id, new: false });
        }
        let insert = || {
            let id = insert_run(&transaction, &results.run, &results.machine)?;
            for row in &results.rows {
                let (case, params, unit) = (&row.case, &row.params, row.unit);
                let key = Key { case, params, unit, cpus: &row.cpus };
                for (pass, visit) in row.visits.iter().enumerate() {
                    insert_visit(&transaction, id, &key, pass, visit)?;
                }
            }
            for skipped in &results.skipped {
                insert_skipped(&transaction, id, skipped)?;
            }
            Ok(id)
        };
        let id = insert().map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(Imported { id, new: true })
    }

    /// The run that is this result.
    fn holding(&self, results: &Results) -> Result<Option<RunId>> {
        for listed in self.list()? {
            let alike = listed.run == results.run
                && listed.machine == results.machine
                && listed.rows == results.rows.len();
            if alike {
                let held = self.load(listed.id)?;
                if held.rows == results.rows && held.skipped == results.skipped {
                    return Ok(Some(listed.id));
                }
            }
        }
        Ok(None)
    }

    /// Removes a run and all that belongs to it.
    pub fn remove(&mut self, id: RunId) -> Result<()> {
        let removed = self.connection.execute("DELETE FROM runs WHERE id = ?1", [id.0]);
        match removed.map_err(|e| self.sql("removing a run", e))? {
            0 => Err(self.no_such_run(&id.to_string())),
            _ => Ok(()),
        }
    }

    fn sql(&self, what: &'static str, source: rusqlite::Error) -> Error {
        sql(&self.path, what, source)
    }

    /// Error of an operation whose run may be missing: the only constraint between tables.
    fn of_run(&self, id: RunId, what: &'static str, source: rusqlite::Error) -> Error {
        match source.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => self.no_such_run(&id.to_string()),
            _ => self.sql(what, source),
        }
    }
}

/// Values that all visits of one row share.
struct Key<'a> {
    case: &'a str,
    params: &'a Params,
    unit: Unit,
    cpus: &'a [usize],
}

fn insert_run(connection: &Connection, run: &Run, machine: &Machine) -> rusqlite::Result<RunId> {
    let insert = "INSERT INTO runs (run, machine) VALUES (?1, ?2)";
    connection.execute(insert, params![json(run), json(machine)])?;
    Ok(RunId(connection.last_insert_rowid()))
}

fn insert_visit(
    connection: &Connection,
    id: RunId,
    key: &Key<'_>,
    pass: usize,
    visit: &Visit,
) -> rusqlite::Result<()> {
    let samples: Vec<u8> = visit.samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let facts = Visit { samples: Vec::new(), ..visit.clone() };
    let mut insert = connection.prepare_cached(
        "INSERT INTO visits (run, name, params, unit, cpus, pass, facts, samples)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    insert.execute(params![
        id.0,
        key.case,
        json(key.params),
        json(&key.unit),
        json(key.cpus),
        pass as i64,
        json(&facts),
        samples
    ])?;
    Ok(())
}

fn insert_skipped(connection: &Connection, id: RunId, skipped: &Skipped) -> rusqlite::Result<()> {
    let insert = "INSERT INTO skipped (run, name, params, reason) VALUES (?1, ?2, ?3, ?4)";
    let Skipped { case, params, reason } = skipped;
    connection.execute(insert, params![id.0, case, json(params), reason])?;
    Ok(())
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("our types have string keys and cannot fail")
}

/// Sorts SQLite's errors by what a person can do about them.
fn sql(path: &Path, what: &'static str, source: rusqlite::Error) -> Error {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            Error::Damaged { path, source }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked { path },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::read_only(&path),
        Some(ErrorCode::CannotOpen) => {
            let why = "cannot be opened, or made in its folder";
            Error::Io { path, source: std::io::Error::other(why) }
        }
        _ => Error::Sql { path, what, source },
    }
}

#[cfg(test)]
mod tests;
