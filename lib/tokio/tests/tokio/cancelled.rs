//! Futures that are dropped at each point.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use kumiki_tokio::{File, fs, read_ranges};

use super::{content, file, make_cold};

/// Polls it so many times, some time apart, and drops it.
fn poll_and_drop<F: Future>(future: F, times: u32) {
    let mut future = pin!(future);
    for _ in 0..times {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_dropped_read_never_writes_to_the_caller_s_buffer() {
    let temporary = file(&content(4_000_000));
    let opened = futures_lite::future::block_on(File::open(temporary.path())).unwrap();
    for round in 0..60 {
        make_cold(temporary.as_file());
        let mut buffer = vec![0xee_u8; 65_536];
        let mut future = Box::pin(opened.read_at(&mut buffer, round * 65_536));
        let look = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(future);
        if look.is_pending() {
            // Another thread is at it, or will never be.
            let seen = buffer.clone();
            std::thread::sleep(Duration::from_millis(1));
            assert!(buffer == seen);
        }
    }
}

#[test]
fn whatever_is_dropped_half_way_leaves_no_descriptor_open() {
    let temporary = file(&content(1_000_000));
    let path = temporary.path();
    let opened = futures_lite::future::block_on(File::open(path)).unwrap();
    // Threads and what they need are there before it is counted.
    futures_lite::future::block_on(opened.sync_data()).unwrap();
    let before = descriptors();
    let ranges: Vec<_> = (0..100_u64).map(|at| at * 10_000..at * 10_000 + 100).collect();
    for times in 0..4 {
        for _ in 0..50 {
            make_cold(temporary.as_file());
            poll_and_drop(File::open(path), times);
            poll_and_drop(fs::read(path), times);
            poll_and_drop(fs::metadata(path), times);
            poll_and_drop(fs::read_dir("/proc/self"), times);
            poll_and_drop(read_ranges(&opened, &ranges), times);
            poll_and_drop(opened.sync_data(), times);
            poll_and_drop(opened.write_all_at(b"x", 0), times);
        }
    }
    for _ in 0..1000 {
        if descriptors() <= before {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} descriptors, and {before} before", descriptors());
}

#[test]
fn a_runtime_that_ends_with_reads_under_way_ends() {
    let temporary = file(&content(4_000_000));
    for _ in 0..5 {
        make_cold(temporary.as_file());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let opened = runtime.block_on(File::open(temporary.path())).unwrap();
        for task in 0..20 {
            let opened = opened.clone();
            runtime.spawn(async move {
                for at in 0..100 {
                    opened.read_at(&mut [0; 4096], (task * 100 + at) * 2000).await.unwrap();
                }
            });
        }
        drop(runtime);
    }
}
