//! 4 KiB frames that one thread owns.
//!
//! # Where a frame is
//!
//! Memory comes in chunks of 2 MiB, aligned to their size and asked for as huge pages;
//! each belongs to one pool, its home, which the chunk's first frame names. So the home of
//! a frame is found from its address alone.
//!
//! ```text
//! pool (one thread)                       home (what others reach)
//!   free   ─▶ frame ─▶ frame ─▶ …           returned ─▶ batch ─▶ batch
//!   fresh  ─▶ never used so far
//!   stock  ─▶ batch that came home         batch: a frame that lists up to 62 others
//!   out    ─▶ batch on its way to another home
//! ```
//!
//! # Who may do what
//!
//! A frame that is handed out is its user's, whichever thread that is. The owner takes and
//! frees by two loads and a store, and no other thread looks at its list. Another thread
//! that frees a frame writes its address into a batch of its own, and gives a full batch
//! home by one exchange (Release) onto the stack `returned`. The owner takes the whole
//! stack by one swap (Acquire) when it has nothing else left. Since only whole stacks are
//! taken, no element can come back while somebody holds an old head.
//!
//! A batch lists addresses instead of linking frames, so that the owner fetches eight
//! cache lines for 63 frames: what the user wrote stays where it is until the frame is
//! used again.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use kumiki_sys::shm::{Anon, Huge, Populate};

use crate::error::Result;

/// Bytes of a frame.
pub(crate) const FRAME: usize = 4096;
/// Bytes of a chunk.
const CHUNK: usize = 2 << 20;
/// Frames that a batch lists beside itself: what eight cache lines hold.
const LISTED: usize = 62;

/// What others reach of a pool. It is never freed: any thread may still hold a frame.
#[derive(Debug)]
#[repr(align(128))]
struct Home {
    returned: AtomicPtr<Batch>,
}

/// The first frame of a chunk.
struct Chunk {
    home: &'static Home,
}

/// A free frame.
struct Free {
    next: *mut Free,
}

/// A frame that lists others.
struct Batch {
    next: *mut Batch,
    count: usize,
    frames: [*mut u8; LISTED],
}

const _: () = assert!(size_of::<Batch>() <= 8 * 64);

/// A pool of frames, one thread's at a time.
#[derive(Debug)]
pub(crate) struct Frames {
    free: *mut Free,
    /// Of the newest chunk, what was never handed out.
    fresh: *mut u8,
    fresh_end: *mut u8,
    stock: *mut Batch,
    out: *mut Batch,
    out_home: *const Home,
    home: &'static Home,
    /// Never unmapped, since frames may be anywhere.
    chunks: usize,
    _thread: PhantomData<*mut ()>,
}

// SAFETY: it may go to another thread as a whole: nobody else uses its lists, and what
// others reach is `home`.
unsafe impl Send for Frames {}

impl Frames {
    pub(crate) fn new() -> Self {
        let home = Box::leak(Box::new(Home { returned: AtomicPtr::default() }));
        let (free, stock, out) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let (fresh, fresh_end) = (ptr::null_mut(), ptr::null_mut());
        let (out_home, chunks, _thread) = (ptr::null(), 0, PhantomData);
        Frames { free, fresh, fresh_end, stock, out, out_home, home, chunks, _thread }
    }

