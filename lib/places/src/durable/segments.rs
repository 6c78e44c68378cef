//! The files of a log: the one that is written, and one made ahead, so that there is room before anything runs.

use std::io;
use std::sync::Arc;

use crate::durable::disk::{Disk, DiskFile};
use crate::durable::entry::FileHead;
use crate::durable::frame::{self, What};
use crate::durable::load::{failed, log_name};
use crate::error::{Error, Result};

/// Name of the file that is made ahead.
const SPARE: &str = "spare";

/// Files of a log.
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    head: FileHead,
    /// Bytes of a file.
    bytes: u64,
    now: Segment,
    spare: Option<Box<dyn DiskFile>>,
    /// Number of the next frame.
    next: u64,
    frame: Vec<u8>,
}

/// The file that is written.
struct Segment {
    name: String,
    first: u64,
    file: Box<dyn DiskFile>,
    at: u64,
    bytes: u64,
}

impl Segments {
    /// Begins a file whose first frame has number `next`.
    pub(crate) fn begin(disk: &Arc<dyn Disk>, head: FileHead, next: u64) -> Result<Segments> {
        let bytes = disk.file_bytes();
        let now = Segment::begin(&**disk, &framed_head(&head, next)?, next, None, bytes)?;
        let disk = Arc::clone(disk);
        Ok(Segments { disk, head, bytes, now, spare: None, next, frame: Vec::new() })
    }

    /// Number of the first frame of the file that is written: what comes before it is closed.
    pub(crate) fn first(&self) -> u64 {
        self.now.first
    }

    /// Bytes that can be written without any more room on the disk.
    pub(crate) fn room(&self) -> u64 {
        let spare = if self.spare.is_some() { self.bytes } else { 0 };
        self.now.bytes.saturating_sub(self.now.at) + spare
    }

    /// Bytes of a file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// Makes the file ahead, if there is none.
    pub(crate) fn prepare(&mut self) -> io::Result<()> {
        if self.spare.is_none() {
            self.spare = Some(self.disk.create(SPARE, self.bytes)?);
        }
        Ok(())
    }

    /// Writes a frame of these records, and returns when they are flushed; the bytes that were closed if a new file was
    /// begun for it. After an error nobody knows what there is: nothing more is written.
    pub(crate) fn write(&mut self, records: &[Vec<u8>]) -> Result<Option<u64>> {
        frame::begin(&mut self.frame);
        records.iter().for_each(|record| self.frame.extend_from_slice(record));
        frame::end(&mut self.frame, What::Records, self.next);
        let bytes = self.frame.len() as u64;
        let mut closed = None;
        // Behind the last one there is room for the frame that says which file follows.
        let least = bytes + frame::size(0) as u64;
        if self.now.at + least > self.now.bytes {
            closed = Some(self.now.at);
            let head = framed_head(&self.head, self.next)?;
            let room = self.bytes.max(least + head.len() as u64);
            let spare = self.spare.take().filter(|_| room == self.bytes);
            let next = Segment::begin(&*self.disk, &head, self.next, spare, room)?;
            let mut last = std::mem::replace(&mut self.now, next);
            last.end(&*self.disk, What::Next, self.next)?;
        }
        let (disk, now) = (&*self.disk, &mut self.now);
        now.file.write(now.at, &self.frame).map_err(failed("writing", disk, &now.name))?;
        now.file.flush().map_err(failed("flushing", disk, &now.name))?;
        now.at += bytes;
        self.next += 1;
        Ok(closed)
    }

    /// Says that the place has ended by itself.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.now.end(&*self.disk, What::End, self.next)?;
        if self.spare.take().is_some() {
            self.disk.remove(SPARE).map_err(failed("removing", &*self.disk, SPARE))?;
        }
        Ok(())
    }
}

impl Segment {
    fn begin(
        disk: &dyn Disk,
        head: &[u8],
        first: u64,
        spare: Option<Box<dyn DiskFile>>,
        bytes: u64,
    ) -> Result<Segment> {
        let name = log_name(first);
        let mut file = match spare {
            Some(spare) => spare,
            None => disk.create(SPARE, bytes).map_err(failed("making", disk, &name))?,
        };
        let at = head.len() as u64;
        file.write(0, head).map_err(failed("writing", disk, &name))?;
        file.flush().map_err(failed("flushing", disk, &name))?;
        // It has its name when its head is whole.
        let renamed = disk.rename(SPARE, &name).and_then(|()| disk.sync());
        renamed.map_err(failed("naming", disk, &name))?;
        Ok(Segment { name, first, file, at, bytes })
    }

    /// Says what follows the last frame, and gives back what was not used.
    fn end(&mut self, disk: &dyn Disk, what: What, number: u64) -> Result<()> {
        let mut framed = Vec::new();
        frame::begin(&mut framed);
        frame::end(&mut framed, what, number);
        self.file.write(self.at, &framed).map_err(failed("writing", disk, &self.name))?;
        let end = self.at + framed.len() as u64;
        self.file.end(end).map_err(failed("ending", disk, &self.name))?;
        self.file.flush().map_err(failed("flushing", disk, &self.name))
    }
}

/// A file's first frame.
pub(crate) fn framed_head(head: &FileHead, first: u64) -> Result<Vec<u8>> {
    let mut framed = Vec::new();
    frame::begin(&mut framed);
    rmp_serde::encode::write(&mut framed, head)
        .map_err(|error| Error::of_given("a place's log", &error))?;
    frame::end(&mut framed, What::Head, first);
    Ok(framed)
}

/// Removes what a place that was killed had made ahead.
pub(crate) fn sweep(disk: &dyn Disk, names: &[String]) -> Result<()> {
    match names.iter().any(|name| name == SPARE) {
        true => disk.remove(SPARE).map_err(failed("removing", disk, SPARE)),
        false => Ok(()),
    }
}
