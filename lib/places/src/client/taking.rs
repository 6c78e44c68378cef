//! A durable place is taken into another folder, while its callers go on.

use kumiki_journal::{Disk, DiskFile, failed};
use kumiki_resource::Interface;
use tokio::time::{Instant, sleep};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::arrival::Arrival;
use crate::client::{Client, decode};
use crate::durable::load::{Loaded, load, load_on};
use crate::error::{Error, Result};
use crate::place::serve::Server;
use crate::refused::Why;
use crate::wire::{LeaveFiles, LeaveStep, Operation, secret};

/// Bytes that may be missing when the place is to stand still.
const FEW: u64 = 256 << 10;
/// Rounds of copying while it serves, at most.
const ROUNDS: usize = 16;
/// Pause between two looks whether its process has let the name go.
const SOON: Duration = Duration::from_millis(2);
/// Time for which that is waited for.
const GOES: Duration = Duration::from_secs(10);

impl Client {
    /// Takes a durable place from the process that serves it into this folder, for good: from then on its former folder
    /// is refused ([`Error::Moved`]), and [`Server::called`](crate::Server::called) serves it from here, under the same
    /// life, with the next number of its starts. The place must allow it. Its callers go on by its name and their
    /// references. They have no answers from the last of the copy until it is served. `to` is for a person who finds the
    /// former folder.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotSent`], [`Error::Unanswered`], [`Error::Refused`]: it serves on where it is, if it
    /// serves. [`Error::Unknown`]: whether it has left says its former folder. [`Error::NotDurable`] if the folder has a place; the disk's.
    pub async fn take_place(&self, place: &str, disk: &dyn Disk, to: &str) -> Result<()> {
        self.taken(place, disk, to, |_| Ok(())).await.map(drop)
    }

    /// Takes the place that a server is [called](crate::Server::called) into its folder, as [`take_place`](Self::take_place)
    /// does, if that server can serve it: what its allow-list allows, its kinds and the forms of their states, and what
    /// the NATS server lets its user do are looked at while the place still serves where it is.
    ///
    /// # Errors
    /// As [`take_place`](Self::take_place); [`Error::NotDurable`], [`Error::OtherForm`], [`Error::Nats`]: the server could
    /// not serve it, and it serves on where it is.
    pub async fn take_place_for(
        &self,
        server: &Server,
        interface: &Interface,
        to: &str,
    ) -> Result<()> {
        let ready = server.ready(interface).await?;
        let taken = self.taken(&ready.name, &*ready.disk, to, |loaded| ready.knows(loaded)).await?;
        // It is not read anew: that would be time without answers.
        server.has_taken(ready.disk, taken);
        Ok(())
    }

    async fn taken(
        &self,
        place: &str,
        disk: &dyn Disk,
        to: &str,
        knows: impl FnOnce(&Loaded) -> Result<()>,
    ) -> Result<Loaded> {
        let life = self.life(place).await?;
        let ticket = secret::number("a move's number")?;
        let arrival = Arrival::begin(place, disk)?;
        let mut taking = Taking { client: self, place, life, ticket, disk, files: BTreeMap::new() };
        let copied = match arrival.clear() {
            Ok(()) => taking.copied(to, knows).await,
            Err(error) => Err(error),
        };
        match copied {
            Ok(loaded) => {
                arrival.end()?;
                taking.gone().await?;
                Ok(loaded)
            }
            Err(error @ Error::Unknown { .. }) => Err(error),
            Err(error) => {
                // It goes on where it is, at once if it hears this.
                let _ = taking.step(LeaveStep::GiveUp).await;
                let _ = arrival.give_up();
                Err(error)
            }
        }
    }
}

/// A place that is being taken.
struct Taking<'a> {
    client: &'a Client,
    place: &'a str,
    life: u64,
    ticket: u64,
    disk: &'a dyn Disk,
    files: BTreeMap<String, Copied>,
}

/// A file's copy, and its bytes.
struct Copied {
    file: Box<dyn DiskFile>,
    bytes: u64,
}

