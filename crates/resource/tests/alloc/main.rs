//! Pages as the allocator of a whole program, which this is: a process of its own.

use std::collections::HashMap;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use kumiki_resource::PageAlloc;

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
