//! The kind *virtual user space*: memory that a program can use. To make one is to
//! allocate, to destroy it is to free.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use kumiki_sys::shm::{Anon, Huge, Populate};

use crate::error::{Error, Result};
use crate::frames::{FRAME, Frames};
use crate::handle::Handle;
use crate::id::Place;
use crate::interface::Interface;
use crate::kind::{About, Kind};
use crate::page;
use crate::region::{Backing, Region, RegionSpec};
use crate::space::{AddressRange, Attached, Space};

/// Memory at an address. Of up to 4 KiB it is a frame of its core, which needs no system
/// call; a region [attached](Interface::attach) to a space is one, too.
#[derive(Debug)]
pub struct UserSpace {
    of: Of,
    bytes: usize,
}

#[derive(Debug)]
enum Of {
    Frame(NonNull<u8>),
    Memory(Anon),
    Attached(Attached),
}

// SAFETY: memory is its user's, whichever thread that is.
unsafe impl Send for UserSpace {}

/// The memory of a user space to be made.
#[derive(Debug)]
pub struct UserSpaceSpec(SpaceSource);

#[derive(Debug)]
enum SpaceSource {
    Memory(usize),
    Attached { region: Arc<Backing>, part: AddressRange, write: bool },
}

impl UserSpaceSpec {
    /// Asks for new memory, of any content; bytes are rounded up to whole pages.
    pub fn memory(bytes: usize) -> Self {
        UserSpaceSpec(SpaceSource::Memory(bytes))
    }

    /// Asks for an attachment of a region to a space, both at hand: what
    /// [`Interface::attach`] asks for of those at other places.
    ///
    /// # Errors
    /// No room in the space.
    pub fn attached(region: &Region, space: &mut Space, how: Attach) -> Result<Self> {
        UserSpaceSpec::of(region.backing(), space, how)
    }

    fn of(region: Arc<Backing>, space: &mut Space, how: Attach) -> Result<Self> {
        let part = space.part(&region, how.offset, how.write)?;
        Ok(UserSpaceSpec(SpaceSource::Attached { region, part, write: how.write }))
    }
}

/// Way in which a region is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Bytes from the space's beginning, a multiple of 4096, or of the region's huge pages
    /// (the space begins at such an address if it is as large as one); where there is room
    /// if not said.
    pub offset: Option<usize>,
    /// True if it may be written.
    pub write: bool,
}

impl Default for Attach {
    fn default() -> Self {
        Attach { offset: None, write: true }
    }
}

/// A place's frames for user spaces.
#[derive(Debug)]
pub struct UserSpacePool(ManuallyDrop<Frames>);