impl Taking<'_> {
    async fn step(&self, step: LeaveStep) -> Result<bytes::Bytes> {
        let operation = Operation::Leave { ticket: self.ticket, step };
        let mut answers = self.client.ask_all(self.place, self.life, vec![operation]).await;
        let answer = answers.pop().expect("one answer an operation");
        answer.map(|(_, bytes)| bytes)
    }

    /// Has a copy of all, for which the place stands still in the end, and ends it there; gives what the copy says.
    async fn copied(
        &mut self,
        to: &str,
        knows: impl FnOnce(&Loaded) -> Result<()>,
    ) -> Result<Loaded> {
        for _ in 0..ROUNDS {
            if self.round().await?.is_some_and(|bytes| bytes <= FEW) {
                break;
            }
        }
        // What cannot be read must not be all that there is.
        let mut loaded = load(self.disk)?;
        knows(&loaded)?;
        // That has taken its time, in which more has come.
        for _ in 0..ROUNDS {
            let bytes = self.round().await?;
            loaded = load_on(self.disk, loaded)?;
            if bytes.is_some_and(|bytes| bytes <= FEW) {
                break;
            }
        }
        self.step(LeaveStep::Freeze).await?;
        for _ in 0..ROUNDS {
            if self.round().await?.is_some() {
                let loaded = load_on(self.disk, loaded)?;
                self.committed(to).await?;
                return Ok(loaded);
            }
        }
        Err(Error::undecodable(
            "a list of files",
            &"it has files that are not there, again and again",
        ))
    }

    /// Copies what has come since the last round; the bytes of that, or none if a snapshot took the place of a file.
    async fn round(&mut self) -> Result<Option<u64>> {
        let LeaveFiles { files } = decode("a list of files", &self.step(LeaveStep::Files).await?)?;
        let gone: Vec<String> = self
            .files
            .keys()
            .filter(|name| !files.iter().any(|(file, _)| file == *name))
            .cloned()
            .collect();
        // A snapshot has taken their place.
        for name in gone {
            self.files.remove(&name);
            self.disk.remove(&name).map_err(failed("removing", self.disk, &name))?;
        }
        let mut bytes = 0;
        for (name, length) in files {
            match self.file(&name, length).await {
                Ok(copied) => bytes += copied,
                // The next round has the snapshot.
                Err(Error::Refused { why: Why::NotFound, .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.disk.sync().map_err(failed("keeping", self.disk, ""))?;
        Ok(Some(bytes))
    }

    /// Copies what a file has more; the bytes of that.
    async fn file(&mut self, name: &str, length: u64) -> Result<u64> {
        if !is_file(name) {
            let why = format!("{name:?} is no name of a place's file");
            return Err(Error::undecodable("a list of files", &why));
        }
        if !self.files.contains_key(name) {
            let file = self.disk.create(name, 0).map_err(failed("making", self.disk, name))?;
            self.files.insert(name.to_owned(), Copied { file, bytes: 0 });
        }
        let mut copied = 0;
        loop {
            let at = self.files.get(name).map_or(length, |file| file.bytes);
            let missing = length.saturating_sub(at);
            if missing == 0 {
                break;
            }
            let bytes = missing.min(self.client.room() as u64);
            let piece = self.step(LeaveStep::Read { file: name.to_owned(), at, bytes }).await?;
            let piece: bytes::Bytes = decode("a piece of a file", &piece)?;
            if piece.is_empty() || piece.len() as u64 > missing {
                return Err(Error::undecodable(
                    "a piece of a file",
                    &"it has another length than was asked for",
                ));
            }
            let Some(own) = self.files.get_mut(name) else { break };
            own.file.write(at, &piece).map_err(failed("writing", self.disk, name))?;
            own.bytes += piece.len() as u64;
            copied += piece.len() as u64;
        }
        if let Some(own) = self.files.get_mut(name).filter(|_| copied > 0) {
            own.file.flush().map_err(failed("flushing", self.disk, name))?;
        }
        Ok(copied)
    }

    /// Ends the place where it was.
    async fn committed(&self, to: &str) -> Result<()> {
        let commit = || self.step(LeaveStep::Commit { to: to.to_owned() });
        let first = match commit().await {
            Ok(_) => return Ok(()),
            // Nobody has heard it, or it was not done: the place has not left.
            Err(error @ (Error::Refused { .. } | Error::NotSent { .. } | Error::Gone { .. })) => {
                return Err(error);
            }
            Err(error) => error,
        };
        // It says the same again, if it is still there: that it has left, or that it has stood still for too long.
        match commit().await {
            Ok(_) => Ok(()),
            Err(error @ Error::Refused { .. }) => Err(error),
            Err(_) => {
                let why = match first {
                    Error::Unknown { why, .. } => why,
                    other => other.to_string(),
                };
                let why = format!(
                    "whether it has left for {} was not heard ({why}): its former folder says so",
                    self.disk.name()
                );
                Err(Error::Unknown { place: self.place.to_owned(), why })
            }
        }
    }

    /// Returns when nobody has the place's name any more.
    async fn gone(&self) -> Result<()> {
        let until = Instant::now() + GOES;
        loop {
            match self.client.life(self.place).await {
                Err(Error::Gone { .. }) => return Ok(()),
                Err(_) | Ok(_) if Instant::now() < until => sleep(SOON).await,
                Err(error) => return Err(error),
                Ok(_) => return Err(Error::PlaceTaken { place: self.place.to_owned() }),
            }
        }
    }
}

/// True if this is the name of a log or a snapshot: what a place says is no path of this machine.
fn is_file(name: &str) -> bool {
    let digits = name.strip_prefix("log-").or_else(|| name.strip_prefix("snapshot-"));
    digits.is_some_and(|digits| {
        digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
