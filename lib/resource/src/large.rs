//! The kind *real memory* of 2 MiB frames.

use kumiki_sys::shm::{Anon, Huge, Populate};

use crate::error::{Error, Result};
use crate::id::Place;
use crate::kind::{About, Kind};
use crate::share::Share;

/// Bytes of a large frame.
pub const LARGE_FRAME_BYTES: usize = 2 << 20;
/// Free frames that a place keeps; more go back to the system.
const KEPT: usize = 64;
/// The most frames of one resource: 1 TiB.
const MOST: usize = 1 << 19;

/// Some frames of 2 MiB: huge pages, where the system has them, of the memory nearest to
/// the core. Frames are separate: each has its own bytes.
#[derive(Debug)]
pub struct LargeMemory {
    frames: Vec<Anon>,
}

/// A place's large frames.
#[derive(Debug)]
pub struct LargeMemoryPool {
    free: Vec<Anon>,
    share: Share,
}

impl LargeMemoryPool {
    /// Memory that it has and nobody uses, bytes.
    pub fn free_bytes(&self) -> usize {
        self.free.len() * LARGE_FRAME_BYTES
    }

    fn take(&mut self) -> Result<Anon> {
        if let Some(frame) = self.free.pop() {
            return Ok(frame);
        }
        // Filled by the owner, on its cpu, which by Linux' rule takes memory of its node.
        let frame = match Anon::new(LARGE_FRAME_BYTES, Huge::Transparent, Populate::Now) {
            Err(kumiki_sys::Error::Unsupported { .. }) => {
                Anon::new(LARGE_FRAME_BYTES, Huge::Policy, Populate::Now)
            }
            other => other,
        };
        Ok(frame?)
    }

    fn give(&mut self, frames: Vec<Anon>) {
        let room = KEPT.saturating_sub(self.free.len());
        self.free.extend(frames.into_iter().take(room));
    }
}

impl Kind for LargeMemory {
    const NAME: &'static str = "memory-2m";
    /// The number of frames.
    type Spec = usize;
    type Pool = LargeMemoryPool;

    fn pool(_: Place) -> Result<LargeMemoryPool> {
        Ok(LargeMemoryPool { free: Vec::new(), share: Share::ALL })
    }

    fn create(count: usize, pool: &mut LargeMemoryPool) -> Result<LargeMemory> {
        if !(1..=MOST).contains(&count) {
            let text = format!("{count} frames of {LARGE_FRAME_BYTES} bytes: ask for 1 to {MOST}");
            return Err(Error::Kind { kind: Self::NAME, text });
        }
        let bytes = (count * LARGE_FRAME_BYTES) as u64;
        pool.share.take(Self::NAME, bytes)?;
        let mut frames = Vec::new();
        for _ in 0..count {
            match pool.take() {
                Ok(frame) => frames.push(frame),
                Err(error) => {
                    pool.share.give(bytes);
                    pool.give(frames);
                    return Err(error);
                }
            }
        }
        Ok(LargeMemory { frames })
    }

    fn limit(pool: &mut LargeMemoryPool, bytes: u64) -> Result<()> {
        pool.share.limit(bytes);
        Ok(())
    }

    fn destroy(self, pool: &mut LargeMemoryPool) {
        pool.share.give((self.frames.len() * LARGE_FRAME_BYTES) as u64);
        pool.give(self.frames);
    }

    fn about(&self) -> About {
        let count = self.frames.len();
        About { state: format!("{count} frames"), bytes: (count * LARGE_FRAME_BYTES) as u64 }
    }
}

impl LargeMemory {
    /// Number of its frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The bytes of one frame, of any content at first: what its last user left.
    pub fn frame(&mut self, at: usize) -> Option<&mut [u8; LARGE_FRAME_BYTES]> {
        let frame = self.frames.get(at)?.as_ptr().cast::<[u8; LARGE_FRAME_BYTES]>();
        // SAFETY: this value's alone, of zeros from the system or written since.
        unsafe { frame.as_mut() }
    }
}
