//! The folder that a place is taken into: it has no place, but may say that one has left it, and says so again where
//! nothing comes of the move.
//!
//! ```text
//!  nothing, or *left* ── `arriving` is flushed ──▶ refused ── cleared, copied ──▶ the place (`arriving` goes last)
//!         ▲                                                        │
//!         ╰── *left* is flushed, then `arriving` goes ◀── refused, or the disk's error
//! ```
//!
//! Whoever is killed between leaves `arriving` behind, which is refused: a part of what a former place has left is
//! never served as if it were all.

use kumiki_journal::{Disk, failed, say_left};

use crate::durable::ARRIVING;
use crate::durable::load::{Loaded, load};
use crate::error::{Error, Result};
use crate::place::keeping::arriving;

/// A folder into which a place is taken.
pub(crate) struct Arrival<'a> {
    disk: &'a dyn Disk,
    former: Option<Former>,
}

/// Place that has left the folder.
struct Former {
    /// Head of its last file.
    head: Vec<u8>,
    /// Its last word: where it went.
    word: Vec<u8>,
}

impl<'a> Arrival<'a> {
    /// Sees to it that the folder has no place, but for one that has left it, and that nothing is served from it from
    /// here on. Nothing of it has gone yet.
    pub(crate) fn begin(place: &str, disk: &'a dyn Disk) -> Result<Arrival<'a>> {
        let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
        if names.iter().any(|name| name == ARRIVING) {
            return Err(arriving(place, disk));
        }
        let Loaded { head, found, .. } = load(disk)?;
        let former = match (head, found.left) {
            (Some(head), Some(word)) => Some(Former { head: head.written()?, word }),
            (Some(_), None) => {
                let folder = disk.name();
                let why =
                    format!("{folder} has a place already: serve that, or name another folder");
                return Err(Error::NotDurable { place: place.to_owned(), why });
            }
            (None, _) => None,
        };
        let mark = disk.create(ARRIVING, 0).and_then(|mut file| file.flush());
        let mark = mark.and_then(|()| disk.sync());
        mark.inspect_err(|_| _ = disk.remove(ARRIVING))
            .map_err(failed("making", disk, ARRIVING))?;
        Ok(Arrival { disk, former })
    }

    /// Removes all files but the mark.
    pub(crate) fn clear(&self) -> Result<()> {
        let names = self.disk.list().map_err(failed("reading the folder", self.disk, ""))?;
        for name in names.iter().filter(|name| *name != ARRIVING) {
            self.disk.remove(name).map_err(failed("removing", self.disk, name))?;
        }
        Ok(self.disk.sync().map_err(failed("clearing", self.disk, ""))?)
    }

    /// The place is here.
    pub(crate) fn end(&self) -> Result<()> {
        let done = self.disk.remove(ARRIVING).and_then(|()| self.disk.sync());
        Ok(done.map_err(failed("keeping", self.disk, ARRIVING))?)
    }

    /// Gives up, as the place has not come: the folder says what it said before. Where that cannot be written the mark stays.
    pub(crate) fn give_up(&self) -> Result<()> {
        self.clear()?;
        if let Some(Former { head, word }) = &self.former {
            say_left(self.disk, head, word)?;
        }
        self.end()
    }
}
