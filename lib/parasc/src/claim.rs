//! A processing thread's note of what it is at: a request that was in a queue, or the single
//! call or a chunk of the batch that a requesting thread offers in its line. If the thread
//! dies, what it was at is repaired from the note.
//!
//! A thread of the engine's own dies at a call alone, by a seccomp filter. One of the
//! program's may end at any moment, by a handler of a signal: it has its signals blocked but
//! at a call, and while it waits. So whoever has found a thread dead ([`Life`]) finds in its
//! note exactly what it has claimed and not answered.
//!
//! [`Life`]: kumiki_sys::life::Life

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::primitive::{Mutex, lock};
use crate::task::Task;

/// The answer to a request whose thread has died: perhaps executed.
pub(crate) const OWNER_DIED: i64 = -(libc::EOWNERDEAD as i64);

/// A note of a batch, or of no lane.
const HELD: u64 = 1 << 31;

/// The chunk of an offer at which a thread has died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadChunk {
    /// Calls that it has claimed.
    pub(crate) chunk: Range<usize>,
    /// The one that it was at; those before are made.
    pub(crate) at: usize,
}

/// Work of a thread that its note names.
#[derive(Debug)]
pub(crate) enum At {
    /// A request that was in a queue.
    Task(Arc<dyn Task>),
    /// An offer in this lane, and the claimed part of it.
    Offer(usize, DeadChunk),
}

/// A processing thread's note. Only that thread writes it, and once it is dead whoever
/// repairs.
#[derive(Debug, Default)]
#[cfg_attr(target_arch = "x86_64", repr(align(64)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(128)))]
pub(crate) struct Claim {
    /// Count of claims in the high half; 1 + the lane in the low half, [`HELD`] too of a batch, 0
    /// if the thread is at none.
    word: AtomicU64,
    /// Bounds of the claimed calls of an offer, and the one that the thread is at, 16 bits each.
    chunk: AtomicU64,
    /// The request that was in a queue.
    task: Mutex<Option<Arc<dyn Task>>>,
    /// Requests taken from the queue for calls that are soon over.
    quick: AtomicU32,
}

impl Claim {
    #[inline(always)]
    fn note(&self, low: u64) {
        let count = (self.word.load(Relaxed) >> 32).wrapping_add(1);
        // Nobody acts on it but who has found the thread dead, which orders it.
        self.word.store(count << 32 | low, Relaxed);
    }

    /// Says that the thread is about to take the single call in a lane's line.
    #[inline(always)]
    pub(crate) fn set(&self, lane: usize) {
        self.note(lane as u64 + 1);
    }

    /// Says that the thread is at this request, which was in a queue.
    pub(crate) fn set_task(&self, task: Arc<dyn Task>) {
        *lock(&self.task) = Some(task);
        // Of no lane.
        self.note(HELD);
    }

    /// Says that the thread is at the batch that the requesting thread of a lane offers.
    #[inline(always)]
    pub(crate) fn hold(&self, lane: usize) {
        // At no call yet.
        self.chunk.store(0, Relaxed);
        self.note(HELD | (lane as u64 + 1));
    }

    /// Says that the thread is about to make call `at` of those that it has claimed.
    #[inline(always)]
    pub(crate) fn advance(&self, chunk: &Range<usize>, at: usize) {
        let word = chunk.start as u64 | (chunk.end as u64) << 16 | (at as u64) << 32;
        self.chunk.store(word, Relaxed);
    }

    /// Says that it is at none any more.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        let count = self.word.load(Relaxed) & !u64::from(u32::MAX);
        self.word.store(count, Relaxed);
    }

    /// Clears the note of a request that was in a queue, which is to be answered.
    pub(crate) fn clear_task(&self) -> Option<Arc<dyn Task>> {
        self.clear();
        lock(&self.task).take()
    }

    /// Takes a dead thread's work from its note.
    pub(crate) fn take(&self) -> Option<At> {
        let low = self.word.load(Relaxed) & u64::from(u32::MAX);
        if let Some(task) = self.clear_task() {
            return Some(At::Task(task));
        }
        let lane = (low & !HELD).checked_sub(1)? as usize;
        if low & HELD == 0 {
            return Some(At::Offer(lane, DeadChunk { chunk: 0..1, at: 0 }));
        }
        let chunk = self.chunk.load(Relaxed);
        let field = |at: u32| (chunk >> (16 * at) & 0xffff) as usize;
        let left = DeadChunk { chunk: field(0)..field(1), at: field(2) };
        (!left.chunk.is_empty()).then_some(At::Offer(lane, left))
    }

    /// The lane whose single call the thread is at.
    pub(crate) fn lane(&self) -> Option<usize> {
        let low = self.word.load(Relaxed) & u64::from(u32::MAX);
        (low & HELD == 0).then(|| low.checked_sub(1).map(|lane| lane as usize))?
    }

    /// The request that was in a queue and that the thread is at.
    pub(crate) fn task(&self) -> Option<Arc<dyn Task>> {
        lock(&self.task).clone()
    }

    /// True if the thread is at the batch of this lane.
    pub(crate) fn holds(&self, lane: usize) -> bool {
        self.word.load(Relaxed) & u64::from(u32::MAX) == HELD | (lane as u64 + 1)
    }

    /// True if the thread is at a request.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.word.load(Relaxed) as u32 != 0
    }

    /// Differs between two requests, also of the same lane.
    pub(crate) fn word(&self) -> u64 {
        self.word.load(Relaxed)
    }

    pub(crate) fn count_quick(&self) {
        self.quick.store(self.quick.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(crate) fn quick(&self) -> u32 {
        self.quick.load(Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_first_and_the_last_lane_there_can_be() {
        let claim = Claim::default();
        for lane in [0, crate::area::LINES - 1] {
            assert!(claim.take().is_none() && claim.lane().is_none() && !claim.is_set());
            claim.set(lane);
            assert_eq!(claim.lane(), Some(lane));
            let word = claim.word();
            claim.set(lane);
            assert_ne!(claim.word(), word);
            let single = DeadChunk { chunk: 0..1, at: 0 };
            assert!(
                matches!(claim.take(), Some(At::Offer(at, left)) if (at, &left) == (lane, &single))
            );
            assert!(claim.task().is_none());
        }
        let request = crate::Request::new(7, []);
        claim.set_task(Arc::new(crate::task::Base::of(request)));
        assert!(claim.is_set() && claim.lane().is_none() && claim.task().is_some());
        let at = claim.take();
        assert!(matches!(&at, Some(At::Task(task)) if task.base().request == request), "{at:?}");
        assert!(claim.task().is_none() && claim.take().is_none() && !claim.is_set());
    }

    #[test]
    fn a_thread_at_calls_of_a_batch_is_at_something() {
        let claim = Claim::default();
        claim.hold(63);
        assert!(claim.is_set() && claim.lane().is_none() && claim.take().is_none());
        claim.hold(63);
        claim.advance(&(4000..4096), 4095);
        let left = DeadChunk { chunk: 4000..4096, at: 4095 };
        assert!(matches!(claim.take(), Some(At::Offer(63, found)) if found == left));
        assert!(!claim.is_set() && claim.take().is_none());
    }
}
