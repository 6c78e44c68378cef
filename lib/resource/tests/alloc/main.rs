//! Pages as the allocator of a whole program, which this is: a process of its own.

use std::collections::HashMap;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use kumiki_resource::{PageAlloc, page};

#[path = "../child/mod.rs"]
mod child;

#[global_allocator]
static ALLOCATOR: PageAlloc = PageAlloc::SYSTEM;

#[test]
fn blocks_of_all_sizes_grow_and_shrink_and_go_to_other_threads() {
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let other = thread::spawn(move || {
        let mut bytes = 0;
        for block in receive {
            assert!(block.iter().all(|byte| *byte == block[0]), "{} bytes", block.len());
            bytes += block.len();
        }
        bytes
    });
    let mut sent = 0;
    for round in 0..2000_usize {
        let mut block = vec![round as u8; 1];
        let sizes = [100, 2048, 2049, 3000, 4096, 4097, 9000];
        // Each size from each other one.
        let end = sizes[round % sizes.len()];
        block.reserve_exact(sizes[(round / sizes.len()) % sizes.len()] - 1);
        block.resize(end, round as u8);
        block.shrink_to_fit();
        sent += block.len();
        send.send(block).unwrap();
    }
    drop(send);
    assert_eq!(other.join().unwrap(), sent);
}

#[test]
fn zeroed_blocks_are_zero() {
    for _ in 0..100 {
        let mut block = vec![0_u8; 4096];
        assert!(block.iter().all(|byte| *byte == 0));
        assert_eq!(block.as_ptr().addr() % 4096, 0);
        block.fill(1);
    }
}

#[test]
fn many_threads_end_with_pools_of_their_own() {
    // More than a list of pools has room for in a small block.
    for _ in 0..3 {
        let go = Arc::new(Barrier::new(150));
        let threads: Vec<_> = (0..150_u64)
            .map(|n| {
                let go = Arc::clone(&go);
                thread::spawn(move || {
                    let map: HashMap<u64, [u64; 8]> = (0..40).map(|key| (key, [n; 8])).collect();
                    let page = vec![n; 512];
                    go.wait();
                    map.values().all(|value| value[7] == n) && page[511] == n
                })
            })
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    }
}

/// Threads at a time, of which one has many pages, and pages that it has.
const THREADS: usize = 8;
const MANY: usize = 4096;

/// Blocks that are pages, on their way to who frees them.
type Sent = mpsc::Sender<Vec<Vec<u8>>>;

fn short_threads(round: usize, send: &Sent) {
    let all_have_a_pool = Barrier::new(THREADS);
    thread::scope(|scope| {
        for n in 0..THREADS {
            let all_have_a_pool = &all_have_a_pool;
            scope.spawn(move || {
                let first = Vec::<u8>::with_capacity(4096);
                all_have_a_pool.wait();
                if n == round % THREADS {
                    send.send((1..MANY).map(|_| Vec::with_capacity(4096)).collect()).unwrap();
                }
                drop(first);
            });
        }
    });
}

#[test]
fn what_is_kept_is_little_more_than_what_was_in_use() {
    child::in_a_child("what_is_kept_is_little_more_than_what_was_in_use", || {
        let (send, receive) = mpsc::channel();
        let (freed, is_freed) = mpsc::channel();
        let other = thread::spawn(move || {
            for blocks in receive {
                drop(blocks);
                freed.send(()).unwrap();
            }
        });
        for round in 0..4 * THREADS {
            short_threads(round, &send);
            is_freed.recv().unwrap();
        }
        drop(send);
        other.join().unwrap();
        // Threads that live and free what they had: each at its time.
        let (go, is_over) = (Barrier::new(1), Barrier::new(THREADS + 1));
        thread::scope(|scope| {
            let mut before = None;
            for _ in 0..THREADS {
                let (tell, told) = mpsc::channel::<()>();
                let is_over = &is_over;
                let turn = before.replace(told);
                scope.spawn(move || {
                    turn.map(|turn| turn.recv());
                    drop((0..MANY).map(|_| Vec::<u8>::with_capacity(4096)).collect::<Vec<_>>());
                    tell.send(()).ok();
                    is_over.wait();
                });
            }
            go.wait();
            is_over.wait();
        });
        // 16 MiB in use, and what each of ten threads may keep; all of them together have had
        // more than 500.
        let most = (16 << 20) + (THREADS + 2) * (8 << 20);
        assert!((16 << 20..=most).contains(&page::bytes()), "{} of {most}", page::bytes());
    });
}
