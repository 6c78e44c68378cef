//! The files of a log: the one that is written, and one made ahead, so that there is room before anything runs.

use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, failed, is_full, no_room};
use crate::error::Result;
use crate::files::{Found, LONGER, SPARE, end_former, log_name};
use crate::frame::{self, Salt, What};

/// Bytes of a frame beside its payload, and of the one that says which file follows, at most.
const BESIDE: u64 = 64;

/// Files of a log.
pub struct Segments {
    disk: Arc<dyn Disk>,
    head: Vec<u8>,
    /// Bytes of a file.
    bytes: u64,
    now: Segment,
    /// The file that is made ahead, and its bytes.
    spare: Option<(Box<dyn DiskFile>, u64)>,
    /// Number of the next frame.
    next: u64,
    frame: Vec<u8>,
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segments").field("next", &self.next).finish_non_exhaustive()
    }
}

/// The file that is written.
struct Segment {
    name: String,
    first: u64,
    file: Box<dyn DiskFile>,
    at: u64,
    bytes: u64,
    salt: Salt,
}

impl Segments {
    /// Begins a file behind what was found, and has the log before it say which one follows: it is missed from then on.
    ///
    /// # Errors
    /// The disk's.
    pub fn behind(disk: &Arc<dyn Disk>, head: Vec<u8>, found: &Found) -> Result<Segments> {
        let segments = Segments::begin(disk, head, found.next)?;
        end_former(&**disk, found)?;
        Ok(segments)
    }

    /// Begins a file whose first frame has number `next`; each file has this head.
    ///
    /// # Errors
    /// The disk's.
    pub fn begin(disk: &Arc<dyn Disk>, head: Vec<u8>, next: u64) -> Result<Segments> {
        let bytes = disk.file_bytes();
        let now = Segment::begin(&**disk, &head, next, None, bytes);
        let now = now.map_err(no_room(&**disk, bytes))?;
        let disk = Arc::clone(disk);
        Ok(Segments { disk, head, bytes, now, spare: None, next, frame: Vec::new() })
    }

    /// Number of the first frame of the file that is written: what comes before it is closed.
    pub fn first(&self) -> u64 {
        self.now.first
    }

    /// Bytes of the file that is written, up to its last flushed frame.
    pub fn written(&self) -> u64 {
        self.now.at
    }

    /// True if there is a frame in the file that is written.
    pub fn has_frames(&self) -> bool {
        self.next > self.now.first
    }

    /// Bytes of a file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if there is a file ahead.
    pub fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// Makes the file ahead, if there is none.
    ///
    /// # Errors
    /// The system's: no room, say.
    pub fn prepare(&mut self) -> io::Result<()> {
        match self.spare {
            Some(_) => Ok(()),
            None => self.make_spare(self.bytes),
        }
    }

    /// Sees to it that a frame of so many bytes of payload has room, whatever comes.
    ///
    /// # Errors
    /// The system's: no room, say. What is there stays.
    pub fn prepare_for(&mut self, payload: u64) -> io::Result<()> {
        if payload <= self.fits() {
            return Ok(());
        }
        frame::length(payload).map_err(io::Error::other)?;
        self.make_spare(self.bytes.max(self.whole(payload)))
    }

    /// Sees to it that a frame of so many bytes of payload has room in the file ahead, so that the present one can be closed.
    /// Where the disk has no room for a file of the usual size, this one is no larger than that: what takes the place of
    /// the closed ones is what makes room.
    ///
    /// # Errors
    /// The system's: no room, say. What is there stays.
    pub fn prepare_ahead(&mut self, payload: u64) -> io::Result<()> {
        if self.spare.is_some() && payload <= self.fits_ahead() {
            return Ok(());
        }
        frame::length(payload).map_err(io::Error::other)?;
        let whole = self.whole(payload);
        match self.make_spare(self.bytes.max(whole)) {
            Err(error) if is_full(&error) && whole < self.bytes => self.make_spare(whole),
            made => made,
        }
    }

    /// Bytes of payload for which a frame has room, whatever comes: one stands in one file.
    pub fn fits(&self) -> u64 {
        let now = self.now.bytes.saturating_sub(self.now.at);
        now.saturating_sub(BESIDE).min(frame::MOST).max(self.fits_ahead())
    }

    /// Bytes of payload for which a frame has room in the file ahead.
    pub fn fits_ahead(&self) -> u64 {
        let spare = self.spare.as_ref().map_or(0, |(_, bytes)| *bytes);
        spare.saturating_sub(self.whole(0)).min(frame::MOST)
    }

    /// Bytes of a file that has a frame of so many bytes of payload.
    fn whole(&self, payload: u64) -> u64 {
        payload + BESIDE + frame::head_size(self.head.len()) as u64
    }

    fn make_spare(&mut self, bytes: u64) -> io::Result<()> {
        if self.spare.is_none() {
            self.spare = Some((self.disk.create(SPARE, bytes)?, bytes));
            return Ok(());
        }
        // One that is too small stays until there is another.
        let file = self.disk.create(LONGER, bytes)?;
        let named = self.disk.rename(LONGER, SPARE).and_then(|()| self.disk.sync());
        named.inspect_err(|_| _ = self.disk.remove(LONGER))?;
        self.spare = Some((file, bytes));
        Ok(())
    }

