//! 4 KiB pages of one allocator: a pair, many, and those that another thread frees.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::child::turns;
use crate::pair::Pair;
use crate::stopwatch::{Amount, Stopwatch};

use super::kept;
use super::pages::{Pages, touch};
use super::request::{BATCH, Request};
use super::together::Together;

/// Serves as the allocator `pages`.
pub(crate) fn serve<P: Pages>(pages: P, pair: Pair) -> Result<()> {
    let pair_of_calls = move || {
        let page = pages.allocate();
        touch(page);
        // SAFETY: allocated just now, and this is its only user.
        unsafe { pages.free(page) };
    };
    let mut pairs = Together::both(pair_of_calls, pair, move || pair_of_calls)?;
    let mut batch = vec![NonNull::dangling(); BATCH];
    let mut batches = Together::alone(move || {
        for place in &mut batch {
            *place = pages.allocate();
            touch(*place);
        }
        for &page in &batch {
            // SAFETY: allocated above, and this is its only user.
            unsafe { pages.free(page) };
        }
    });
    let mut remote = None;
    turns(|request| match request {
        Request::Alloc { threads } => Ok(pairs.turn(threads)),
        Request::AllocBusy { .. } => Ok(pairs.turn(1)),
        Request::Kept => kept::mib(pages).map(|mib| Some(vec![mib])),
        Request::AllocBatch => {
            let samples = batches.turn(1);
            Ok(samples.map(|all| all.into_iter().map(|ns| ns / BATCH as f64).collect()))
        }
        Request::FreeRemote => {
            let remote = match &mut remote {
                Some(remote) => remote,
                none => none.insert(Remote::start(pages, pair)?),
            };
            Ok(Some(remote.turn()))
        }
        _ => Ok(None),
    })
}

/// Pages under way between the two threads.
const RING: u64 = 1024;
/// Pages that go over together: a cache line of addresses.
const GROUP: u64 = 8;
/// Pages of a sample.
const SAMPLE: u64 = 2 * RING;

const REMOTE: Amount = Amount {
    warm: 4,
    warm_span: Duration::from_millis(1),
    least: 5,
    most: 20,
    span: Duration::from_millis(8),
};

#[repr(align(128))]
struct OwnBlock<T>(T);

/// The plainest ring: each side writes its own index, a group at a time.
struct Ring {
    places: Box<[AtomicPtr<u8>]>,
    sent: OwnBlock<AtomicU64>,
    freed: OwnBlock<AtomicU64>,
}

/// This thread allocates, the one on the other cpu frees.
struct Remote<P> {
    pages: P,
    ring: Arc<Ring>,
    sent: u64,
    /// As last seen.
    freed: u64,
    other: thread::Thread,
    watch: Stopwatch,
}

impl<P: Pages> Remote<P> {
    fn start(pages: P, pair: Pair) -> Result<Self> {
        let ring = Arc::new(Ring {
            places: (0..RING).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            sent: OwnBlock(AtomicU64::new(0)),
            freed: OwnBlock(AtomicU64::new(0)),
        });
        let its = Arc::clone(&ring);
        let thread =
            pair.on_helper(|| thread::Builder::new().spawn(move || free(pages, &its)))??;
        let other = thread.thread().clone();
        Ok(Remote { pages, ring, sent: 0, freed: 0, other, watch: Stopwatch::new() })
    }

    fn turn(&mut self) -> Vec<f64> {
        let watch = self.watch.clone();
        self.other.unpark();
        watch.means(REMOTE, |watch| {
            let start = watch.clock().start();
            (0..SAMPLE).for_each(|_| self.send());
            let ns = watch.ns(start, watch.clock().end());
            ns / SAMPLE as f64
        })
    }

    #[inline(always)]
    fn send(&mut self) {
        let page = self.pages.allocate();
        touch(page);
        let mut looks: u32 = 0;
        while self.sent - self.freed == RING {
            std::hint::spin_loop();
            looks += 1;
            if looks.is_multiple_of(REST / 16) {
                // It may have gone to rest while this thread had no cpu.
                self.other.unpark();
            }
            self.freed = self.ring.freed.0.load(Ordering::Acquire);
        }
        self.ring.places[(self.sent % RING) as usize].store(page.as_ptr(), Ordering::Relaxed);
        self.sent += 1;
        if self.sent.is_multiple_of(GROUP) {
            self.ring.sent.0.store(self.sent, Ordering::Release);
        }
    }
}

/// Looks without a page before it rests, some milliseconds: the end of a turn.
const REST: u32 = 1 << 20;

fn free(pages: impl Pages, ring: &Ring) {
    let mut freed = 0;
    let mut looks = 0;
    loop {
        let sent = ring.sent.0.load(Ordering::Acquire);
        if sent == freed {
            std::hint::spin_loop();
            looks += 1;
            if looks > REST {
                thread::park();
                looks = 0;
            }
            continue;
        }
        looks = 0;
        while freed != sent {
            let place = &ring.places[(freed % RING) as usize];
            let page = NonNull::new(place.load(Ordering::Relaxed)).expect("a page was sent");
            // SAFETY: sent by its only user, to be freed here.
            unsafe { pages.free(page) };
            freed += 1;
            if freed.is_multiple_of(GROUP) {
                ring.freed.0.store(freed, Ordering::Release);
            }
        }
    }
}
