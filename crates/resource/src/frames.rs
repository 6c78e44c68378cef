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
//!   last   ─▶ the frame that was freed last
//!   hand   ─▶ addresses of free frames      returned ─▶ batch ─▶ batch
//!   stock  ─▶ batch ─▶ batch
//!   fresh  ─▶ never used so far
//!   out    ─▶ batch on its way to another home
//!                                         batch: a frame that lists up to 62 others
//! ```
//!
//! # Who may do what
//!
//! A frame that is handed out is its user's, whichever thread that is. The owner takes and
//! frees through its hand, a page of addresses, and no other thread looks at it. Another
//! thread that frees a frame writes its address into a batch of its own, and gives a full
//! batch home by one exchange (Release) onto the stack `returned`. The owner takes the
//! whole stack by one swap (Acquire) when it has nothing else left. Since only whole stacks
//! are taken, no element can come back while somebody holds an old head.
//!
//! Free frames are listed by address instead of linked, so that nobody touches a frame to
//! free it or to hand it out: the first words of all frames lie in one set of the
//! processor's caches, and of some hundred frames the first ones have left them.
//!
//! A frame that is taken and given at once goes by `last` alone: a position that is moved
//! back and forth in memory costs the processor two stores forwarded to loads, this one.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
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
/// Addresses that a hand holds; one less are used, so that a full one is told from an
/// empty one by the position alone.
const HAND: usize = FRAME / size_of::<*mut u8>();

/// What others reach of a pool. It is never freed: any thread may still hold a frame.
#[derive(Debug)]
#[repr(align(128))]
struct Home {
    returned: AtomicPtr<Batch>,
}

/// Of a chunk, in its first frame.
struct Chunk {
    home: &'static Home,
}

/// Where in the first frame: not at its start, where the lines of all frames' first words
/// would push it out of the cache.
const HEADER: usize = 33 * 64;

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
    /// A free frame, or null.
    last: *mut u8,
    /// Where the next free frame's address goes in the hand; those below are free.
    top: *mut *mut u8,
    stock: *mut Batch,
    /// Of the newest chunk, what was never handed out.
    fresh: *mut u8,
    fresh_end: *mut u8,
    out: *mut Batch,
    out_home: *const Home,
    /// Of [`NONE`](Self::NONE) null, which is no frame's.
    home: *const Home,
    /// Never unmapped, since frames may be anywhere.
    chunks: usize,
    _thread: PhantomData<*mut ()>,
}

// SAFETY: it may go to another thread as a whole: nobody else uses its lists, and what
// others reach is `home`.
unsafe impl Send for Frames {}

impl Frames {
    /// No pool: holds nothing, no frame is its own, and more is not to be had of it.
    pub(crate) const NONE: Frames = Frames {
        last: ptr::null_mut(),
        top: ptr::null_mut(),
        stock: ptr::null_mut(),
        fresh: ptr::null_mut(),
        fresh_end: ptr::null_mut(),
        out: ptr::null_mut(),
        out_home: ptr::null(),
        home: ptr::null(),
        chunks: 0,
        _thread: PhantomData,
    };

    pub(crate) fn new() -> Self {
        let home = Box::leak(Box::new(Home { returned: AtomicPtr::default() }));
        // Like its home it is never freed: a pool that is left goes to another thread.
        // Addresses of free frames, aligned to its size. From the system: where pages are
        // the program's allocator, that would ask here again.
        let layout = Layout::from_size_align(FRAME, FRAME).expect("a page is aligned to its size");
        // SAFETY: it is not of size 0.
        let hand = unsafe { System.alloc_zeroed(layout) };
        if hand.is_null() {
            handle_alloc_error(layout);
        }
        Frames { top: hand.cast(), home, ..Self::NONE }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.home.is_null()
    }

