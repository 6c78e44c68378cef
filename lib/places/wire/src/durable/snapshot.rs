//! A snapshot: closed logs and the snapshot before them, written anew without what is over. It is made of the files and
//! not of the place, which goes on meanwhile: what it says is what a restart would have.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_journal::{Disk, Snapshot};

use crate::durable::entry::{Entry, FileHead, KeptKind};
use crate::durable::image::{Image, TableImage};
use crate::durable::load::load_below;
use crate::error::{Error, Result};

/// Writes what comes before frame `below` into one file, and removes what that takes the place of; its bytes.
///
/// It is given up once `is_over`: the folder is locked as long as it is written, and another process may wait for it. The
/// logs have all that it would.
pub fn write(disk: &Arc<dyn Disk>, below: u64, is_over: &AtomicBool) -> Result<u64> {
    let goes_on = || match is_over.load(Relaxed) {
        false => Ok(()),
        true => {
            let source = io::Error::new(io::ErrorKind::Interrupted, "its place has ended");
            Err(Error::Io { what: "writing a snapshot".to_owned(), source })
        }
    };
    let loaded = load_below(&**disk, below, is_over)?;
    let Some(head) = loaded.head else { return Ok(0) };
    let image = loaded.image;
    let head = FileHead { kinds: kinds_of(&image, &head), ..head };
    let mut snapshot = Snapshot::begin(disk, &head.written()?, below)?;
    let mut add = |entry: Entry| -> Result<()> {
        goes_on()?;
        rmp_serde::encode::write(snapshot.frame(), &[entry])
            .map_err(|error| Error::undecodable("a place's snapshot", &error))?;
        Ok(snapshot.gathered()?)
    };
    for (kind, table) in &image.tables {
        for entry in entries(*kind, table) {
            add(entry)?;
        }
    }
    for (lease, client) in &image.clients {
        let answers = client.answers.iter().map(|(serial, answer)| (*serial, answer.clone()));
        let answers = answers.collect();
        let (lease, first, open) = (*lease, client.first, client.open.clone());
        add(Entry::Answers { lease, first, open, answers })?;
    }
    goes_on()?;
    Ok(snapshot.end()?)
}

/// Entries that say what a table's slots are.
fn entries(kind: u8, table: &TableImage) -> impl Iterator<Item = Entry> {
    table.slots.iter().zip(0_u64..).filter(|(slot, _)| slot.uses > 0).map(move |(slot, index)| {
        let id = u64::from(kind) << 40 | u64::from(slot.uses) << 20 | index;
        match &slot.resource {
            None => Entry::Used { id },
            Some(its) => {
                let (name, state) = (its.name.clone(), its.state.clone());
                Entry::Made { id, name, form: its.form, state }
            }
        }
    })
}

/// Kinds of what is written: those of the last head, and what earlier ones had.
fn kinds_of(image: &Image, head: &FileHead) -> Vec<KeptKind> {
    let mut kinds = head.kinds.clone();
    for (number, table) in &image.tables {
        if !kinds.iter().any(|kind| kind.number == *number) {
            kinds.push(KeptKind { number: *number, name: table.kind.clone() });
        }
    }
    kinds
}