impl Drop for UserSpacePool {
    fn drop(&mut self) {
        // SAFETY: the field is used no more.
        page::leave(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl Kind for UserSpace {
    const NAME: &'static str = "user-space";
    type Spec = UserSpaceSpec;
    type Pool = UserSpacePool;

    fn pool(_: Place) -> Result<UserSpacePool> {
        Ok(UserSpacePool(ManuallyDrop::new(page::enter())))
    }

    fn create(UserSpaceSpec(wanted): UserSpaceSpec, pool: &mut UserSpacePool) -> Result<Self> {
        match wanted {
            SpaceSource::Memory(1..=FRAME) => {
                Ok(UserSpace { of: Of::Frame(pool.0.take_own()?), bytes: FRAME })
            }
            SpaceSource::Memory(bytes) => {
                let memory = Anon::new(bytes, Huge::Policy, Populate::OnTouch)?;
                Ok(UserSpace { bytes: memory.len(), of: Of::Memory(memory) })
            }
            SpaceSource::Attached { region, part, write } => {
                if write && !region.is_writable() {
                    return Err(kind(
                        "the region's file is open for reading alone: attach it without \
                         writing, or open the file for writing, too"
                            .to_owned(),
                    ));
                }
                let attached = part.attach(region, write)?;
                Ok(UserSpace { bytes: attached.bytes(), of: Of::Attached(attached) })
            }
        }
    }

    fn destroy(self, pool: &mut UserSpacePool) {
        if let Of::Frame(frame) = self.of {
            // SAFETY: taken from this pool in `create`; with `self` its last user goes.
            unsafe { pool.0.give(frame) };
        }
    }

    fn about(&self) -> About {
        let state = match &self.of {
            Of::Frame(_) | Of::Memory(_) => "memory",
            Of::Attached(attached) if attached.is_writable() => "attached",
            Of::Attached(_) => "attached, read-only",
        };
        About { state: state.to_owned(), bytes: self.bytes as u64 }
    }
}

impl UserSpace {
    /// Its first byte. Valid for [`len`](Self::len) bytes until it is destroyed, which is
    /// the caller's to know. Of an attached region others may write at any time.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        match &self.of {
            Of::Frame(frame) => frame.as_ptr(),
            Of::Memory(memory) => memory.as_ptr(),
            Of::Attached(attached) => attached.start().as_ptr(),
        }
    }

    /// Number of its bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Copies out what is at `offset`. Others may write meanwhile: then it is half old and
    /// half new.
    ///
    /// # Errors
    /// It ends before.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let cells = self.cells(offset, into.len())?;
        for (byte, cell) in into.iter_mut().zip(cells) {
            *byte = cell.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies `from` to `offset`.
    ///
    /// # Errors
    /// It ends before, or is attached without writing.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let cells = self.cells(offset, from.len())?;
        if matches!(&self.of, Of::Attached(attached) if !attached.is_writable()) {
            return Err(kind("it is attached without writing: attach it so again".to_owned()));
        }
        for (byte, cell) in from.iter().zip(cells) {
            cell.store(*byte, Ordering::Relaxed);
        }
        Ok(())
    }

    fn cells(&self, offset: usize, bytes: usize) -> Result<&[AtomicU8]> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes);
        let end = end.ok_or_else(|| {
            kind(format!(
                "{bytes} bytes at offset {offset} end beyond its {}: choose among those",
                self.bytes
            ))
        })?;
        // SAFETY: there as long as `self`, and used by atomics alone; where it may not be
        // written, `write` does not.
        let all = unsafe { slice::from_raw_parts(self.as_ptr().cast::<AtomicU8>(), self.bytes) };
        Ok(&all[offset..end])
    }
}

impl Interface {
    /// Makes a space of so many bytes that is mapped once over the frames of `place`, those that regions of
    /// [`Frames`](RegionSpec::Frames) are made of, and those to come: a frame has its address from the beginning. So a
    /// region of frames of the same place is attached to it, and detached, without a system call, and without Linux's lock
    /// of the process' addresses, which threads of other cores take in turns.
    ///
    /// It takes addresses, not memory, so that it may be as large as all frames that there may be. What that costs: a part
    /// is not protected. Who still has an address of what was detached sees, and may change, what the frames' next user
    /// has there, where an ordinary space ends the process; and without writing nothing is attached to it.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn space_of_frames(
        &self,
        place: Place,
        unique: Option<&str>,
        bytes: usize,
    ) -> Result<Handle<Space>> {
        // A region of it has the file.
        let region = self.create::<Region>(place, None, RegionSpec::Frames(1))?;
        let file = self.with(&region, |region, _| region.backing().frames_file());
        self.destroy(region)?;
        let file = file?.ok_or_else(|| kind("a region of frames has no file".to_owned()))?;
        let space = self.create::<Space>(place, unique, bytes)?;
        match self.with(&space, move |space, ()| space.map_frames(file)).and_then(|mapped| mapped) {
            Ok(()) => Ok(space),
            Err(error) => {
                self.destroy(space)?;
                Err(error)
            }
        }
    }

    /// Attaches a region to a space: a user space at `place`, which sees the region's bytes
    /// until it is destroyed. The three may be of different places. What is stored here
    /// with Release is seen by who loads it with Acquire at any other attachment, in any
    /// process.
    ///
    /// # Errors
    /// As [`create`](Self::create) for the user space, and as [`with`](Self::with) for the
    /// other two; no room in the space; writing to what was opened for reading alone.
    pub fn attach(
        &self,
        place: Place,
        unique: Option<&str>,
        region: &Handle<Region>,
        space: &Handle<Space>,
        how: Attach,
    ) -> Result<Handle<UserSpace>> {
        let region = self.with(region, |region, _| region.backing())?;
        let of = move |space: &mut Space, (): &mut ()| UserSpaceSpec::of(region, space, how);
        let spec = self.with(space, of)??;
        self.create(place, unique, spec)
    }
}

fn kind(text: String) -> Error {
    Error::Kind { kind: UserSpace::NAME, text }
}
