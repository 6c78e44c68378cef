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
//!   out    ─▶ batches on their way to other homes
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
//! # What is kept
//!
//! Memory once had from the system stays. So that it is little more than what has been in use
//! at one time, and not what each thread has had at its own time, a pool keeps few free frames
//! to itself ([`STOCK`] batches, and the hand); what more it has it puts onto its own
//! `returned`, and so does a pool that is left with all that it has. A thread's pool that has
//! nothing left takes the stack of any home before it asks the system: all homes are in one
//! list (`home`), which only grows. What it takes of others it hands out as its own; freed,
//! each frame goes to the home that its chunk names. A place's pool asks the system at once,
//! which gives memory of its node to who touches it first.
//!
//! Free frames are listed by address instead of linked, so that nobody touches a frame to
//! free it or to hand it out: the first words of all frames lie in one set of the
//! processor's caches, and of some hundred frames the first ones have left them.
//!
//! A frame that is taken and given at once goes by `last` alone: a position that is moved
//! back and forth in memory costs the processor two stores forwarded to loads, this one.

mod batch;
mod home;
mod out;

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use kumiki_sys::shm::{Anon, Huge, Populate};

use crate::error::Result;
use batch::{Batch, LISTED, STOCK};
use home::{Chunk, Home, chunk_of, home_of};
use out::{Out, WAYS, way_of};

/// Bytes of a frame.
pub(crate) const FRAME: usize = 4096;
/// Bytes of a chunk.
const CHUNK: usize = 2 << 20;
/// Addresses that a hand holds; one less are used, so that a full one is told from an
/// empty one by the position alone.
const HAND: usize = FRAME / size_of::<*mut u8>();

/// Chunks of all pools.
static CHUNKS: AtomicUsize = AtomicUsize::new(0);

/// Memory that all pools of this process have from the system, bytes.
pub(crate) fn all_bytes() -> usize {
    CHUNKS.load(Ordering::Relaxed) * CHUNK
}

/// A pool of frames, one thread's at a time.
#[derive(Debug)]
pub(crate) struct Frames {
    /// A free frame, or null.
    last: *mut u8,
    /// Place of the next free frame's address in the hand; those below are free.
    top: *mut *mut u8,
    stock: *mut Batch,
    /// Batches that it has put into the stock itself and not taken up again: more may be
    /// there, which came at once from elsewhere.
    stocked: usize,
    /// The first frame of the newest chunk that was never handed out.
    fresh: *mut u8,
    fresh_end: *mut u8,
    out: [Out; WAYS],
    /// The chunk's home; null in [`NONE`](Self::NONE), which is no frame's.
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
        stocked: 0,
        fresh: ptr::null_mut(),
        fresh_end: ptr::null_mut(),
        out: [Out::NONE; WAYS],
        home: ptr::null(),
        chunks: 0,
        _thread: PhantomData,
    };

    pub(crate) fn new() -> Self {
        Self::of(Home::new())
    }

    fn of(home: &'static Home) -> Self {
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

    /// Takes a frame without others' frames: of the stock, of what came home, of what was never
    /// used, or of the system.
    ///
    /// # Errors
    /// The system has no memory left.
    #[inline(always)]
    pub(crate) fn take_own(&mut self) -> Result<NonNull<u8>> {
        match self.take_held() {
            Some(frame) => Ok(frame),
            None => self.take_far(|_| ptr::null_mut()),
        }
    }

    #[inline(never)]
    fn take_other(&mut self) -> Result<NonNull<u8>> {
        self.take_far(Self::of_others)
    }

    /// Takes a frame from the stock, from those that came home, from those that were never used,
    /// from elsewhere, or from the system.
    fn take_far(&mut self, elsewhere: fn(&Self) -> *mut Batch) -> Result<NonNull<u8>> {
        if self.stock.is_null() {
            self.stock = self.home().fetch_some();
        }
        if self.stock.is_null() && self.fresh == self.fresh_end {
            self.stock = elsewhere(self);
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

    /// Takes a batch that has come to some home.
    fn of_others(&self) -> *mut Batch {
        let mut fetched = Home::all().map(Home::fetch_some);
        fetched.find(|batch| !batch.is_null()).unwrap_or(ptr::null_mut())
    }

    /// Takes the first batch of the stock into the empty hand: the frames that it lists,
    /// and the one that it is.
    fn take_up(&mut self, batch: NonNull<Batch>) {
        // SAFETY: a batch of the stock is this pool's, its fields written by its sender.
        let Batch { next, count, frames } = unsafe { batch.as_ref() };
        self.stock = *next;
        self.stocked = self.stocked.saturating_sub(1);
        self.push(batch.as_ptr().cast());
        for &frame in &frames[..*count] {
            self.push(frame);
        }
    }

    /// Makes a batch of the last frames of a hand that has so many.
    fn batch(&mut self, listed: usize) -> *mut Batch {
        let batch = self.pop().cast::<Batch>().as_ptr();
        let mut frames = [ptr::null_mut(); LISTED];
        frames[..listed].fill_with(|| self.pop().as_ptr());
        // SAFETY: a free frame, with room and alignment for a batch.
        unsafe { batch.write(Batch { next: ptr::null_mut(), count: listed, frames }) };
        batch
    }

    /// Puts the last frames of the full hand into the stock, or where others find them, too.
    #[cold]
    fn put_down(&mut self) {
        let batch = self.batch(LISTED);
        if self.stocked == STOCK {
            return self.home().put(batch);
        }
        // SAFETY: this pool's.
        let next = unsafe { &raw mut (*batch).next };
        // SAFETY: as above.
        unsafe { next.write(self.stock) };
        self.stock = batch;
        self.stocked += 1;
    }

    /// Puts all that is free where others find it, for a pool that nobody will use for a while.
    pub(crate) fn put_all(&mut self) {
        self.send();
        if let Some(last) = NonNull::new(std::mem::replace(&mut self.last, ptr::null_mut())) {
            self.push(last.as_ptr());
        }
        while self.held() != 0 {
            let batch = self.batch(LISTED.min(self.held() - 1));
            self.home().put(batch);
        }
        let first = std::mem::replace(&mut self.stock, ptr::null_mut());
        self.stocked = 0;
        self.home().put_chain(first);
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
        CHUNKS.fetch_add(1, Ordering::Relaxed);
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

    /// Sends home a frame that is used no more and is another pool's.
    fn give_away(&mut self, frame: NonNull<u8>) {
        // SAFETY: it is in a chunk.
        let home = unsafe { home_of(frame) };
        let out = &mut self.out[way_of(home)];
        if !out.batch.is_null() && ptr::eq(out.home, home) {
            // SAFETY: a batch on its way is this pool's to write.
            let Batch { count, frames, .. } = unsafe { &mut *out.batch };
            frames[*count] = frame.as_ptr();
            *count += 1;
            if *count == LISTED {
                out.send();
            }
            return;
        }
        out.send();
        let batch = frame.as_ptr().cast::<Batch>();
        // SAFETY: the frame is given up, and has room and alignment for a batch.
        let count = unsafe { &raw mut (*batch).count };
        // SAFETY: as above.
        unsafe { count.write(0) };
        *out = Out { batch, home };
    }

    /// Gives home what is on its way.
    pub(crate) fn send(&mut self) {
        self.out.iter_mut().for_each(Out::send);
    }
}

#[cfg(test)]
mod tests;
