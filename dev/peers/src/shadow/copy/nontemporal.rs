//! Stores that go past the caches: by one thread, and by two, which is as much
//! as two threads can copy at that moment.

use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
use std::sync::atomic::AtomicU32;

use anyhow::Result;

use super::Copy;
use crate::pair::Pair;
use crate::shadow::fork::Fork;
use crate::shadow::fork::helper::{Sleep, Sleeper};

const LINE: usize = 64;
const VECTOR: usize = size_of::<__m128i>();

/// Streaming stores of whole lines of the destination; its ragged ends are
/// copied as usual.
pub(crate) struct NonTemporal;

impl Copy for NonTemporal {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len());
        let head = to.as_ptr().align_offset(LINE).min(to.len());
        let (from_head, from) = from.split_at(head);
        let (to_head, to) = to.split_at_mut(head);
        to_head.copy_from_slice(from_head);
        let (from_lines, from_tail) = from.as_chunks::<LINE>();
        let (to_lines, to_tail) = to.as_chunks_mut::<LINE>();
        for (from, to) in from_lines.iter().zip(to_lines) {
            line(from, to);
        }
        to_tail.copy_from_slice(from_tail);
        // SAFETY: SSE is part of x86-64. Orders the stream before what follows.
        unsafe { _mm_sfence() };
    }
}

/// `to` begins a cache line.
#[inline(always)]
fn line(from: &[u8; LINE], to: &mut [u8; LINE]) {
    let (from, _) = from.as_chunks::<VECTOR>();
    let (to, _) = to.as_chunks_mut::<VECTOR>();
    let load = |i: usize| {
        // SAFETY: sixteen readable bytes, in whatever alignment.
        unsafe { _mm_loadu_si128(from[i].as_ptr().cast()) }
    };
    // All loads first: the line of stores stays together.
    let vectors = [load(0), load(1), load(2), load(3)];
    for (to, vector) in to.iter_mut().zip(vectors) {
        // SAFETY: sixteen writable bytes, aligned as the line is.
        unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), vector) };
    }
}

/// The limit: a helper that has been spinning for long gets half of the bytes by
/// one line, each copies its half, and nothing else is done. No choice, no
/// probe, no parts.
pub(crate) struct TwoThreads(Sleeper<Awake>);

impl TwoThreads {
    /// Starts the helper.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(TwoThreads(Sleeper::new(pair)?))
    }
}

impl Copy for TwoThreads {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        let (ours, theirs) = halves(from, to);
        self.0.both(|| ours.copy(), || theirs.copy());
    }

    fn wake(&mut self, _bytes: usize) {
        self.0.both(|| (), || ());
    }
}

/// A part of a copy.
pub(crate) struct Part<'a> {
    from: &'a [u8],
    to: &'a mut [u8],
}

impl Part<'_> {
    pub(crate) fn copy(self) {
        NonTemporal.copy(self.from, self.to);
    }
}

/// Two parts of the same length, but for a page.
pub(crate) fn halves<'a>(from: &'a [u8], to: &'a mut [u8]) -> (Part<'a>, Part<'a>) {
    const PAGE: usize = 4096;
    let half = if to.len() < 2 * PAGE { to.len() / 2 } else { to.len() / 2 / PAGE * PAGE };
    let (from, from_rest) = from.split_at(half);
    let (to, to_rest) = to.split_at_mut(half);
    (Part { from, to }, Part { from: from_rest, to: to_rest })
}

/// Both sides spin, without PAUSE.
pub(crate) struct Awake;

impl Sleep for Awake {
    fn new() -> Self {
        Awake
    }

    fn wait(&self, _: &AtomicU32, _: u32) {}

    fn wake_helper(&self, _: &AtomicU32) {}

    fn wake_main(&self, _: &AtomicU32) {}
}
