//! One requesting thread's line: what it offers to processing threads, a batch or a single
//! call. 64 bytes, of the page that all share (`struct parasc_line`, node/kernel/uapi/parasc.h).
//!
//! ```text
//!        0               first                  last             calls
//!        ├─────────────────┼──────────────────────┼────────────────┤
//!        claimed by         nobody's yet           claimed by the
//!        processing threads ►                    ◄ requesting thread
//!
//!   bits 0–15   16–31   32–47   48–63
//!        made   first   last    call      a system call's number, or BATCH
//! ```
//!
//! # The protocol
//! `first`, `last` and how many of the calls before `first` have been `made` are one word
//! with the number of the `call`, and while an offer lasts each change but one is a swap of
//! it: a claim takes calls that nobody else has, whichever offer it comes upon. It is over
//! when `made` = `first` = `last`.
//!
//! | change | by | order |
//! |---|---|---|
//! | `made`, `first` = 0, `last` = calls, `call`; the other words before it | the requesting thread, whose last offer is over | Release |
//! | `made` grows by what was claimed before, `first` by the next chunk | a processing thread, in one swap | Acquire, Release |
//! | `last` shrinks by a chunk | the requesting thread | Relaxed |
//! | `last` grows by one, of the batch of requests placed by hand (`placed.rs`) | who has placed the next one | Release |
//! | `made` = 1, after the result, of a single call | who has claimed it; there is nothing left that anybody else could swap | Release |
//! | over? | the requesting thread, which waits for it | Acquire |
//!
//! **A single call** has its number in the word, its arguments in the line and its result
//! too, so that each way takes one transfer of the line. **A batch** stands where it stands:
//! the line says where requests and results are, and how many calls to claim at once.
//!
//! # Why each call is made once
//! What is claimed is claimed by a swap that finds the word as it was read, so `first` and
//! `last` never cross, and no two claims have a call in common. The word may be that of a
//! later offer than the one that was looked at: then the claim is of the later one. So
//! whoever has claimed looks at `call` in the word that it has swapped, and at the other
//! words after the swap: they are written before the word, and stay until the offer is over,
//! for which the requesting thread waits, and which it cannot be before what was claimed is
//! made. How many to claim at once is only advice: the requesting thread may change it meanwhile. A stale look costs a swap that fails.
//!
//! An offer has no status for each call: the claimer's note (`claim.rs`) names the chunk and
//! the call that it is at. If the claimer dies, the requesting thread repairs from that note.
//!
//! The area is memory of this process alone, and what stands there is believed: who offers
//! has checked it. The kernel module that serves the same lines checks what it reads.

use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use kumiki_sys::syscall::MAX_ARGS;

use crate::claim::{DeadChunk, OWNER_DIED};
use crate::execute::call;
use crate::primitive::{AtomicI64, AtomicU64};
use kumiki_calls::Request;

/// Calls that an offer can have: a field of its word.
pub(crate) const MOST: usize = u16::MAX as usize;

/// Value in place of a call's number: the calls stand elsewhere.
pub(crate) const BATCH: u16 = u16::MAX;

/// Addresses of the calls of a batch, and of their results.
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
        for at in chunk {
            begins(at);
            // SAFETY: the caller vouches for the request …
            let request = unsafe { self.request(at) };
            // SAFETY: … for its call …
            let ret_val = unsafe { call(request) };
            // SAFETY: … and for the place of its result.
            unsafe { self.answer(at, ret_val) };
        }
    }

    /// Call `at`.
    ///
    /// # Safety
    /// `requests` is valid for it, and nobody writes to it, as long as it is used.
    #[inline(always)]
    pub(crate) unsafe fn request<'a>(self, at: usize) -> &'a Request {
        // SAFETY: within what is valid.
        let request = unsafe { self.requests.add(at) };
        // SAFETY: as above.
        unsafe { &*request }
    }

    /// Stores a result. Others may look whether it is there.
    ///
    /// # Safety
    /// `results` is valid for `at`, where nobody else writes.
    #[inline(always)]
    pub(crate) unsafe fn answer(self, at: usize, ret_val: i64) {
        // SAFETY: the caller vouches for this part.
        let result = unsafe { self.results.add(at) };
        // SAFETY: as above; aligned, and written to like this only.
        let result = unsafe { std::sync::atomic::AtomicI64::from_ptr(result) };
        // Release: partner is who looks (`placed.rs`).
        result.store(ret_val, Release);
    }
}

/// The word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfferWord {
    made: usize,
    first: usize,
    last: usize,
    call: u16,
}

