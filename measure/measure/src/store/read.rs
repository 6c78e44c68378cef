//! What is in a store.

use std::collections::HashMap;

use rusqlite::OptionalExtension;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{Error, Result};
use super::{RunId, Store};
use crate::check;
use crate::schema::{Machine, Params, Results, Row, Run, Skipped, Unit, Visit};

/// Runs that an error about a wrong name lists.
const KNOWN: usize = 8;

/// A run without its samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Its number.
    pub id: RunId,
    /// Settings and times of the run.
    pub run: Run,
    /// Machine on which it ran.
    pub machine: Machine,
    /// Number of its rows.
    pub rows: usize,
}

/// A row as its visits are collected, in the order of its first one.
struct Gathered {
    case: String,
    params: Params,
    unit: Unit,
    cpus: Vec<usize>,
    visits: Vec<Visit>,
}

/// One line of the table `visits`.
struct Record {
    id: i64,
    name: String,
    params: String,
    unit: String,
    cpus: String,
    facts: String,
    samples: Vec<u8>,
}

impl Store {
    /// All runs, oldest first; no sample is read.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let query = "
            SELECT runs.id, runs.run, machine, coalesce(rows, 0) FROM runs
            LEFT JOIN (
                SELECT run AS id, count(*) AS rows
                FROM (SELECT DISTINCT run, name, params, unit FROM visits) GROUP BY run
            ) USING (id) ORDER BY runs.id";
        let lines = self.query(query, [], |line| {
            Ok((RunId(line.get(0)?), line.get(1)?, line.get(2)?, line.get::<_, i64>(3)?))
        })?;
        let listed = |(id, run, machine, rows): (RunId, String, String, i64)| {
            Ok(Listed {
                id,
                run: self.parse(id, "run", &run)?,
                machine: self.parse(id, "machine", &machine)?,
                rows: rows as usize,
            })
        };
        lines.into_iter().map(listed).collect()
    }

    /// A whole run: rows in the order of their first visits, figures and
    /// slopes derived.
    pub fn load(&self, id: RunId) -> Result<Results> {
        let query = "SELECT run, machine FROM runs WHERE id = ?1";
        let found = self.connection.query_row(query, [id.0], |line| {
            Ok((line.get::<_, String>(0)?, line.get::<_, String>(1)?))
        });
        let found = found.optional().map_err(|e| self.sql("loading a run", e))?;
        let (run, machine) = found.ok_or_else(|| self.no_such_run(&id.to_string()))?;
        let run = self.parse(id, "run", &run)?;
        let machine = self.parse(id, "machine", &machine)?;
        let rows = self
            .gather(id)?
            .into_iter()
            .map(|row| Row::summarise(&row.case, row.params, row.unit, row.cpus, row.visits));
        Ok(Results::new(run, machine, rows.collect(), self.load_skipped(id)?))
    }

    /// The run that a person means: a number, `latest`, `latest~1` for the one
    /// before, or a label, of which the newest counts.
    pub fn resolve(&self, asked: &str) -> Result<RunId> {
        let query = "SELECT id, run ->> '$.label' FROM runs ORDER BY id DESC";
        let runs: Vec<(i64, Option<String>)> =
            self.query(query, [], |line| Ok((line.get(0)?, line.get(1)?)))?;
        let back = match asked.strip_prefix("latest") {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix('~').and_then(|n| n.parse::<usize>().ok()),
            None => None,
        };
        let number = asked.parse::<i64>().ok();
        let found = match back {
            Some(back) => runs.get(back),
            None => None,
        };
        let found = found
            .or_else(|| runs.iter().find(|(id, _)| Some(*id) == number))
            .or_else(|| runs.iter().find(|(_, label)| label.as_deref() == Some(asked)));
        found.map(|(id, _)| RunId(*id)).ok_or_else(|| self.no_such_run(asked))
    }

    /// Every row's visits.
    fn gather(&self, id: RunId) -> Result<Vec<Gathered>> {
        let query = "SELECT id, name, params, unit, cpus, facts, samples FROM visits
             WHERE run = ?1 ORDER BY id";
        let records = self.query(query, [id.0], |line| {
            Ok(Record {
                id: line.get(0)?,
                name: line.get(1)?,
                params: line.get(2)?,
                unit: line.get(3)?,
                cpus: line.get(4)?,
                facts: line.get(5)?,
                samples: line.get(6)?,
            })
        })?;
        let mut rows: Vec<Gathered> = Vec::new();
        let mut index = HashMap::new();
        for record in records {
            let name = format!("visit {} of {} {}", record.id, record.name, record.params);
            let visit = self.visit_of(id, &name, &record)?;
            let next = rows.len();
            let key = (record.name, record.params, record.unit);
            let at = *index.entry(key.clone()).or_insert(next);
            if at == next {
                rows.push(Gathered {
                    case: key.0,
                    params: self.parse(id, &name, &key.1)?,
                    unit: self.parse(id, &name, &key.2)?,
                    cpus: self.parse(id, &name, &record.cpus)?,
                    visits: Vec::new(),
                });
            }
            rows[at].visits.push(visit);
        }
        Ok(rows)
    }

    fn visit_of(&self, id: RunId, name: &str, record: &Record) -> Result<Visit> {
        let samples = record.samples.chunks_exact(8);
        if !samples.remainder().is_empty() {
            let what = format!("{} bytes of samples are no f64s", record.samples.len());
            return Err(self.damaged(id, name, &what));
        }
        let mut visit: Visit = self.parse(id, name, &record.facts)?;
        let sample = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap_or_default());
        visit.samples = samples.map(sample).collect();
        check::visit(&visit).map_err(|wrong| self.damaged(id, name, &wrong))?;
        Ok(visit)
    }

    fn load_skipped(&self, id: RunId) -> Result<Vec<Skipped>> {
        let query = "SELECT name, params, reason FROM skipped WHERE run = ?1 ORDER BY id";
        let lines: Vec<(String, String, String)> =
            self.query(query, [id.0], |line| Ok((line.get(0)?, line.get(1)?, line.get(2)?)))?;
        let skipped = lines.into_iter().map(|(case, params, reason)| {
            let params = self.parse(id, &case, &params)?;
            Ok(Skipped { case, params, reason })
        });
        skipped.collect()
    }

    fn query<T>(
        &self,
        query: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let run = || {
            let mut statement = self.connection.prepare_cached(query)?;
            statement.query_map(params, read)?.collect::<rusqlite::Result<_>>()
        };
        run().map_err(|e| self.sql("reading the database", e))
    }

    fn parse<T: DeserializeOwned>(&self, id: RunId, name: &str, text: &str) -> Result<T> {
        serde_json::from_str(text).map_err(|e| self.damaged(id, name, &e.to_string()))
    }

    fn damaged(&self, run: RunId, name: &str, wrong: &str) -> Error {
        Error::DamagedRun { path: self.path.clone(), run, what: format!("{name}: {wrong}") }
    }

    /// The error that lists what there is instead.
    pub(super) fn no_such_run(&self, asked: &str) -> Error {
        let query = "SELECT id, run ->> '$.label' FROM runs ORDER BY id DESC LIMIT ?1";
        let newest = self.query(query, [KNOWN as i64 + 1], |line| {
            let label: Option<String> = line.get(1)?;
            Ok(format!(
                "{}{}",
                line.get::<_, i64>(0)?,
                label.map(|l| format!(" ({l})")).unwrap_or_default()
            ))
        });
        let mut newest = match newest {
            Ok(newest) => newest,
            // Why it cannot be read says more than that there is no such run.
            Err(error) => return error,
        };
        if newest.len() > KNOWN {
            newest[KNOWN] = "…".to_owned();
        }
        let known = match newest.len() {
            0 => "is none yet".to_owned(),
            _ => format!("are, newest first: {}", newest.join(", ")),
        };
        Error::NoSuchRun { path: self.path.clone(), asked: asked.to_owned(), known }
    }
}
