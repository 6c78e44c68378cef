//! Files that a worker keeps open for the next request of the same name.
//!
//! ```text
//!  path ─▶ kept? ── no ─▶ opened beneath the folder, and kept
//!            │ yes: statx(path): is it the same file, of the same time?
//!            ├─ yes ─▶ read by the descriptor that there is
//!            └─ no ──▶ closed, and opened anew
//! ```
//!
//! One statx(2) takes the place of openat2(2), statx(2) and close(2). It is asked at each request, by
//! the name, so what is answered is what the name leads to at that time, and as whoever asked may
//! reach it: nothing is believed for a while, as caches of descriptors do. Device, inode, length,
//! mode and the times of change must be the same; whatever replaces a file, changes it or forbids it
//! changes one of them.
//!
//! The walk of that path does not sleep: a file that is open keeps the names on its way in memory as
//! long as it has them, and only file systems that ask no server are kept. A link on the way is not
//! kept so, but was in memory [`BELIEVED`] ago at most. The statx follows links that
//! `RESOLVE_BENEATH` may not; but what it has found must be the very file that was opened beneath the
//! folder, and after [`BELIEVED`] it is opened anew.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kumiki_parasc::op::Attributes;
use rustix::fs::{AtFlags, Statx, StatxFlags, statx};

use crate::described::Described;
use crate::held::Held;
use crate::site::Candidate;

/// Time that a file is kept after it was opened: so long a file system cannot be unmounted, and a
/// file that was deleted takes room on its disk.
const BELIEVED: Duration = Duration::from_secs(10);
/// Bytes of memory that is given back and kept for the next file, at most.
const MOST_ROOM: usize = 256 * 1024;

/// Files of one worker.
#[derive(Debug)]
pub(crate) struct KeptFiles {
    files: HashMap<CString, KeptFile>,
    most: usize,
    /// Memory for what is read of them, and sent before the next one is.
    room: Vec<u8>,
}

#[derive(Debug)]
struct KeptFile {
    file: Arc<Held>,
    attributes: Attributes,
    /// Description, from the first request on that finds it here.
    described: Option<Arc<Described>>,
    opened: Instant,
}

impl KeptFiles {
    /// None yet, and so many at most.
    pub(crate) fn new(most: usize) -> Self {
        KeptFiles { files: HashMap::new(), most, room: Vec::new() }
    }

    /// The file of this name, if it is still what the name leads to.
    pub(crate) fn find(
        &mut self,
        folder: impl AsFd,
        candidate: &Candidate,
        now: Instant,
    ) -> Option<(Arc<Held>, Attributes, Arc<Described>)> {
        let path = &*candidate.path;
        let entry = self.files.get_mut(path)?;
        let is_fresh = now.saturating_duration_since(entry.opened) < BELIEVED;
        if is_fresh && is_same(&entry.attributes, folder, path) {
            let of = |it: &Arc<Described>| it.encoding == candidate.encoding;
            let described = match entry.described.clone().filter(of) {
                Some(described) => described,
                None => Arc::new(Described::of(&entry.attributes, candidate, true)),
            };
            entry.described = Some(Arc::clone(&described));
            return Some((Arc::clone(&entry.file), entry.attributes, described));
        }
        self.files.remove(path);
        None
    }

    /// Keeps a file that this name, beneath the folder, has led to just now.
    pub(crate) fn keep(
        &mut self,
        path: CString,
        file: &Arc<Held>,
        attributes: &Attributes,
        now: Instant,
    ) {
        if file.asks_nobody() && self.files.len() < self.most {
            let (file, attributes) = (Arc::clone(file), *attributes);
            let entry = KeptFile { file, attributes, described: None, opened: now };
            self.files.insert(path, entry);
        }
    }

    /// Memory of so many bytes, which may be anything.
    pub(crate) fn room(&mut self, bytes: usize) -> Vec<u8> {
        let mut room = std::mem::take(&mut self.room);
        match room.len() < bytes {
            true => room.resize(bytes, 0),
            false => room.truncate(bytes),
        }
        room
    }

    /// Gives memory back.
    pub(crate) fn give_back(&mut self, room: Vec<u8>) {
        // A folder's page may be a hundred times as large as what is read of a file.
        if room.capacity() > self.room.capacity() && room.capacity() <= MOST_ROOM {
            self.room = room;
        }
    }

    /// Closes those that are old.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.files.retain(|_, entry| now.saturating_duration_since(entry.opened) < BELIEVED);
    }

    /// Closes all; `false` if there was none.
    pub(crate) fn clear(&mut self) -> bool {
        let some = !self.files.is_empty();
        self.files.clear();
        some
    }
}

/// True if the path leads to the file that these are of, and that has not changed.
fn is_same(of: &Attributes, folder: impl AsFd, path: &CStr) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let Ok(now) = statx(folder, path, flags, StatxFlags::BASIC_STATS) else { return false };
    let then = of.as_raw();
    let time = |it: &rustix::fs::StatxTimestamp| (it.tv_sec, it.tv_nsec);
    let Statx { stx_dev_major, stx_dev_minor, stx_ino, stx_size, stx_mode, .. } = now;
    (stx_dev_major, stx_dev_minor) == (then.stx_dev_major, then.stx_dev_minor)
        && (stx_ino, stx_size, stx_mode) == (then.stx_ino, then.stx_size, then.stx_mode)
        && time(&now.stx_ctime) == (then.stx_ctime.tv_sec, then.stx_ctime.tv_nsec)
        && time(&now.stx_mtime) == (then.stx_mtime.tv_sec, then.stx_mtime.tv_nsec)
}