impl OfferWord {
    #[inline(always)]
    fn of(word: u64) -> Self {
        let field = |at: u32| word >> (16 * at) & MOST as u64;
        OfferWord {
            made: field(0) as usize,
            first: field(1) as usize,
            last: field(2) as usize,
            call: field(3) as u16,
        }
    }

    #[inline(always)]
    fn word(self) -> u64 {
        let OfferWord { made, first, last, call } = self;
        made as u64 | (first as u64) << 16 | (last as u64) << 32 | u64::from(call) << 48
    }

    /// True if there is anything to claim.
    #[inline(always)]
    pub(crate) fn has_work(self) -> bool {
        self.first < self.last
    }

    /// True if it is a call whose arguments and result are in the line.
    #[inline(always)]
    pub(crate) fn is_single(self) -> bool {
        self.call != BATCH
    }

    /// Number of calls that nobody has claimed.
    pub(crate) fn waiting(self) -> usize {
        self.last.saturating_sub(self.first)
    }

    /// One past its last call that nobody has claimed; calls placed by hand move it on.
    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        self.last
    }

    #[inline(always)]
    pub(crate) fn is_over(self) -> bool {
        self.made == self.last && self.first == self.last
    }

    /// Half of one part in `share` of what is nobody's, `most` at most; 0 if there is
    /// nothing. So the chunks get shorter towards the end, where all are to be ready at
    /// the same time.
    fn chunk(self, share: usize, most: usize) -> usize {
        let left = self.waiting();
        (left / (2 * share)).min(most).max(1).min(left)
    }
}

/// Offsets in the words of a batch.
pub(crate) const REQUESTS: usize = 0;
pub(crate) const RESULTS: usize = 1;
pub(crate) const AT_ONCE: usize = 2;
/// Bits of seats that are to leave it to others, two words: a seat's number modulo [`SEATS`]. None
/// are set of an offer for all.
const LEFT_OUT: usize = 3;
/// Threads that it is for, the requesting one among them; 0 for all.
const THREADS: usize = 5;
/// Seats that are told apart.
const SEATS: usize = 128;

/// Threads that an offer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Takers {
    left_out: [u64; 2],
    threads: usize,
}

impl Takers {
    /// All that there are.
    pub(crate) const ALL: Takers = Takers { left_out: [0; 2], threads: 0 };

    /// The threads of these seats, and the requesting one. Of more seats than [`SEATS`] others may
    /// come that share a bit with one of these.
    pub(crate) fn of(seats: impl Iterator<Item = usize>) -> Self {
        let none = Takers { left_out: [u64::MAX; 2], threads: 1 };
        seats.fold(none, |mut takers, seat| {
            takers.left_out[seat % SEATS / 64] &= !(1 << (seat % 64));
            takers.threads += 1;
            takers
        })
    }
}

/// One requesting thread's line (`struct parasc_line`, node/kernel/uapi/parasc.h).
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line {
    state: AtomicU64,
    /// Arguments of a single call, those that do not count 0; of a batch where it
    /// stands, and how many calls are claimed at once at most.
    words: [AtomicU64; MAX_ARGS],
    /// Result of a single call.
    ret_val: AtomicI64,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Line>() == 64 && align_of::<Line>() == 64);
    assert!(std::mem::offset_of!(Line, words) == 8);
    assert!(std::mem::offset_of!(Line, ret_val) == 56);
};

impl Line {
    /// The word, as it was a moment ago.
    #[inline(always)]
    pub(crate) fn look(&self) -> OfferWord {
        OfferWord::of(self.state.load(Relaxed))
    }

    /// True if there is something to claim, and not by others than the thread of this seat. A look
    /// that comes too late or too early does no harm: it looks again, and who claims claims what
    /// is there.
    #[inline(always)]
    pub(crate) fn is_for(&self, seat: usize) -> bool {
        // Acquire: partner is `open`. Of a later offer its words may be there already.
        let state = OfferWord::of(self.state.load(Acquire));
        let left_out = || self.words[LEFT_OUT + seat % SEATS / 64].load(Relaxed) >> (seat % 64) & 1;
        state.has_work() && (state.is_single() || left_out() == 0)
    }

    /// Offers so many calls to all. By the requesting thread, whose last offer is over.
    #[inline]
    pub(crate) fn open(&self, calls: Calls, count: usize, most: usize) {
        self.open_for(Takers::ALL, calls, count, most);
    }

