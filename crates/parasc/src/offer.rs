//! A batch that a requesting thread shares where it stands, without slots.
//!
//! ```text
//!        0               first                  last             calls
//!        ├─────────────────┼──────────────────────┼────────────────┤
//!        claimed by         nobody's yet           claimed by the
//!        processing threads ►                    ◄ requesting thread
//! ```
//!
//! `first`, `last` and how many of the calls before `first` have been `made` are one
//! word, and while the batch lasts each change is a swap of it: a claim takes calls that
//! nobody else has, whichever batch it comes upon, and a batch is over when `made` =
//! `first` = `last`. Until then its requesting thread waits, so who has claimed may look
//! where the calls stand, which is written before the word, and write to the results.
//!
//! A slot for each call would take two more transfers of a cache line, and a swap for each
//! call instead of one for each chunk. An offer has no status for a single call: the
//! claimer's note (`claim.rs`) names the chunk that it has claimed and the call that it is
//! at. If the claimer dies, the requesting thread repairs the chunk from that note.

use std::ops::Range;
use std::slice;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::claim::{Left, OWNER_DIED};
use crate::execute::call;
use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64};
use kumiki_calls::Request;

/// Calls that an offer can have: a field of its word.
const MOST: usize = u16::MAX as usize;
const _: () = assert!(crate::config::MAX_SLOTS <= MOST);

/// Where the calls of a batch stand, and their results are to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) requests: *const Request,
    pub(crate) results: *mut i64,
}

impl Calls {
    /// Makes those of `chunk`, each after a word to `begins`.
    ///
    /// # Safety
    /// `requests` and `results` are valid for `chunk`, nobody else is at that part of
    /// the results, and as for [`Requester::run_raw`](crate::Requester::run_raw).
    #[inline(always)]
    pub(crate) unsafe fn make(self, chunk: Range<usize>, begins: impl Fn(usize)) {
        let start = chunk.start;
        // SAFETY: the caller vouches for this part of both.
        let (requests, results) = unsafe { self.part(chunk) };
        for (at, (request, result)) in requests.iter().zip(results).enumerate() {
            begins(start + at);
            // SAFETY: as above, also for the call.
            *result = unsafe { call(request) };
        }
    }

    /// # Safety
    /// As for [`make`](Self::make), as long as the part is used.
    #[inline(always)]
    unsafe fn part<'a>(self, chunk: Range<usize>) -> (&'a [Request], &'a mut [i64]) {
        // SAFETY: within what both are valid for.
        let requests = unsafe { self.requests.add(chunk.start) };
        // SAFETY: as above.
        let results = unsafe { self.results.add(chunk.start) };
        // SAFETY: valid for the chunk, and nobody writes to requests.
        let requests = unsafe { slice::from_raw_parts(requests, chunk.len()) };
        // SAFETY: valid for the chunk, and nobody else is at these.
        let results = unsafe { slice::from_raw_parts_mut(results, chunk.len()) };
        (requests, results)
    }
}

/// The word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    made: usize,
    first: usize,
    last: usize,
}

impl State {
    fn of(word: u64) -> Self {
        let field = |at: u32| word >> (16 * at) & MOST as u64;
        State { made: field(0) as usize, first: field(1) as usize, last: field(2) as usize }
    }

    fn word(self) -> u64 {
        self.made as u64 | (self.first as u64) << 16 | (self.last as u64) << 32
    }

    /// Half of one part in `share` of what is nobody's, `most` at most; 0 if there is
    /// nothing. So the chunks get shorter towards the end, where all are to be ready at
    /// the same time.
    fn chunk(self, share: usize, most: usize) -> usize {
        let left = self.last.saturating_sub(self.first);
        (left / (2 * share)).min(most).max(1).min(left)
    }
}

/// One requesting thread's offer. On a line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Offer {
    state: AtomicU64,
    requests: AtomicPtr<Request>,
    results: AtomicPtr<i64>,
    /// Calls that are claimed at once, at most.
    most: AtomicU32,
}

impl Offer {
    /// Offers so many calls. By the requesting thread, whose last batch is over.
    #[inline]
    pub(crate) fn open(&self, calls: Calls, count: usize, most: usize) {
        self.requests.store(calls.requests.cast_mut(), Relaxed);
        self.results.store(calls.results, Relaxed);
        self.most.store(most as u32, Relaxed);
        // Release: partner is the swap in `next`.
        self.state.store(State { made: 0, first: 0, last: count }.word(), Release);
    }

