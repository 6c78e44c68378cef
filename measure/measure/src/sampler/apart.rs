//! A visit in a process of its own.
//!
//! Where a process's pages lie decides what its faults, mappings and files cost, and all
//! visits of one process share that: twenty of them are then one experiment. So a case that
//! says so ([`Case::apart`]) is visited in a new process each time, and what differs from
//! process to process is in the visits' spread, where it belongs.
//!
//! ```text
//!  sampler ── request, one line of JSON ──▶ PROGRAM WORD…   binds itself, makes the visit
//!          ◀── visit or reason ────────────                 and ends
//! ```

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use kumiki_sys::affinity;
use kumiki_sys::clock::Clock;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::visit::Visitor;
use crate::activity::Probe;
use crate::case::{Case, Place};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::peak::Peak;
use crate::schema::{Params, Unit, Visit};

/// The program that answers requests by [`answer`], and its arguments.
#[derive(Clone, Debug)]
pub struct Apart {
    /// Its file.
    pub program: PathBuf,
    /// Arguments by which it knows what it is to do.
    pub args: Vec<String>,
}

/// A visit that is asked for.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Request {
    case: String,
    params: Params,
    unit: Unit,
    cpu: usize,
    partner: Option<usize>,
    scratch: PathBuf,
    length: Duration,
    /// Rate of the clock: it need not be calibrated again.
    hz: f64,
    /// Process that asks: without it there is nobody to answer.
    parent: i32,
}

/// Result of a visit.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Visited {
        visit: Box<Visit>,
        /// The most memory that the process had beside what the case asked for.
        peak_bytes: Option<u64>,
    },
    Failed(String),
}

impl Apart {
    /// A visit to `case`, and the peak memory of its process.
    pub(super) fn visit(
        &self,
        case: &Case,
        place: &Place,
        length: Duration,
        meter: &Meter,
    ) -> Result<(Visit, Option<u64>)> {
        let request = Request {
            case: case.name.to_owned(),
            params: case.params.clone(),
            unit: case.unit,
            cpu: place.cpu,
            partner: place.partner,
            scratch: place.scratch.clone(),
            length,
            hz: meter.clock().hz(),
            parent: rustix::process::getpid().as_raw_nonzero().get(),
        };
        let program = self.program.display().to_string();
        let os = |source| Error::os(format!("a visit in a process of its own, {program}"), source);
        let mut child = Command::new(&self.program)
            .args(&self.args)
            // A Ctrl-C is for us, who end after the visit; and takes it along if not.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(os)?;
        let mut words = serde_json::to_vec(&request).map_err(std::io::Error::from).map_err(os)?;
        words.push(b'\n');
        // Who ends before it has read it says why by its status.
        let _ = child.stdin.take().map(|mut input| input.write_all(&words));
        let output = child.wait_with_output().map_err(os)?;
        let what = |what: String| Error::Program { program: program.clone(), what };
        if !output.status.success() {
            return Err(what(format!("it visited {} and ended with {}", case.name, output.status)));
        }
        match serde_json::from_slice(&output.stdout) {
            Ok(Reply::Visited { visit, peak_bytes }) => Ok((*visit, peak_bytes)),
            Ok(Reply::Failed(reason)) => Err(Error::Invalid(reason)),
            Err(error) => Err(what(format!("its answer for {}: {error}", case.name))),
        }
    }
}

/// Answers one request on standard input: the visit, or why there is none. `cases` are those
/// among which the request's case is.
///
/// # Errors
/// There is no request, or nobody reads the answer.
pub fn answer(cases: &[Case]) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| Error::os("prctl", e))?;
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|e| Error::os("reading a request for a visit", e))?;
    let request: Request = serde_json::from_str(&text)
        .map_err(|e| Error::Invalid(format!("a request for a visit, which kumiki sends: {e}")))?;
    // It may have ended before it could take us along.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != request.parent) {
        return Ok(());
    }
    let reply = match visited(&request, cases) {
        Ok((visit, peak_bytes)) => Reply::Visited { visit: Box::new(visit), peak_bytes },
        Err(error) => Reply::Failed(error.to_string()),
    };
    let mut out = std::io::stdout().lock();
    let written = serde_json::to_writer(&mut out, &reply).map_err(std::io::Error::from);
    written.and_then(|()| out.flush()).map_err(|e| Error::os("answering a request for a visit", e))
}

fn visited(request: &Request, cases: &[Case]) -> Result<(Visit, Option<u64>)> {
    let asked = |case: &&Case| {
        case.name == request.case && case.params == request.params && case.unit == request.unit
    };
    let case = cases.iter().find(asked).ok_or_else(|| {
        Error::Invalid(format!("no case {} {:?} here", request.case, request.params))
    })?;
    let place =
        Place { cpu: request.cpu, partner: request.partner, scratch: request.scratch.clone() };
    let _bound = affinity::bind(place.cpu)?;
    let mut cpus = vec![place.cpu];
    cpus.extend(place.partner.filter(|_| case.two_cpus));
    let meter = Meter::new(Clock::with_rate(request.hz));
    let probe = Probe::new(&cpus)?;
    let visitor = Visitor { meter: &meter, probe: &probe, length: request.length };
    let mut peak = Peak::default();
    let visit = visitor.visit(case, &place)?;
    peak.end(case.asks_bytes);
    Ok((visit, peak.bytes()))
}
