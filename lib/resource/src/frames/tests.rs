use std::collections::BTreeSet;
use std::sync::atomic::AtomicPtr;
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

use super::home::Home;
use super::*;

/// A pool of which no other takes anything: tests run beside each other.
fn alone() -> Frames {
    let home = Home { returned: AtomicPtr::default(), next: None };
    Frames::of(Box::leak(Box::new(home)))
}

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
    let mut pool = alone();
    let many = 2 * HAND + 7;
    let round = |pool: &mut Frames| {
        let frames: Vec<_> = (0..many).map(|_| pool.take_own().unwrap()).collect();
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
        assert!(round(&mut pool) == first);
    }
    assert_eq!(pool.bytes(), bytes);
}

#[test]
fn what_others_have_free_is_taken_before_more_is_asked_for() {
    // Other tests' pools may take all that is free meanwhile, though not each time.
    assert!((0..20).any(|_| a_pool_takes_of_what_another_has_free()));
}

/// True if a pool that would have to grow took a frame that another one had put.
fn a_pool_takes_of_what_another_has_free() -> bool {
    let [mut first, mut second] = [Frames::new(), Frames::new()];
    let frames: Vec<_> = (0..4 * HAND).map(|_| first.take().unwrap()).collect();
    let all: BTreeSet<_> = frames.iter().map(|frame| frame.as_ptr().addr()).collect();
    for frame in frames {
        // SAFETY: taken above, and used no more.
        unsafe { first.give(frame) };
    }
    first.put_all();
    // A place's pool takes nothing elsewhere.
    let own = second.take_own().unwrap();
    assert_eq!(second.bytes(), CHUNK);
    let more: Vec<_> = (0..CHUNK / FRAME - 2).map(|_| second.take_own().unwrap()).collect();
    assert!(more.iter().chain([&own]).all(|frame| !all.contains(&frame.as_ptr().addr())));
    assert_eq!(second.bytes(), CHUNK);
    // From here on it would have to grow.
    let of_first = second.take().unwrap();
    let has_grown = second.bytes() > CHUNK;
    // SAFETY: taken above, and used no more.
    unsafe { second.give(of_first) };
    second.put_all();
    !has_grown
}

#[test]
fn many_threads_take_each_other_s_and_no_frame_has_two_users() {
    let threads: Vec<_> = (0..4_u8)
        .map(|n| {
            thread::spawn(move || {
                let mut pool = Frames::new();
                for round in 0..20 {
                    let count = if (round + n) % 4 == 0 { 3 * HAND } else { 10 };
                    let frames: Vec<_> = (0..count).map(|_| pool.take().unwrap()).collect();
                    frames.iter().for_each(|frame| fill(*frame, n));
                    thread::yield_now();
                    assert!(frames.iter().all(|frame| holds(*frame, n)));
                    for frame in frames {
                        // SAFETY: taken above, and used no more.
                        unsafe { pool.give(frame) };
                    }
                    pool.put_all();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn frames_freed_elsewhere_come_home_and_are_used_again() {
    let mut pool = alone();
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
        let frames: Vec<_> = (0..100).map(|_| Sent(pool.take_own().unwrap())).collect();
        ever.extend(frames.iter().map(|Sent(frame)| frame.as_ptr().addr()));
        send.send(frames).unwrap();
        is_done.recv().unwrap();
    }
    drop(send);
    other.join().unwrap();
    assert_eq!((ever.len(), pool.bytes()), (100, CHUNK));
}