    /// Writes a frame of these records, and returns when they are flushed; the bytes that were closed if a new file was
    /// begun for it. After an error nobody knows what there is: nothing more is written.
    ///
    /// # Errors
    /// The disk's.
    pub fn write(&mut self, records: &[impl AsRef<[u8]>]) -> Result<Option<u64>> {
        // Before they are copied.
        let payload = records.iter().map(|record| record.as_ref().len() as u64).sum();
        let bytes = frame::size(frame::length(payload)? as usize) as u64;
        // Behind the last one there is room for the frame that says which file follows.
        let least = bytes + frame::size(0) as u64;
        let closed = match self.now.at + least > self.now.bytes {
            true => Some(self.another(least)?),
            false => None,
        };
        let (disk, now) = (&*self.disk, &mut self.now);
        frame::begin(&mut self.frame);
        records.iter().for_each(|record| self.frame.extend_from_slice(record.as_ref()));
        frame::end(&mut self.frame, What::Records, self.next, now.salt)?;
        now.file.write(now.at, &self.frame).map_err(failed("writing", disk, &now.name))?;
        now.file.flush().map_err(failed("flushing", disk, &now.name))?;
        now.at += bytes;
        self.next += 1;
        Ok(closed)
    }

    /// Begins another file, with room for so many bytes; the bytes of the one that is closed.
    ///
    /// # Errors
    /// The disk's.
    pub fn another(&mut self, least: u64) -> Result<u64> {
        let least = least + frame::head_size(self.head.len()) as u64;
        let spare = self.spare.take().filter(|(_, bytes)| *bytes >= least);
        let room = self.bytes.max(least);
        let next = Segment::begin(&*self.disk, &self.head, self.next, spare, room)?;
        let mut last = std::mem::replace(&mut self.now, next);
        let closed = last.at;
        last.end(&*self.disk, What::Next, self.next, &[])?;
        Ok(closed)
    }

    /// Says that the process has ended by itself.
    ///
    /// # Errors
    /// The disk's.
    pub fn end(&mut self) -> Result<()> {
        self.ended(What::End, &[])
    }

    /// Says that all has left for another folder, with a word about that: who reads the files finds it, and goes on
    /// there alone. It returns when that is flushed.
    ///
    /// # Errors
    /// The disk's.
    pub fn leave(&mut self, word: &[u8]) -> Result<()> {
        self.ended(What::Left, word)
    }

    fn ended(&mut self, what: What, word: &[u8]) -> Result<()> {
        self.now.end(&*self.disk, what, self.next, word)?;
        if self.spare.take().is_some() {
            self.disk.remove(SPARE).map_err(failed("removing", &*self.disk, SPARE))?;
        }
        Ok(())
    }
}

/// Makes a log that says no more than that all has left for another folder, with a word about that: the folder has
/// nothing else. It returns when that is flushed. It takes no more room than that.
///
/// # Errors
/// The disk's.
pub fn say_left(disk: &dyn Disk, head: &[u8], word: &[u8]) -> Result<()> {
    Segment::begin(disk, head, 1, None, 0)?.end(disk, What::Left, 1, word)
}

impl Segment {
    fn begin(
        disk: &dyn Disk,
        head: &[u8],
        first: u64,
        spare: Option<(Box<dyn DiskFile>, u64)>,
        bytes: u64,
    ) -> Result<Segment> {
        let (name, salt) = (log_name(first), Salt::drawn()?);
        let head = frame::head(first, head, salt)?;
        let (mut file, bytes) = match spare {
            Some(spare) => spare,
            None => (disk.create(SPARE, bytes).map_err(failed("making", disk, &name))?, bytes),
        };
        let at = head.len() as u64;
        let written = file.write(0, &head).map_err(failed("writing", disk, &name));
        let flushed = written.and_then(|()| file.flush().map_err(failed("flushing", disk, &name)));
        if let Err(error) = flushed {
            // Whoever makes room on this disk is not to look for what has taken it.
            let _ = disk.remove(SPARE);
            return Err(error);
        }
        // It has its name when its head is whole.
        let renamed = disk.rename(SPARE, &name).and_then(|()| disk.sync());
        renamed.map_err(failed("naming", disk, &name))?;
        Ok(Segment { name, first, file, at, bytes, salt })
    }

    /// Says what follows the last frame, and gives back what was not used.
    fn end(&mut self, disk: &dyn Disk, what: What, number: u64, word: &[u8]) -> Result<()> {
        self.append(disk, what, number, word)?;
        if what == What::Left {
            // Behind the last word, and only when that is flushed: if the word is not what it was any more, this one
            // says that something was there. A word that was being written has nothing behind it.
            self.append(disk, What::End, number + 1, &[])?;
        }
        Ok(())
    }

    fn append(&mut self, disk: &dyn Disk, what: What, number: u64, word: &[u8]) -> Result<()> {
        let framed = frame::framed(what, number, word, self.salt)?;
        self.file.write(self.at, &framed).map_err(failed("writing", disk, &self.name))?;
        let end = self.at + framed.len() as u64;
        self.file.end(end).map_err(failed("ending", disk, &self.name))?;
        self.file.flush().map_err(failed("flushing", disk, &self.name))?;
        self.at = end;
        Ok(())
    }
}