    /// Offers so many calls to some. By the requesting thread, whose last offer is over.
    #[inline]
    pub(crate) fn open_for(&self, takers: Takers, calls: Calls, count: usize, most: usize) {
        self.words[LEFT_OUT].store(takers.left_out[0], Relaxed);
        self.words[LEFT_OUT + 1].store(takers.left_out[1], Relaxed);
        self.words[THREADS].store(takers.threads as u64, Relaxed);
        self.words[REQUESTS].store(calls.requests.expose_provenance() as u64, Relaxed);
        self.words[RESULTS].store(calls.results.expose_provenance() as u64, Relaxed);
        self.words[AT_ONCE].store(most as u64, Relaxed);
        // Release: partners are the swaps in `next` and `take`.
        self.state.store(OfferWord { made: 0, first: 0, last: count, call: BATCH }.word(), Release);
    }

    /// Changes how many calls of a batch are claimed at once, at most. By the requesting thread: who
    /// claims meanwhile goes by either number.
    pub(crate) fn claim_at_most(&self, most: usize) {
        self.words[AT_ONCE].store(most as u64, Relaxed);
    }

    /// Appends call `at` of a batch, if the offer ends there, and says whether others waited
    /// before. By who has written it there.
    #[inline]
    pub(crate) fn append(&self, at: usize) -> Option<bool> {
        let mut word = self.state.load(Relaxed);
        loop {
            let state = OfferWord::of(word);
            if state.last != at {
                return None;
            }
            let after = OfferWord { last: at + 1, ..state };
            // Release: partner is the swap in `next`.
            match self.state.compare_exchange_weak(word, after.word(), Release, Relaxed) {
                Ok(_) => return Some(state.has_work()),
                Err(now) => word = now,
            }
        }
    }

    /// Lets a batch go on at call `at`, if it is over as `seen` shows. By who may append there.
    pub(crate) fn go_on(&self, seen: OfferWord, at: usize) -> bool {
        let after = OfferWord { made: at, first: at, last: at, ..seen };
        let swap = || self.state.compare_exchange(seen.word(), after.word(), Relaxed, Relaxed);
        seen.is_over() && swap().is_ok()
    }

    /// Number of calls that are not said to be made.
    pub(crate) fn under_way(&self) -> usize {
        // Acquire: partner is the swap in `next`.
        let state = OfferWord::of(self.state.load(Acquire));
        state.last - state.made
    }

    /// Offers one call, which is not number [`BATCH`]. By the requesting thread, whose last
    /// offer is over.
    #[inline(always)]
    pub(crate) fn open_one(&self, request: &Request) {
        for (at, (to, from)) in self.words.iter().zip(&request.args).enumerate() {
            let counts = at < usize::from(request.args_num);
            to.store(if counts { *from } else { 0 }, Relaxed);
        }
        let state = OfferWord { made: 0, first: 0, last: 1, call: request.sysnum };
        // Release: partners are the swaps in `next` and `take`.
        self.state.store(state.word(), Release);
    }

    /// Claims the single call that `seen` shows: `true` for one caller only.
    #[inline(always)]
    pub(crate) fn take(&self, seen: OfferWord) -> bool {
        let after = OfferWord { first: seen.last, ..seen };
        // Acquire: partner is `open_one`.
        self.state.compare_exchange(seen.word(), after.word(), Acquire, Relaxed).is_ok()
    }

    /// The single call that the caller has claimed as `seen` shows.
    #[inline(always)]
    pub(crate) fn taken(&self, seen: OfferWord) -> Request {
        Request {
            sysnum: seen.call,
            args_num: MAX_ARGS as u16,
            args: std::array::from_fn(|at| self.words[at].load(Relaxed)),
        }
    }

    /// Gives the result of the single call that the caller has claimed as `seen` shows.
    #[inline(always)]
    pub(crate) fn finish(&self, seen: OfferWord, ret_val: i64) {
        self.ret_val.store(ret_val, Relaxed);
        let over = OfferWord { made: seen.last, first: seen.last, ..seen };
        // Release: partner is `over`.
        self.state.store(over.word(), Release);
    }

    /// Says that the last `made` calls of a batch that the caller has claimed have been made,
    /// and claims the next ones, half of one part in `share` of what is left, or in as many as the
    /// offer is for. By a processing thread; `None` if there is nothing left, or a single call.
    #[inline]
    pub(crate) fn next(&self, made: usize, share: usize) -> Option<Range<usize>> {
        let mut word = self.state.load(Relaxed);
        loop {
            let state = OfferWord::of(word);
            // While calls that were claimed are not said to be made, it is their batch's.
            let most = self.words[AT_ONCE].load(Relaxed) as usize;
            let share = match self.words[THREADS].load(Relaxed) as usize {
                0 => share,
                threads => threads,
            };
            let chunk = if state.is_single() { 0 } else { state.chunk(share, most) };
            let first = state.first + chunk;
            if made + chunk == 0 {
                return None;
            }
            let after = OfferWord { made: state.made + made, first, ..state };
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
            let state = OfferWord::of(word);
            let most = match state.is_single() {
                true => 1,
                false => self.words[AT_ONCE].load(Relaxed) as usize,
            };
            let chunk = state.chunk(share, most);
            if chunk == 0 {
                return None;
            }
            let last = state.last - chunk;
            let after = OfferWord { last, ..state }.word();
            match self.state.compare_exchange_weak(word, after, Relaxed, Relaxed) {
                Ok(_) => return Some(last..state.last),
                Err(now) => word = now,
            }
        }
    }

