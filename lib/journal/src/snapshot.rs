//! A snapshot: what closed logs come to, in a file of its own that takes their place.

use crate::disk::{Disk, DiskFile, failed};
use crate::error::Result;
use crate::files::{snapshot_name, superseded};
use crate::frame::{self, What};

/// Name of a snapshot that is not whole yet.
const UNFINISHED: &str = "unfinished";
/// Bytes of a frame, about.
const FRAME: usize = 1 << 20;

/// A snapshot that is being written.
pub struct Snapshot {
    file: Box<dyn DiskFile>,
    at: u64,
    number: u64,
    frame: Vec<u8>,
    name: String,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Begins one of what comes before frame `below`.
    ///
    /// # Errors
    /// The disk's.
    pub fn begin(disk: &dyn Disk, head: &[u8], below: u64) -> Result<Snapshot> {
        let name = snapshot_name(below);
        let mut file = disk.create(UNFINISHED, 0).map_err(failed("making", disk, &name))?;
        let framed = frame::framed(What::Head, 1, head);
        file.write(0, &framed).map_err(failed("writing", disk, &name))?;
        let mut frame = Vec::new();
        frame::begin(&mut frame);
        Ok(Snapshot { file, at: framed.len() as u64, number: 1, frame, name })
    }

    /// The frame that is gathered, to which records are appended; [`gathered`](Self::gathered) follows.
    pub fn frame(&mut self) -> &mut Vec<u8> {
        &mut self.frame
    }

    /// Writes the frame if it is long enough.
    ///
    /// # Errors
    /// The disk's.
    pub fn gathered(&mut self, disk: &dyn Disk) -> Result<()> {
        if self.frame.len() >= FRAME { self.write(disk, What::Records) } else { Ok(()) }
    }

    fn write(&mut self, disk: &dyn Disk, what: What) -> Result<()> {
        frame::end(&mut self.frame, what, self.number);
        self.file.write(self.at, &self.frame).map_err(failed("writing", disk, &self.name))?;
        self.at += self.frame.len() as u64;
        self.number += 1;
        frame::begin(&mut self.frame);
        Ok(())
    }

    /// Ends it: flushed and named, it takes the place of files, which are removed. Its bytes.
    ///
    /// # Errors
    /// The disk's.
    pub fn end(mut self, disk: &dyn Disk) -> Result<u64> {
        if self.frame.len() > frame::HEAD {
            self.write(disk, What::Records)?;
        }
        self.write(disk, What::End)?;
        self.file.flush().map_err(failed("flushing", disk, &self.name))?;
        let named = disk.rename(UNFINISHED, &self.name).and_then(|()| disk.sync());
        named.map_err(failed("naming", disk, &self.name))?;
        remove_superseded(disk)?;
        Ok(self.at)
    }
}

/// Removes files that the newest snapshot takes the place of, and one that is not whole.
///
/// # Errors
/// The disk's.
pub fn remove_superseded(disk: &dyn Disk) -> Result<()> {
    let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
    for name in superseded(&names) {
        disk.remove(&name).map_err(failed("removing", disk, &name))?;
    }
    if names.iter().any(|name| name == UNFINISHED) {
        // One that a process which was killed has left.
        disk.remove(UNFINISHED).map_err(failed("removing", disk, UNFINISHED))?;
    }
    Ok(())
}
