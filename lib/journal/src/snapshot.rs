//! A snapshot: what closed logs come to, in a file of its own that takes their place.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile, failed};
use crate::error::Result;
use crate::files::{LONGER, SPARE, snapshot_name, superseded};
use crate::frame::{self, Salt, What};

/// Name of a snapshot that is not whole yet.
const UNFINISHED: &str = "unfinished";
/// Bytes of a frame, about.
const FRAME: usize = 1 << 20;
/// Bytes that are written before they are flushed, about: one flush of all of them would take as long as the disk
/// likes, in which a log's flushes wait behind it, and whoever is to end.
const UNFLUSHED: u64 = 32 << 20;

/// A snapshot that is being written. One that is dropped before its end goes from the disk: it would take the room
/// that the log may need.
pub struct Snapshot {
    disk: Arc<dyn Disk>,
    file: Box<dyn DiskFile>,
    at: u64,
    /// Bytes up to here are flushed.
    flushed: u64,
    number: u64,
    salt: Salt,
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
    pub fn begin(disk: &Arc<dyn Disk>, head: &[u8], below: u64) -> Result<Snapshot> {
        let (name, salt) = (snapshot_name(below), Salt::drawn()?);
        let framed = frame::head(1, head, salt)?;
        let file = disk.create(UNFINISHED, 0).map_err(failed("making", &**disk, &name))?;
        let mut frame = Vec::new();
        frame::begin(&mut frame);
        let (disk, at) = (Arc::clone(disk), framed.len() as u64);
        let (flushed, number) = (0, 1);
        let mut snapshot = Snapshot { disk, file, at, flushed, number, salt, frame, name };
        let headed = snapshot.file.write(0, &framed);
        headed.map_err(failed("writing", &*snapshot.disk, &snapshot.name))?;
        Ok(snapshot)
    }

    /// The frame that is gathered, to which records are appended; [`gathered`](Self::gathered) follows.
    pub fn frame(&mut self) -> &mut Vec<u8> {
        &mut self.frame
    }

    /// Writes the frame if it is long enough.
    ///
    /// # Errors
    /// The disk's.
    pub fn gathered(&mut self) -> Result<()> {
        if self.frame.len() >= FRAME { self.write(What::Records) } else { Ok(()) }
    }

    fn write(&mut self, what: What) -> Result<()> {
        frame::end(&mut self.frame, what, self.number, self.salt)?;
        let written = self.file.write(self.at, &self.frame);
        written.map_err(failed("writing", &*self.disk, &self.name))?;
        self.at += self.frame.len() as u64;
        self.number += 1;
        frame::begin(&mut self.frame);
        if self.at - self.flushed >= UNFLUSHED { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(failed("flushing", &*self.disk, &self.name))?;
        self.flushed = self.at;
        Ok(())
    }

    /// Ends it: flushed and named, it takes the place of files, which are removed. Its bytes.
    ///
    /// # Errors
    /// The disk's.
    pub fn end(mut self) -> Result<u64> {
        if self.frame.len() > frame::HEAD {
            self.write(What::Records)?;
        }
        self.write(What::End)?;
        self.flush()?;
        let disk = &*self.disk;
        let named = disk.rename(UNFINISHED, &self.name).and_then(|()| disk.sync());
        named.map_err(failed("naming", disk, &self.name))?;
        remove_superseded(disk)?;
        Ok(self.at)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // One that has ended has another name by now.
        let _ = self.disk.remove(UNFINISHED);
    }
}

/// Removes files that the newest snapshot takes the place of.
///
/// # Errors
/// The disk's.
fn remove_superseded(disk: &dyn Disk) -> Result<()> {
    let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
    for name in superseded(&names) {
        disk.remove(&name).map_err(failed("removing", disk, &name))?;
    }
    Ok(())
}

/// Removes what a process that was killed has left: files made ahead, a snapshot that is not whole, and files that
/// the newest snapshot takes the place of. It is for who has read all files, and so knows that the folder is its own.
///
/// # Errors
/// The disk's.
pub fn sweep(disk: &dyn Disk) -> Result<()> {
    let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
    let left = [SPARE, LONGER, UNFINISHED].into_iter();
    for name in left.filter(|own| names.iter().any(|name| name == own)) {
        disk.remove(name).map_err(failed("removing", disk, name))?;
    }
    // Its name may be in the machine's memory alone.
    disk.sync().map_err(failed("keeping the names in", disk, ""))?;
    remove_superseded(disk)
}
