//! What a durable place's files say, taken together: the newest snapshot, and the logs behind it.

use std::io;

use serde::Deserialize;

use crate::durable::disk::Disk;
use crate::durable::entry::{Entry, FORM, FileHead};
use crate::durable::frame::{self, What, WholeFrame};
use crate::durable::image::Image;
use crate::error::{Error, Result};

/// Beginning of a log's name; its first frame's number follows.
const LOG: &str = "log-";
/// Beginning of a snapshot's name; the first frame's number that is not in it follows.
const SNAPSHOT: &str = "snapshot-";

/// All that the files say.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) image: Image,
    /// FileHead of the last file; none where there is no file.
    pub(crate) head: Option<FileHead>,
    /// Number of the frame that comes next.
    pub(crate) next: u64,
    /// Logs, and their bytes up to the last whole frame.
    pub(crate) logs: Vec<(u64, u64)>,
    /// Bytes of the snapshot.
    pub(crate) snapshot_bytes: u64,
    /// Bytes that were cut off at the end, in a sentence.
    pub(crate) cut: Option<String>,
}

pub(crate) fn log_name(first: u64) -> String {
    format!("{LOG}{first:016x}")
}

pub(crate) fn snapshot_name(next: u64) -> String {
    format!("{SNAPSHOT}{next:016x}")
}

fn number_of(name: &str, beginning: &str) -> Option<u64> {
    let digits = name.strip_prefix(beginning).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Numbers of the files of this beginning, in their order.
fn numbers(names: &[String], beginning: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| number_of(name, beginning)).collect();
    numbers.sort_unstable();
    numbers
}

/// Files that the newest snapshot takes the place of.
pub(crate) fn superseded(names: &[String]) -> Vec<String> {
    let snapshots = numbers(names, SNAPSHOT);
    let Some(newest) = snapshots.last() else { return Vec::new() };
    let logs = numbers(names, LOG).into_iter().filter(|first| first < newest).map(log_name);
    let older = snapshots.iter().filter(|next| *next < newest).map(|next| snapshot_name(*next));
    logs.chain(older).collect()
}

/// A fault of a file.
fn rotten(disk: &dyn Disk, name: &str, at: usize, why: impl Into<String>) -> Error {
    Error::Rotten { file: format!("{}/{name}", disk.name()), at: at as u64, why: why.into() }
}

pub(crate) fn failed(what: &str, disk: &dyn Disk, name: &str) -> impl FnOnce(io::Error) -> Error {
    let what = format!("{what} {}/{name}", disk.name());
    move |source| Error::Io { what, source }
}

/// Reads them all, or what comes before frame `below`.
///
/// # Errors
/// [`Error::Io`]; [`Error::Rotten`]; [`Error::OtherForm`].
pub(crate) fn load(disk: &dyn Disk, below: Option<u64>) -> Result<Loaded> {
    let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
    let mut loaded = Loaded {
        image: Image::default(),
        head: None,
        next: 1,
        logs: Vec::new(),
        snapshot_bytes: 0,
        cut: None,
    };
    let is_below = |first: &u64| below.is_none_or(|below| *first < below);
    let snapshot = numbers(&names, SNAPSHOT).pop();
    if let Some(next) = snapshot {
        let name = snapshot_name(next);
        let bytes = disk.read(&name).map_err(failed("reading", disk, &name))?;
        let end = loaded.read(disk, &name, &bytes)?;
        if end.what != Some(What::End) {
            let why = "the snapshot is not whole";
            return Err(rotten(disk, &name, end.at, why));
        }
        (loaded.next, loaded.snapshot_bytes) = (next, bytes.len() as u64);
    }
    let logs = numbers(&names, LOG).into_iter().filter(|first| *first >= loaded.next);
    let logs: Vec<u64> = logs.filter(is_below).collect();
    if logs.is_empty() && snapshot.is_some() && below.is_none() {
        let name = log_name(loaded.next);
        return Err(rotten(disk, &name, 0, "the log behind the snapshot is missing"));
    }
    for (at, first) in logs.iter().enumerate() {
        let name = log_name(*first);
        if *first != loaded.next {
            let why = format!(
                "what was flushed before it, from {} on, is missing",
                log_name(loaded.next)
            );
            return Err(rotten(disk, &name, 0, why));
        }
        let bytes = disk.read(&name).map_err(failed("reading", disk, &name))?;
        let end = loaded.read(disk, &name, &bytes)?;
        loaded.logs.push((*first, end.at as u64));
        let is_last = at + 1 == logs.len() && below.is_none();
        if is_last && end.what == Some(What::Next) {
            let why = "the log that follows it is missing";
            return Err(rotten(disk, &name, end.at, why));
        }
        let rest = bytes.get(end.at..).unwrap_or_default();
        let torn = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if is_last && end.what.is_none() && torn > 0 {
            loaded.cut = Some(format!(
                "{}/{name} was cut at byte {}: what stands behind it, {torn} bytes, was being \
                 written when its place ended, and nobody was answered by it",
                disk.name(),
                end.at
            ));
        }
    }
    Ok(loaded)
}