    /// Memory that it has from the system, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks * CHUNK
    }

    fn home(&self) -> &'static Home {
        // SAFETY: null, or a home, which is never freed.
        unsafe { self.home.as_ref() }.expect("it is a pool")
    }

    /// Addresses in the hand.
    #[inline(always)]
    fn held(&self) -> usize {
        self.top.addr() % FRAME / size_of::<*mut u8>()
    }

    /// A frame, of any content.
    ///
    /// # Errors
    /// The system has no memory left.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Result<NonNull<u8>> {
        match self.take_held() {
            Some(frame) => Ok(frame),
            None => self.take_other(),
        }
    }

    /// The frame that was freed last, or one in the hand.
    #[inline(always)]
    pub(crate) fn take_held(&mut self) -> Option<NonNull<u8>> {
        if let Some(last) = NonNull::new(self.last) {
            self.last = ptr::null_mut();
            return Some(last);
        }
        (self.held() != 0).then(|| self.pop())
    }

    /// The last address of a hand that is not empty.
    #[inline(always)]
    fn pop(&mut self) -> NonNull<u8> {
        self.top = self.top.wrapping_sub(1);
        // SAFETY: within the hand, which is not empty: a frame's address is here.
        let frame = unsafe { self.top.read() };
        // SAFETY: frames are somewhere.
        unsafe { NonNull::new_unchecked(frame) }
    }

    /// Puts an address into a hand that is not full.
    #[inline(always)]
    fn push(&mut self, frame: *mut u8) {
        // SAFETY: within the hand, whose last place is never used.
        unsafe { self.top.write(frame) };
        self.top = self.top.wrapping_add(1);
    }

    /// From the stock, from what came home, from what was never used, or from the system.
    #[inline(never)]
    fn take_other(&mut self) -> Result<NonNull<u8>> {
        if self.stock.is_null() {
            // Acquire: partner is the exchange in `send`.
            self.stock = self.home().returned.swap(ptr::null_mut(), Ordering::Acquire);
        }
        if let Some(batch) = NonNull::new(self.stock) {
            self.take_up(batch);
            return Ok(self.pop());
        }
        if self.fresh == self.fresh_end {
            self.grow()?;
        }
        let frame = self.fresh;
        self.fresh = frame.wrapping_add(FRAME);
        Ok(NonNull::new(frame).expect("`grow` has made room"))
    }

    /// Takes the first batch of the stock into the empty hand: the frames that it lists,
    /// and the one that it is.
    fn take_up(&mut self, batch: NonNull<Batch>) {
        // SAFETY: a batch of the stock is this pool's, its fields written by its sender.
        let Batch { next, count, frames } = unsafe { batch.as_ref() };
        self.stock = *next;
        self.push(batch.as_ptr().cast());
        for &frame in &frames[..*count] {
            self.push(frame);
        }
    }

    /// Puts the last frames of the full hand into the stock.
    #[cold]
    fn put_down(&mut self) {
        let batch = self.pop().cast::<Batch>().as_ptr();
        let frames = std::array::from_fn(|_| self.pop().as_ptr());
        // SAFETY: a free frame, with room and alignment for a batch.
        unsafe { batch.write(Batch { next: self.stock, count: LISTED, frames }) };
        self.stock = batch;
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
        unsafe { chunk_of(start).write(Chunk { home: self.home() }) };
        self.fresh = start.wrapping_add(FRAME);
        self.fresh_end = start.wrapping_add(CHUNK);
        self.chunks += 1;
        Ok(())
    }

    /// Gives a frame back, to this pool or to its own.
    ///
    /// # Safety
    /// `frame` is from a [`take`](Self::take) of some pool of this process, and nobody uses
    /// it any more.
    #[inline(always)]
    pub(crate) unsafe fn give(&mut self, frame: NonNull<u8>) {
        // SAFETY: the caller's promise.
        if !unsafe { self.keep(frame) } {
            self.give_away(frame);
        }
    }

    /// Takes a frame back that is its own; else it is left as it is, and this is `false`.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[inline(always)]
    pub(crate) unsafe fn keep(&mut self, frame: NonNull<u8>) -> bool {
        // SAFETY: the caller's promise: it is in a chunk.
        if !ptr::eq(unsafe { home_of(frame) }, self.home) {
            return false;
        }
        if self.last.is_null() {
            self.last = frame.as_ptr();
            return true;
        }
        self.push(frame.as_ptr());
        if self.held() == HAND - 1 {
            self.put_down();
        }
        true
    }

    /// Of a frame that is used no more and is another pool's.
    fn give_away(&mut self, frame: NonNull<u8>) {
        // SAFETY: it is in a chunk.
        let home = unsafe { home_of(frame) };
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

/// What the chunk of this frame says of itself.
#[inline(always)]
fn chunk_of(frame: *mut u8) -> *mut Chunk {
    frame.map_addr(|at| at & !(CHUNK - 1) | HEADER).cast()
}

/// Whose a frame is.
///
/// # Safety
/// It is a frame of some pool.
#[inline(always)]
unsafe fn home_of(frame: NonNull<u8>) -> &'static Home {
    // SAFETY: each frame lies in a chunk, whose first frame never changes.
    unsafe { (*chunk_of(frame.as_ptr())).home }
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
    fn more_frames_than_a_hand_holds_are_kept_and_used_again() {
        let mut pool = Frames::new();
        let many = 3 * HAND + 7;
        let round = |pool: &mut Frames| {
            let frames: Vec<_> = (0..many).map(|_| pool.take().unwrap()).collect();
            let addresses: BTreeSet<_> = frames.iter().map(|f| f.as_ptr().addr()).collect();
            for frame in frames {
                // SAFETY: taken above, and used no more.
                unsafe { pool.give(frame) };
            }
            addresses
        };
        let first = round(&mut pool);
        assert_eq!(first.len(), many);
        let bytes = pool.bytes();
        for _ in 0..3 {
            assert_eq!(round(&mut pool), first);
        }
        assert_eq!(pool.bytes(), bytes);
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