    /// Number of calls that others have made, once all that were claimed are made and nothing is
    /// left.
    #[inline(always)]
    pub(crate) fn over(&self) -> Option<usize> {
        // Acquire: partners are the swap in `next` and the store in `finish`; their results
        // are to be seen.
        let state = OfferWord::of(self.state.load(Acquire));
        state.is_over().then_some(state.made)
    }

    /// The result of a single call that is over.
    #[inline(always)]
    pub(crate) fn result(&self) -> Option<i64> {
        self.over().map(|_| self.ret_val.load(Relaxed))
    }

    /// Makes calls from the end, claimed in chunks as by [`last`](Self::last), as long as there
    /// are some. By the requesting thread.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`](crate::Requester::run_raw), for the calls offered.
    #[inline(always)]
    pub(crate) unsafe fn make_last(&self, share: usize) {
        while let Some(chunk) = self.last(share) {
            let state = self.look();
            if state.is_single() {
                // SAFETY: the caller vouches for the call; claimed just now.
                let ret_val = unsafe { call(&self.taken(state)) };
                // Only this thread awaits it.
                self.ret_val.store(ret_val, Relaxed);
            } else {
                // SAFETY: as above.
                unsafe { self.calls().make(chunk, |_| ()) };
            }
        }
    }

    /// Repairs a dead thread's chunk: answers the call that it died at, and makes those that
    /// it had claimed but not begun. By the requesting thread.
    ///
    /// # Safety
    /// As for [`make_last`](Self::make_last), and the claimer of the chunk is dead.
    pub(crate) unsafe fn repair(&self, left: &DeadChunk) {
        if self.look().is_single() {
            self.ret_val.store(OWNER_DIED, Relaxed);
        } else {
            // SAFETY: nobody else is at what the dead thread has claimed.
            unsafe { self.calls().answer(left.at, OWNER_DIED) };
            // SAFETY: as above.
            unsafe { self.calls().make(left.at + 1..left.chunk.end, |_| ()) };
        }
        // The lowest field, which does not overflow: all of them fit in.
        self.state.fetch_add(left.chunk.len() as u64, AcqRel);
    }

    /// Number of calls that others have claimed so far.
    pub(crate) fn claimed(&self) -> usize {
        self.look().first
    }

    /// Addresses of the calls of a batch. For a thread that has claimed some and not made them yet.
    #[inline(always)]
    pub(crate) fn calls(&self) -> Calls {
        let at = |word: usize| self.words[word].load(Relaxed) as usize;
        Calls {
            requests: std::ptr::with_exposed_provenance(at(REQUESTS)),
            results: std::ptr::with_exposed_provenance_mut(at(RESULTS)),
        }
    }

    /// The number of the single call that is or was offered last.
    pub(crate) fn single(&self) -> Option<u16> {
        let state = self.look();
        state.is_single().then_some(state.call)
    }

    /// Word that changes when it is over.
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.state
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::thread;

    use super::*;

    /// Layout, for comparison with the header (`tests.rs` of the crate).
    pub(crate) const LAYOUT: &[(&str, usize)] = &[
        ("sizeof(struct parasc_line)", size_of::<Line>()),
        ("offsetof(struct parasc_line, state)", std::mem::offset_of!(Line, state)),
        ("offsetof(struct parasc_line, words)", std::mem::offset_of!(Line, words)),
        ("offsetof(struct parasc_line, ret_val)", std::mem::offset_of!(Line, ret_val)),
    ];

    const COUNT: usize = 4096;
    const NOWHERE: Calls = Calls { requests: std::ptr::null(), results: std::ptr::null_mut() };