/// A file's end.
struct Ending {
    at: usize,
    /// The frame that says so; none where the file just stops.
    what: Option<What>,
}

impl Loaded {
    /// Takes a file's frames, up to the last whole one.
    fn read(&mut self, disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<Ending> {
        let first = frame::at(bytes, 0).filter(|frame| frame.what == What::Head);
        let Some(first) = first else {
            return Err(rotten(disk, name, 0, "its head is not what was written"));
        };
        let head = head(disk, name, &first)?;
        let (mut at, mut number) = (first.next, first.number);
        let ending = loop {
            let Some(frame) = frame::at(bytes, at).filter(|frame| frame.number == number) else {
                break None;
            };
            match frame.what {
                What::Records => {
                    self.take(frame.payload, &head).map_err(|why| rotten(disk, name, at, why))?;
                }
                What::End | What::Next => break Some(frame.what),
                What::Head => return Err(rotten(disk, name, at, "a second head")),
            }
            (at, number) = (frame.next, number + 1);
        };
        let later = ending.is_none().then(|| frame::later(bytes, at, number)).flatten();
        if let Some(later) = later {
            let why = format!(
                "what stands there was flushed and is not what was written: a later frame is \
                 whole at byte {later}"
            );
            return Err(rotten(disk, name, at, why));
        }
        self.next = number;
        self.head = Some(head);
        Ok(Ending { at, what: ending })
    }

    /// Takes the records of a frame.
    fn take(&mut self, payload: &[u8], head: &FileHead) -> std::result::Result<(), String> {
        let mut records = rmp_serde::Deserializer::new(payload);
        while !records.get_ref().is_empty() {
            let record = Vec::<Entry>::deserialize(&mut records);
            for entry in record.map_err(|error| format!("a record cannot be read: {error}"))? {
                self.image.apply(entry, &head.kinds)?;
            }
        }
        Ok(())
    }
}

/// A file's head.
fn head(disk: &dyn Disk, name: &str, frame: &WholeFrame<'_>) -> Result<FileHead> {
    // A list whose first is its form, whatever follows.
    let form = match frame.payload {
        [0x90..=0x9f, rest @ ..] => u32::deserialize(&mut rmp_serde::Deserializer::new(rest)).ok(),
        _ => None,
    };
    match form {
        Some(FORM) => rmp_serde::from_slice(frame.payload)
            .map_err(|error| rotten(disk, name, 0, format!("its head cannot be read: {error}"))),
        Some(form) => {
            Err(Error::OtherForm { what: format!("{}/{name}", disk.name()), form, known: FORM })
        }
        None => Err(rotten(disk, name, 0, "its head has no form")),
    }
}
