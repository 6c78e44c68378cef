//! Every interleaving of the protocol, as far as the checker goes: each part is copied
//! once, after the caller has decided so, or the region comes back as it was. That each
//! ending is met says that the model does not miss the cases it is made for.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::{mem, ptr};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::{self, ThreadId};

use super::{Copy, Pair, copy, copy_if};
use crate::region::Region;

const PAGE: usize = 4096;
/// A page for each part.
const PAGES: usize = 2;

/// Instead of bytes: the thread that wrote them.
#[repr(C, align(4096))]
struct Page(UnsafeCell<Option<ThreadId>>);

// SAFETY: a page is written by whose region it is in; the checker reports where that is
// not so.
unsafe impl Sync for Page {}

const _: () = assert!(size_of::<Page>() == PAGE);

impl Page {
    fn by(&self) -> Option<ThreadId> {
        // SAFETY: live data; that nobody writes it now is what is checked.
        self.0.with(|by| unsafe { *by })
    }

    /// Returns who wrote it before.
    fn write(&self) -> Option<ThreadId> {
        let by = Some(thread::current().id());
        // SAFETY: live data; that nobody else is there is what is checked.
        self.0.with_mut(|page| unsafe { ptr::replace(page, by) })
    }
}

/// Pages, as many as a region has. The pointers are to bytes, and exposed for [`copy_pages`].
fn pages() -> (Vec<Page>, *mut u8) {
    let mut pages: Vec<_> = (0..PAGES).map(|_| Page(UnsafeCell::new(None))).collect();
    let start = pages.as_mut_ptr();
    start.expose_provenance();
    (pages, start.cast())
}

/// Copies parts of the pages.
fn copy_pages(part: Region<'_>) {
    let lies = part.footprint();
    assert!(lies.len > 0 && lies.len % PAGE == 0, "{} bytes are no pages", lies.len);
    for at in (0..lies.len).step_by(PAGE) {
        let from = ptr::with_exposed_provenance::<Page>(lies.from + at);
        // SAFETY: a page from `pages`, which a scene keeps until it ends.
        let from = unsafe { &*from };
        let to = ptr::with_exposed_provenance::<Page>(lies.to + at);
        // SAFETY: as above.
        let to = unsafe { &*to };
        assert!(from.by().is_some(), "copied before it was decided");
        assert!(to.write().is_none(), "copied twice");
    }
}

/// A helper that comes at any time while the caller is at work, or never.
struct Helper;

impl Pair for Helper {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        type Job<'a> = Box<dyn FnOnce() + Send + 'a>;
        // SAFETY: it ends with the thread, which is joined below; a panic ends the model.
        let theirs = unsafe { mem::transmute::<Job<'_>, Job<'static>>(Box::new(theirs)) };
        let begun = Arc::new(AtomicBool::new(false));
        let helper = {
            let begun = Arc::clone(&begun);
            thread::spawn(move || {
                if !begun.swap(true, Ordering::Relaxed) {
                    theirs();
                }
            })
        };
        ours();
        begun.swap(true, Ordering::Relaxed);
        helper.join().unwrap();
    }
}

/// Calls `run` with a region and what decides to copy it, under every interleaving; it
/// returns what came back. The endings must be `expected`: how many parts the helper has
/// copied, or `None` if the region came back.
fn check(
    run: impl Fn(Region<'static>, &(dyn Fn() + Sync)) -> Option<Region<'static>> + Send + Sync + 'static,
    expected: &[Option<usize>],
) {
    let endings = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let met = std::sync::Arc::clone(&endings);
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let ((to_pages, to), (from_pages, from)) = (pages(), pages());
        // SAFETY: valid for so many bytes, which nobody has but through this region and,
        // in atomic cells' place, the pages.
        let region = unsafe { Region::from_raw(to, from, PAGES * PAGE) }.unwrap();
        let decide = || from_pages.iter().for_each(|page| assert!(page.write().is_none()));
        let back = run(region, &decide);
        let came_back = back.is_some();
        if let Some(rest) = back {
            assert_eq!(rest.len(), PAGES * PAGE);
            copy_pages(rest);
        }
        let here = thread::current().id();
        let by: Vec<_> = to_pages.iter().map(|page| page.by().expect("not copied")).collect();
        let theirs = by.iter().filter(|&&by| by != here).count();
        met.lock().unwrap().insert((!came_back).then_some(theirs));
    });
    let endings: Vec<_> = endings.lock().unwrap().iter().copied().collect();
    assert_eq!(endings, expected);
}

/// `copy_if` with a helper that looks so many times and once more. That is once or for
/// ever: after a look in vain the checker lets the caller run to its end.
fn check_if(copies: bool, patience: u64, expected: &[Option<usize>]) {
    let run = move |region, decide: &(dyn Fn() + Sync)| {
        let way = copies.then_some(copy_pages as Copy<'_>);
        let decide = || {
            decide();
            way
        };
        let (rest, said) = copy_if(&mut Helper, region, patience, decide)?;
        assert_eq!(said.is_some(), copies);
        Some(rest)
    };
    check(run, expected);
}

#[test]
fn what_is_decided_is_copied_once() {
    check_if(true, u64::MAX, &[Some(0), Some(1), Some(2)]);
}

#[test]
fn it_is_copied_or_comes_back_if_the_helper_may_leave() {
    check_if(true, 0, &[None, Some(0), Some(1), Some(2)]);
}

#[test]
fn it_comes_back_if_nothing_is_decided() {
    for patience in [0, u64::MAX] {
        check_if(false, patience, &[None]);
    }
}

#[test]
fn without_a_question_it_is_copied_once() {
    let run = |region, decide: &(dyn Fn() + Sync)| {
        decide();
        copy(&mut Helper, region, copy_pages);
        None
    };
    check(run, &[Some(0), Some(1), Some(2)]);
}
