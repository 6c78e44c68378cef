//! The kind *real memory*: frames of a place's own pool.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::error::{Error, Result};
use crate::frames::{FRAME, Frames};
use crate::id::Place;
use crate::kind::{About, Kind};
use crate::page;
use crate::share::Share;

/// Some frames of 4 KiB of one core's memory: near it, in huge pages where the system has
/// them, and never contended. Frames are separate: each has its own bytes.
#[derive(Debug)]
pub struct Memory(Held);

/// One needs no list of its own.
#[derive(Debug)]
enum Held {
    One(NonNull<u8>),
    Many(Box<[NonNull<u8>]>),
}

// SAFETY: frames are their user's, whichever thread that is.
unsafe impl Send for Memory {}

/// A place's frames.
#[derive(Debug)]
pub struct MemoryPool {
    frames: ManuallyDrop<Frames>,
    share: Share,
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        // SAFETY: the field is used no more.
        page::leave(unsafe { ManuallyDrop::take(&mut self.frames) });
    }
}

/// The most frames of one resource: 4 GiB.
const MOST: usize = 1 << 20;

impl Kind for Memory {
    const NAME: &'static str = "memory";
    /// The number of frames.
    type Spec = usize;
    type Pool = MemoryPool;

    fn pool(_: Place) -> Result<MemoryPool> {
        Ok(MemoryPool { frames: ManuallyDrop::new(page::enter()), share: Share::ALL })
    }

    #[inline]
    fn create(count: usize, pool: &mut MemoryPool) -> Result<Memory> {
        if !(1..=MOST).contains(&count) {
            let text = format!("{count} frames of {FRAME} bytes: ask for 1 to {MOST}");
            return Err(Error::Kind { kind: Self::NAME, text });
        }
        let bytes = (count * FRAME) as u64;
        pool.share.take(Self::NAME, bytes)?;
        let made = pool.take(count);
        if made.is_err() {
            pool.share.give(bytes);
        }
        made
    }

    #[inline]
    fn destroy(self, pool: &mut MemoryPool) {
        pool.share.give((self.frames().len() * FRAME) as u64);
        pool.put(self.frames());
    }

    fn limit(pool: &mut MemoryPool, bytes: u64) -> Result<()> {
        pool.share.limit(bytes);
        Ok(())
    }

    fn about(&self) -> About {
        let state = format!("{} frames", self.frames().len());
        About { state, bytes: (self.frames().len() * FRAME) as u64 }
    }
}

impl Memory {
    fn frames(&self) -> &[NonNull<u8>] {
        match &self.0 {
            Held::One(frame) => std::slice::from_ref(frame),
            Held::Many(frames) => frames,
        }
    }

    /// Number of its frames.
    pub fn len(&self) -> usize {
        self.frames().len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.frames().is_empty()
    }

    /// The bytes of one frame, of any content at first: what its last user left.
    pub fn frame(&mut self, at: usize) -> Option<&mut [u8; FRAME]> {
        let frame = self.frames().get(at)?;
        // SAFETY: this value's alone. Its memory is from the system, which has cleared it,
        // or was written since: it has bytes.
        Some(unsafe { frame.cast().as_mut() })
    }
}

impl MemoryPool {
    /// Memory that it has from the system, used or free, bytes.
    pub fn bytes(&self) -> usize {
        self.frames.bytes()
    }

    #[inline]
    fn take(&mut self, count: usize) -> Result<Memory> {
        if count == 1 {
            return self.frames.take_own().map(|frame| Memory(Held::One(frame)));
        }
        let mut frames = Vec::with_capacity(count);
        while frames.len() < count {
            match self.frames.take_own() {
                Ok(frame) => frames.push(frame),
                Err(error) => {
                    self.put(&frames);
                    return Err(error);
                }
            }
        }
        Ok(Memory(Held::Many(frames.into())))
    }

    /// Takes frames back whose last user goes.
    #[inline]
    fn put(&mut self, frames: &[NonNull<u8>]) {
        for &frame in frames {
            // SAFETY: taken from this pool in `take`; nobody uses them any more.
            unsafe { self.frames.give(frame) };
        }
    }
}
