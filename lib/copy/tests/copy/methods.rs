//! Every method of copying against the plain one, at every alignment, between
//! pages that nobody may touch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, slice, thread};

use kumiki_copy::{Error, Method, Pair, copy, copy_raw, prepare, stream};
use kumiki_shadow::Builder;
use proptest::prelude::*;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// A helper that is spawned for each copy, so that its half is really another
/// thread's.
struct Spawn;

impl Pair for Spawn {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        thread::scope(|threads| {
            threads.spawn(theirs);
            ours();
        });
    }
}

const METHODS: [Method; 10] = [
    Method::Prefetch,
    Method::Block(1),
    Method::Block(256),
    Method::Block(1000),
    Method::Block(1024),
    Method::Block(4096),
    Method::Block(usize::MAX),
    Method::Split,
    Method::Auto,
    Method::Cold,
];

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 15)) as u8).collect()
}

/// Copies between slices that lie `offsets` into larger ones, and compares the
/// larger ones.
fn same_as_plain(len: usize, (to_at, from_at): (usize, usize), run: impl FnOnce(&mut [u8], &[u8])) {
    const MARGIN: usize = 192;
    const CANARY: u8 = 0x5a;
    let from = pattern(from_at + len + MARGIN);
    let mut to = vec![CANARY; MARGIN + to_at + len + MARGIN];
    let mut expected = to.clone();
    let place = MARGIN + to_at..MARGIN + to_at + len;
    expected[place.clone()].copy_from_slice(&from[from_at..from_at + len]);
    run(&mut to[place], &from[from_at..from_at + len]);
    // Not assert_eq: it would print both.
    assert!(to == expected, "{len} bytes, {from_at} to {to_at}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_method_copies_all_and_nothing_else(
        len in prop_oneof![0..300_usize, 0..20_000_usize, 0..200_000_usize],
        offsets in (0..130_usize, 0..130_usize),
    ) {
        for method in METHODS {
            if method == Method::Block(1) && len > 20_000 {
                continue;
            }
            same_as_plain(len, offsets, |to, from| {
                copy(&mut Spawn, to, from, method).unwrap();
            });
        }
        same_as_plain(len, offsets, |to, from| stream(to, from).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Fresh memory of some megabytes is in no cache when copied again later,
    /// or is: whichever way it chooses.
    #[test]
    fn auto_copies_large_regions(
        len in 1_000_000..9_000_000_usize,
        offsets in (0..130_usize, 0..130_usize),
    ) {
        prepare(&mut Spawn);
        same_as_plain(len, offsets, |to, from| {
            copy(&mut Spawn, to, from, Method::Auto).unwrap();
        });
    }
}

#[test]
fn a_shadow_is_such_a_helper() {
    let shadow = Builder::new().share().create();
    let mut shadow = shadow.expect("one cpu is enough for a shared one");
    prepare(&mut shadow);
    for method in METHODS {
        for len in [0, 1, 4097, 20_000, 3_000_001] {
            if method == Method::Block(1) && len > 20_000 {
                continue;
            }
            same_as_plain(len, (1, 64), |to, from| copy(&mut shadow, to, from, method).unwrap());
        }
    }
}

/// Memory between two pages that fault when touched.
struct Guarded {
    start: *mut u8,
    len: usize,
}

const PAGE: usize = 4096;

impl Guarded {
    fn new(len: usize) -> Self {
        let len = len.next_multiple_of(PAGE);
        let whole = len + 2 * PAGE;
        let (rw, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), whole, rw, private) }.unwrap();
        for guard in [start, start.wrapping_byte_add(PAGE + len)] {
            // SAFETY: one page of the mapping just made, which nobody uses.
            unsafe { mprotect(guard, PAGE, MprotectFlags::empty()) }.unwrap();
        }
        Guarded { start: start.wrapping_byte_add(PAGE).cast(), len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped readable and writable, zeros at first, borrowed from
        // the owner.
        unsafe { slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let whole = self.start.wrapping_sub(PAGE).cast();
        // SAFETY: the mapping made by `new`, and no slice of it is left.
        unsafe { munmap(whole, self.len + 2 * PAGE) }.unwrap();
    }
}

#[test]
fn no_method_touches_a_byte_beyond_either_end() {
    for len in [0, 1, 63, 64, 65, 4095, 4096, 4097, 70_001, 1_500_003] {
        let (mut to, mut from) = (Guarded::new(len), Guarded::new(len));
        for method in METHODS {
            if method == Method::Block(1) && len > 20_000 {
                continue;
            }
            for at_end in [false, true] {
                let place = if at_end { to.len - len..to.len } else { 0..len };
                from.bytes()[place.clone()].copy_from_slice(&pattern(len));
                let (to, from) = (&mut to.bytes()[place.clone()], &from.bytes()[place]);
                to.fill(0);
                copy(&mut Spawn, to, from, method).unwrap();
                assert!(to == from, "{len} bytes by {method:?}");
                to.fill(0);
                stream(to, from).unwrap();
                assert!(to == from, "{len} bytes past the caches");
            }
        }
    }
}

#[test]
fn sides_of_different_length_are_refused() {
    let mut to = [9_u8; 10];
    for method in METHODS {
        let refusal = copy(&mut Spawn, &mut to, &[0; 11], method).unwrap_err();
        assert_eq!(refusal, Error::Length { to: 10, from: 11 });
        assert!(refusal.to_string().contains("11 bytes"), "{refusal}");
    }
    assert_eq!(stream(&mut to, &[]), Err(Error::Length { to: 10, from: 0 }));
    assert_eq!(to, [9; 10]);
}

#[test]
fn blocks_of_nothing_are_refused() {
    let mut to = [9_u8; 10];
    assert_eq!(copy(&mut Spawn, &mut to, &[0; 10], Method::Block(0)), Err(Error::EmptyBlock));
    assert_eq!(to, [9; 10]);
}

#[test]
fn an_overlap_is_refused_and_nothing_written() {
    let mut bytes = pattern(300_000);
    let before = bytes.clone();
    let (start, len) = (bytes.as_mut_ptr(), 200_000);
    for method in METHODS {
        for (to, from) in [(0, 0), (0, 1), (1, 0), (0, 100_000), (100_000, 0), (0, 199_999 / 2)] {
            let (to, from) = (start.wrapping_add(to), start.wrapping_add(from));
            // SAFETY: both lie within `bytes`, which nobody else uses.
            let refusal = unsafe { copy_raw(&mut Spawn, to, from, len, method) }.unwrap_err();
            let (to, from) = (to.addr(), from.addr());
            assert_eq!(refusal, Error::Overlap { to, from, len });
            assert!(refusal.to_string().contains("memmove"), "{refusal}");
        }
    }
    assert!(bytes == before);
}

#[test]
fn neighbours_do_not_overlap() {
    let mut bytes = pattern(200_000);
    let start = bytes.as_mut_ptr();
    for method in [Method::Prefetch, Method::Block(4096), Method::Split, Method::Auto, Method::Cold]
    {
        bytes[100_000..].fill(0);
        // SAFETY: the two halves of `bytes`, which nobody else uses.
        unsafe { copy_raw(&mut Spawn, start.wrapping_add(100_000), start, 100_000, method) }
            .unwrap();
        assert!(bytes[..100_000] == bytes[100_000..], "{method:?}");
    }
}

#[test]
fn null_pointers_are_refused_unless_nothing_is_copied() {
    let mut byte = 1_u8;
    let run = |to: *mut u8, from: *const u8, len| {
        // SAFETY: a null pointer is what is looked for; the other one is
        // valid for a byte.
        unsafe { copy_raw(&mut Spawn, to, from, len, Method::Auto) }
    };
    let (good, null) = (&raw mut byte, ptr::null_mut());
    assert_eq!(run(null, good, 1), Err(Error::Null { side: "destination", len: 1 }));
    assert_eq!(run(good, null, 1), Err(Error::Null { side: "source", len: 1 }));
    assert_eq!(run(null, null, 0), Ok(()));
}

#[test]
fn a_helper_that_is_at_a_job_is_not_waited_for() {
    static GO: AtomicBool = AtomicBool::new(false);
    let Ok(mut shadow) = Builder::new().share().create() else {
        println!("skipped: needs two cpus");
        return;
    };
    prepare(&mut shadow);
    let job = || {
        let give_up = Instant::now() + Duration::from_secs(20);
        while !GO.load(Ordering::Acquire) && Instant::now() < give_up {
            thread::yield_now();
        }
    };
    shadow.fork(job).unwrap();
    let from = pattern(16 << 20);
    // Warm and from memory.
    for len in [1 << 20, 2 << 20, from.len()] {
        let mut to = vec![0; len];
        copy(&mut shadow, &mut to, &from[..len], Method::Auto).unwrap();
        copy(&mut shadow, &mut to, &from[..len], Method::Auto).unwrap();
        assert!(to == from[..len]);
    }
    GO.store(true, Ordering::Release);
    shadow.join().unwrap().unwrap();
}