    #[test]
    fn chunks_get_shorter_towards_the_end() {
        let chunks = |count: usize, share: usize, most: usize| {
            let line = Line::default();
            line.open(NOWHERE, count, most);
            let mut made = 0;
            let chunks: Vec<usize> = std::iter::from_fn(|| {
                made = line.next(made, share)?.len();
                Some(made)
            })
            .collect();
            assert_eq!((chunks.iter().sum(), line.over()), (count, Some(count)));
            chunks
        };
        assert_eq!(chunks(28, 2, 32), [7, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(chunks(12, 2, 1), [1; 12]);
        assert_eq!(chunks(2, 64, 32), [1, 1]);
        let longest = chunks(COUNT, 2, 32);
        assert!(longest.is_sorted_by(|a, b| a >= b) && longest[0] == 32, "{longest:?}");
    }

    #[test]
    fn nothing_is_there_before_it_is_offered_and_after_it_is_over() {
        let line = Line::default();
        assert!(!line.look().has_work() && line.next(0, 2).is_none() && line.last(2).is_none());
        line.open(NOWHERE, 3, 1);
        assert_eq!((line.last(2), line.next(0, 2), line.over()), (Some(2..3), Some(0..1), None));
        assert_eq!((line.last(2), line.claimed()), (Some(1..2), 1));
        // Nothing is left, and one is not made yet.
        assert!(!line.look().has_work() && line.over().is_none());
        assert_eq!((line.next(1, 2), line.over()), (None, Some(1)));
    }

    #[test]
    fn an_offer_is_for_those_that_it_names() {
        let line = Line::default();
        let takers = |line: &Line| [0, 1, 2, 127, 130].map(|seat| line.is_for(seat));
        assert_eq!(takers(&line), [false; 5]);
        line.open_for(Takers::of([0, 130].into_iter()), NOWHERE, 24, 32);
        // 2 has the same bit as 130.
        assert_eq!(takers(&line), [true, false, true, false, true]);
        // Half of a third, whatever number of threads there are.
        assert_eq!((line.next(0, 64), line.last(3)), (Some(0..4), Some(21..24)));
        while line.last(1).is_some() {}
        assert_eq!(line.next(4, 64), None);
        line.open(NOWHERE, 24, 32);
        assert_eq!(takers(&line), [true; 5]);
        assert_eq!(line.next(0, 2), Some(0..6));
    }

    #[test]
    fn a_single_call_and_its_result_are_in_the_line() {
        let line = Line::default();
        let mut request = Request::new(7, [1, 2, 3]);
        // What does not count is whatever it is.
        request.args[5] = 9;
        line.open_one(&request);
        let seen = line.look();
        assert!(seen.has_work() && seen.is_single() && line.result().is_none());
        assert_eq!((line.next(0, 2), line.single()), (None, Some(7)));
        assert!(line.take(seen) && !line.take(seen) && line.last(1).is_none());
        assert_eq!(line.taken(seen).args, [1, 2, 3, 0, 0, 0]);
        line.finish(seen, -5);
        assert_eq!(
            (line.result(), line.over(), line.look().has_work()),
            (Some(-5), Some(1), false)
        );
        // Taken back, or left by one that has died.
        line.open_one(&request);
        assert_eq!((line.last(1), line.over()), (Some(0..1), Some(0)));
        line.open_one(&request);
        let seen = line.look();
        assert!(line.take(seen) && line.over().is_none());
        // SAFETY: nobody is at it, and a single call has no memory.
        unsafe { line.repair(&DeadChunk { chunk: 0..1, at: 0 }) };
        assert_eq!(line.result(), Some(OWNER_DIED));
        line.open(NOWHERE, MOST, 1);
        assert!(!line.look().is_single() && line.single().is_none() && !line.take(seen));
    }

    #[test]
    fn every_call_is_claimed_once_however_many_claim() {
        const BATCHES: u32 = 200;
        let (line, ends) = (Line::default(), AtomicBool::new(false));
        let made: Vec<AtomicU32> = (0..COUNT).map(|_| AtomicU32::new(0)).collect();
        let make = |chunk: Range<usize>| {
            chunk.clone().for_each(|at| _ = made[at].fetch_add(1, Relaxed));
            chunk.len()
        };
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    let mut last = 0;
                    while !ends.load(Relaxed) {
                        last = line.next(last, 4).map_or(0, make);
                    }
                });
            }
            for batch in 1..=BATCHES {
                let count = COUNT / (1 + batch as usize % 7);
                line.open(NOWHERE, count, 1 + batch as usize % 40);
                while line.last(4).map(make).is_some() {}
                while line.over().is_none() {
                    thread::yield_now();
                }
                let counts = made.iter().map(|made| made.swap(0, Relaxed));
                assert!(counts.enumerate().all(|(at, made)| made == u32::from(at < count)));
            }
            ends.store(true, Relaxed);
        });
    }
}