    /// Whether there is anything to claim.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        let state = State::of(self.state.load(Relaxed));
        state.first < state.last
    }

    /// Says that the last `made` calls that the caller has claimed have been made, and
    /// claims the next ones, half of one part in `share` of what is left. By a
    /// processing thread; `None` if there is nothing left.
    #[inline]
    pub(crate) fn next(&self, made: usize, share: usize) -> Option<Range<usize>> {
        let mut word = self.state.load(Relaxed);
        loop {
            let state = State::of(word);
            let chunk = state.chunk(share, self.most.load(Relaxed) as usize);
            let first = state.first + chunk;
            if made + chunk == 0 {
                return None;
            }
            let after = State { made: state.made + made, first, ..state };
            // Acquire: partner is `open`. Release: partner is `over`.
            match self.state.compare_exchange_weak(word, after.word(), AcqRel, Relaxed) {
                Ok(_) => return (chunk > 0).then_some(state.first..first),
                Err(now) => word = now,
            }
        }
    }

    /// Claims calls from the end, half of one part in `share` of what is left. By the
    /// requesting thread.
    #[inline]
    pub(crate) fn last(&self, share: usize) -> Option<Range<usize>> {
        let mut word = self.state.load(Relaxed);
        loop {
            let state = State::of(word);
            let chunk = state.chunk(share, self.most.load(Relaxed) as usize);
            if chunk == 0 {
                return None;
            }
            let last = state.last - chunk;
            let after = State { last, ..state }.word();
            match self.state.compare_exchange_weak(word, after, Relaxed, Relaxed) {
                Ok(_) => return Some(last..state.last),
                Err(now) => word = now,
            }
        }
    }

    /// How many calls others have made, once all that were claimed are made and
    /// nothing is left.
    #[inline(always)]
    pub(crate) fn over(&self) -> Option<usize> {
        // Acquire: partner is the swap in `next`; their results are to be seen.
        let state = State::of(self.state.load(Acquire));
        (state.made == state.last && state.first == state.last).then_some(state.made)
    }

    /// Makes calls from the end, claimed in chunks as by [`last`](Self::last), as long as there
    /// are some. By the requesting thread.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`](crate::Requester::run_raw), for the calls offered.
    #[inline(always)]
    pub(crate) unsafe fn make_last(&self, share: usize) {
        while let Some(chunk) = self.last(share) {
            // SAFETY: the caller vouches for the calls; claimed just now.
            unsafe { self.calls().make(chunk, |_| ()) };
        }
    }

    /// Repairs a dead thread's chunk: answers the call that it died at, and makes those that
    /// it had claimed but not begun. By the requesting thread.
    ///
    /// # Safety
    /// As for [`make_last`](Self::make_last), and the claimer of the chunk is dead.
    pub(crate) unsafe fn repair(&self, left: &Left) {
        // SAFETY: nobody else is at what the dead thread has claimed.
        let (_, died) = unsafe { self.calls().part(left.at..left.at + 1) };
        died.fill(OWNER_DIED);
        // SAFETY: as above.
        unsafe { self.calls().make(left.at + 1..left.chunk.end, |_| ()) };
        // The lowest field, which does not overflow: all of them fit in.
        self.state.fetch_add(left.chunk.len() as u64, AcqRel);
    }

    /// How many calls others have claimed so far.
    pub(crate) fn claimed(&self) -> usize {
        State::of(self.state.load(Relaxed)).first
    }

    /// Where the calls stand. For a thread that has claimed some and not made them yet.
    #[inline(always)]
    pub(crate) fn calls(&self) -> Calls {
        Calls { requests: self.requests.load(Relaxed), results: self.results.load(Relaxed) }
    }

    /// What changes when it is over.
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.state
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::config::MAX_SLOTS;

    const NOWHERE: Calls = Calls { requests: std::ptr::null(), results: std::ptr::null_mut() };

    #[test]
    fn chunks_get_shorter_towards_the_end() {
        let chunks = |count: usize, share: usize, most: usize| {
            let offer = Offer::default();
            offer.open(NOWHERE, count, most);
            let mut made = 0;
            let chunks: Vec<usize> = std::iter::from_fn(|| {
                made = offer.next(made, share)?.len();
                Some(made)
            })
            .collect();
            assert_eq!((chunks.iter().sum(), offer.over()), (count, Some(count)));
            chunks
        };
        assert_eq!(chunks(28, 2, 32), [7, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(chunks(12, 2, 1), [1; 12]);
        assert_eq!(chunks(2, 64, 32), [1, 1]);
        let longest = chunks(MAX_SLOTS, 2, 32);
        assert!(longest.is_sorted_by(|a, b| a >= b) && longest[0] == 32, "{longest:?}");
    }

    #[test]
    fn nothing_is_there_before_it_is_offered_and_after_it_is_over() {
        let offer = Offer::default();
        assert!(!offer.has_work() && offer.next(0, 2).is_none() && offer.last(2).is_none());
        offer.open(NOWHERE, 3, 1);
        assert_eq!((offer.last(2), offer.next(0, 2), offer.over()), (Some(2..3), Some(0..1), None));
        assert_eq!((offer.last(2), offer.claimed()), (Some(1..2), 1));
        // Nothing is left, and one is not made yet.
        assert!(!offer.has_work() && offer.over().is_none());
        assert_eq!((offer.next(1, 2), offer.over()), (None, Some(1)));
    }

    #[test]
    fn every_call_is_claimed_once_however_many_claim() {
        const BATCHES: u32 = 200;
        let (offer, ends) = (Offer::default(), AtomicBool::new(false));
        let made: Vec<AtomicU32> = (0..MAX_SLOTS).map(|_| AtomicU32::new(0)).collect();
        let make = |chunk: Range<usize>| {
            chunk.clone().for_each(|at| _ = made[at].fetch_add(1, Relaxed));
            chunk.len()
        };
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    let mut last = 0;
                    while !ends.load(Relaxed) {
                        last = offer.next(last, 4).map_or(0, make);
                    }
                });
            }
            for batch in 1..=BATCHES {
                let count = MAX_SLOTS / (1 + batch as usize % 7);
                offer.open(NOWHERE, count, 1 + batch as usize % 40);
                while offer.last(4).map(make).is_some() {}
                while offer.over().is_none() {
                    thread::yield_now();
                }
                let counts = made.iter().map(|made| made.swap(0, Relaxed));
                assert!(counts.enumerate().all(|(at, made)| made == u32::from(at < count)));
            }
            ends.store(true, Relaxed);
        });
    }
}