    /// Memory that it has from the system, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks * CHUNK
    }

    /// A frame, of any content.
    ///
    /// # Errors
    /// The system has no memory left.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Result<NonNull<u8>> {
        match NonNull::new(self.free) {
            Some(frame) => {
                // SAFETY: a frame in the list is free, and its first word is the next.
                self.free = unsafe { (*frame.as_ptr()).next };
                Ok(frame.cast())
            }
            None => self.take_other(),
        }
    }

    /// From what came home, from what was never used, or from the system.
    #[inline(never)]
    fn take_other(&mut self) -> Result<NonNull<u8>> {
        if self.stock.is_null() {
            // Acquire: partner is the exchange in `send`.
            self.stock = self.home.returned.swap(ptr::null_mut(), Ordering::Acquire);
        }
        if let Some(batch) = NonNull::new(self.stock) {
            return Ok(self.take_listed(batch));
        }
        if self.fresh == self.fresh_end {
            self.grow()?;
        }
        let frame = self.fresh;
        self.fresh = frame.wrapping_add(FRAME);
        Ok(NonNull::new(frame).expect("`grow` has made room"))
    }

    /// A frame of a batch that came home; the batch itself as the last one.
    fn take_listed(&mut self, batch: NonNull<Batch>) -> NonNull<u8> {
        // SAFETY: a batch that came home is this pool's, its fields written by its sender.
        let Batch { next, count, frames } = unsafe { &mut *batch.as_ptr() };
        if *count == 0 {
            self.stock = *next;
            return batch.cast();
        }
        *count -= 1;
        NonNull::new(frames[*count]).expect("a batch lists frames")
    }

    #[cold]
    fn grow(&mut self) -> Result<()> {
        let memory = match Anon::new(CHUNK, Huge::Transparent, Populate::OnTouch) {
            // Twice as much holds an aligned one; what lies beside it stays untouched.
            Err(kumiki_sys::Error::Unsupported { .. }) => {
                Anon::new(2 * CHUNK, Huge::Policy, Populate::OnTouch)
            }
            other => other,
        }?;
        let start = memory.as_ptr();
        let start = start.wrapping_add(start.align_offset(CHUNK));
        std::mem::forget(memory);
        // SAFETY: the beginning of new memory of this pool, aligned to a chunk.
        unsafe { start.cast::<Chunk>().write(Chunk { home: self.home }) };
        self.fresh = start.wrapping_add(FRAME);
        self.fresh_end = start.wrapping_add(CHUNK);
        self.chunks += 1;
        Ok(())
    }

    #[inline(always)]
    fn put(&mut self, frame: NonNull<u8>) {
        let frame = frame.as_ptr().cast::<Free>();
        // SAFETY: the caller gives the frame up, which is writable and aligned.
        unsafe { frame.write(Free { next: self.free }) };
        self.free = frame;
    }

    /// Gives a frame back, to this pool or to its own.
    ///
    /// # Safety
    /// `frame` is from a [`take`](Self::take) of some pool of this process, and nobody uses
    /// it any more.
    #[inline(always)]
    pub(crate) unsafe fn give(&mut self, frame: NonNull<u8>) {
        let chunk = frame.as_ptr().map_addr(|at| at & !(CHUNK - 1)).cast::<Chunk>();
        // SAFETY: each frame lies in a chunk, whose first frame never changes.
        let home = unsafe { (*chunk).home };
        if ptr::eq(home, self.home) {
            self.put(frame);
        } else {
            self.give_away(frame, home);
        }
    }

    fn give_away(&mut self, frame: NonNull<u8>, home: &'static Home) {
        let batch = self.out;
        if !batch.is_null() && ptr::eq(self.out_home, home) {
            // SAFETY: a batch on its way is this pool's to write.
            let Batch { count, frames, .. } = unsafe { &mut *batch };
            frames[*count] = frame.as_ptr();
            *count += 1;
            if *count == LISTED {
                self.send();
            }
            return;
        }
        self.send();
        let batch = frame.as_ptr().cast::<Batch>();
        // SAFETY: the frame is given up, and has room and alignment for a batch.
        let count = unsafe { &raw mut (*batch).count };
        // SAFETY: as above.
        unsafe { count.write(0) };
        (self.out, self.out_home) = (batch, home);
    }

    /// Gives home what is on its way.
    pub(crate) fn send(&mut self) {
        let batch = std::mem::replace(&mut self.out, ptr::null_mut());
        // SAFETY: null, or a home, which is never freed.
        let Some(home) = (unsafe { self.out_home.as_ref() }) else { return };
        if batch.is_null() {
            return;
        }
        let mut head = home.returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: this pool's until the exchange succeeds.
            let next = unsafe { &raw mut (*batch).next };
            // SAFETY: as above.
            unsafe { next.write(head) };
            // Release: partner is the swap in `take_other`.
            let push = home.returned.compare_exchange_weak(
                head,
                batch,
                Ordering::Release,
                Ordering::Relaxed,
            );
            match push {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// A frame that may go to another thread.
    struct Sent(NonNull<u8>);
    // SAFETY: a frame is its user's, whichever thread that is.
    unsafe impl Send for Sent {}

    fn fill(frame: NonNull<u8>, byte: u8) {
        // SAFETY: a frame that was taken.
        unsafe { frame.write_bytes(byte, FRAME) };
    }

    fn holds(frame: NonNull<u8>, byte: u8) -> bool {
        // SAFETY: as above, and filled.
        unsafe { std::slice::from_raw_parts(frame.as_ptr(), FRAME) }.iter().all(|b| *b == byte)
    }

    proptest! {
        // Pools keep what they have had: few of them.
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
        #[test]
        fn no_frame_has_two_users(steps in prop::collection::vec((any::<bool>(), 0..2_usize, any::<u16>()), 1..1000)) {
            let mut pools = [Frames::new(), Frames::new()];
            let mut used: Vec<(NonNull<u8>, u8)> = Vec::new();
            for (at, (take, pool, pick)) in steps.into_iter().enumerate() {
                let byte = at as u8;
                if take || used.is_empty() {
                    let frame = pools[pool].take().unwrap();
                    prop_assert!(used.iter().all(|(other, _)| *other != frame));
                    prop_assert_eq!(frame.as_ptr().addr() % FRAME, 0);
                    fill(frame, byte);
                    used.push((frame, byte));
                } else {
                    let (frame, byte) = used.swap_remove(pick as usize % used.len());
                    prop_assert!(holds(frame, byte));
                    // SAFETY: taken above, and used no more.
                    unsafe { pools[pool].give(frame) };
                }
            }
        }
    }

    #[test]
    fn frames_freed_elsewhere_come_home_and_are_used_again() {
        let mut pool = Frames::new();
        let (send, receive) = mpsc::channel::<Vec<Sent>>();
        let (done, is_done) = mpsc::channel();
        let other = thread::spawn(move || {
            let mut pool = Frames::new();
            for frames in receive {
                for Sent(frame) in frames {
                    // SAFETY: sent here to be freed.
                    unsafe { pool.give(frame) };
                }
                pool.send();
                done.send(()).unwrap();
            }
        });
        let mut ever = BTreeSet::new();
        for _ in 0..100 {
            let frames: Vec<_> = (0..100).map(|_| Sent(pool.take().unwrap())).collect();
            ever.extend(frames.iter().map(|Sent(frame)| frame.as_ptr().addr()));
            send.send(frames).unwrap();
            is_done.recv().unwrap();
        }
        drop(send);
        other.join().unwrap();
        assert_eq!((ever.len(), pool.bytes()), (100, CHUNK));
    }
}
