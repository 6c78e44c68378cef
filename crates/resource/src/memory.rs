//! The kind *real memory*: frames of a place's own pool.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::error::{Error, Result};
use crate::frames::{FRAME, Frames};
use crate::id::Place;
use crate::kind::{About, Kind};
use crate::page;

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
pub struct MemoryPool(ManuallyDrop<Frames>);

impl Drop for MemoryPool {
    fn drop(&mut self) {
        // SAFETY: the field is used no more.
        page::leave(unsafe { ManuallyDrop::take(&mut self.0) });
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
        Ok(MemoryPool(ManuallyDrop::new(page::enter())))
    }

    #[inline]
    fn create(count: usize, pool: &mut MemoryPool) -> Result<Memory> {
        if !(1..=MOST).contains(&count) {
            let text = format!("{count} frames of {FRAME} bytes: ask for 1 to {MOST}");
            return Err(Error::Kind { kind: Self::NAME, text });
        }
        if count == 1 {
            return pool.0.take_own().map(|frame| Memory(Held::One(frame)));
        }
        let mut frames = Vec::with_capacity(count);
        while frames.len() < count {
            match pool.0.take_own() {
                Ok(frame) => frames.push(frame),
                Err(error) => {
                    Memory(Held::Many(frames.into())).destroy(pool);
                    return Err(error);
                }
            }
        }
        Ok(Memory(Held::Many(frames.into())))
    }

    #[inline]
    fn destroy(self, pool: &mut MemoryPool) {
        for &frame in self.frames() {
            // SAFETY: taken from this pool in `create`; with `self` its last user goes.
            unsafe { pool.0.give(frame) };
        }
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

    /// How many frames it has.
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
        self.0.bytes()
    }
}
