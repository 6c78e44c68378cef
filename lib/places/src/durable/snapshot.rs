//! A snapshot: closed logs and the snapshot before them, written anew without what is over. It is made of the files and
//! not of the place, which goes on meanwhile: what it says is what a restart would have.

use crate::durable::disk::Disk;
use crate::durable::entry::{Entry, FileHead, KeptKind};
use crate::durable::frame::{self, What};
use crate::durable::image::{Image, TableImage};
use crate::durable::load::{failed, load, snapshot_name, superseded};
use crate::durable::segments::framed_head;
use crate::error::{Error, Result};

/// Name of a snapshot that is not whole yet.
const UNFINISHED: &str = "unfinished";
/// Bytes of a frame, about.
const FRAME: usize = 1 << 20;

/// Writes what comes before frame `below` into one file, and removes what that takes the place of; its bytes.
pub(crate) fn write(disk: &dyn Disk, below: u64) -> Result<u64> {
    let loaded = load(disk, Some(below))?;
    let Some(head) = loaded.head else { return Ok(0) };
    let name = snapshot_name(below);
    let bytes = written(disk, &loaded.image, &head, &name)?;
    let named = disk.rename(UNFINISHED, &name).and_then(|()| disk.sync());
    named.map_err(failed("naming", disk, &name))?;
    remove_superseded(disk)?;
    Ok(bytes)
}

/// Removes files that the newest snapshot takes the place of.
pub(crate) fn remove_superseded(disk: &dyn Disk) -> Result<()> {
    let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
    for name in superseded(&names) {
        disk.remove(&name).map_err(failed("removing", disk, &name))?;
    }
    if names.iter().any(|name| name == UNFINISHED) {
        // One that a place which was killed has left.
        disk.remove(UNFINISHED).map_err(failed("removing", disk, UNFINISHED))?;
    }
    Ok(())
}

fn written(disk: &dyn Disk, image: &Image, head: &FileHead, name: &str) -> Result<u64> {
    let failed = |what| failed(what, disk, name);
    let mut file = disk.create(UNFINISHED, 0).map_err(failed("making"))?;
    let (mut at, mut number) = (0, 1);
    let mut write = |framed: &[u8]| {
        let written = file.write(at, framed).map_err(failed("writing"));
        at += framed.len() as u64;
        written
    };
    write(&framed_head(&FileHead { kinds: kinds_of(image, head), ..head.clone() }, number)?)?;
    let mut framed = Vec::new();
    frame::begin(&mut framed);
    let mut add = |entry: Option<Entry>| -> Result<()> {
        if let Some(entry) = &entry {
            rmp_serde::encode::write(&mut framed, &[entry])
                .map_err(|error| Error::of_given("a place's snapshot", &error))?;
        }
        if framed.len() >= FRAME || (entry.is_none() && framed.len() > frame::HEAD) {
            frame::end(&mut framed, What::Records, number);
            write(&framed)?;
            number += 1;
            frame::begin(&mut framed);
        }
        Ok(())
    };
    for (kind, table) in &image.tables {
        for entry in entries(*kind, table) {
            add(Some(entry))?;
        }
    }
    for (lease, client) in &image.clients {
        let answers = client.answers.iter().map(|(serial, answer)| (*serial, answer.clone()));
        let answers = answers.collect();
        let (lease, first, open) = (*lease, client.first, client.open.clone());
        add(Some(Entry::Answers { lease, first, open, answers }))?;
    }
    add(None)?;
    frame::end(&mut framed, What::End, number);
    write(&framed)?;
    file.flush().map_err(failed("flushing"))?;
    Ok(at)
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
