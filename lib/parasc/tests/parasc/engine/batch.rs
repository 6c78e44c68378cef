//! Batches of all sizes, ways and outcomes, against what plain calls give.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use fastrand::Rng;
use kumiki_parasc::{Config, Request};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use super::{ends, engine, getppid, parent, run};

/// Bytes of the known file.
const BYTES: usize = 1 << 16;
/// Bytes that one pread asks for at most.
const MOST: usize = 64;

/// A file of known bytes.
fn known() -> (File, Vec<u8>) {
    let mut file = tempfile::tempfile().unwrap();
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(BYTES).collect();
    file.write_all(&bytes).unwrap();
    (file, bytes)
}

/// What a request is to give.
enum Expected {
    Value(i64),
    /// The file's bytes from here on, so many, in this buffer.
    Bytes(usize, usize),
}

/// Runs `count` random requests and checks every result.
fn check(requester: &mut kumiki_parasc::Requester, known: &(File, Vec<u8>), count: usize) {
    let (file, bytes) = known;
    let fd = file.as_raw_fd() as u64;
    let mut random = Rng::new();
    let mut buffers = vec![[0u8; MOST]; count];
    let mut expected = Vec::new();
    // One kind, or all of them.
    let only = random.usize(..8);
    let requests: Vec<Request> = buffers
        .iter_mut()
        .map(|buffer| {
            let (request, expects) = match if only < 4 { only } else { random.usize(..4) } {
                0 => (getppid(), Expected::Value(parent())),
                1 => {
                    let call = Request::new(libc::SYS_close, [u64::MAX]);
                    (call, Expected::Value(-i64::from(libc::EBADF)))
                }
                2 => {
                    let call = Request::new(libc::SYS_pread64, [fd, 0, 16, 0]);
                    (call, Expected::Value(-i64::from(libc::EFAULT)))
                }
                _ => {
                    let (from, len) = (random.usize(..BYTES + 8), random.usize(1..=MOST));
                    let args = [fd, buffer.as_mut_ptr() as u64, len as u64, from as u64];
                    let call = Request::new(libc::SYS_pread64, args);
                    (call, Expected::Bytes(from, len))
                }
            };
            expected.push(expects);
            request
        })
        .collect();
    let results = run(requester, &requests);
    for (at, expects) in expected.iter().enumerate() {
        match *expects {
            Expected::Value(value) => assert_eq!(results[at], value, "{:?}", requests[at]),
            Expected::Bytes(from, len) => {
                let here = &bytes[from.min(BYTES)..(from + len).min(BYTES)];
                assert_eq!(results[at], here.len() as i64);
                assert_eq!(&buffers[at][..here.len()], here, "{from} {len}");
                assert!(buffers[at][here.len()..].iter().all(|byte| *byte == 0));
            }
        }
    }
}

fn all_sizes(config: Config) {
    ends(move || {
        let slots = config.slots;
        let engine = engine(config);
        let mut requester = engine.requester().unwrap();
        let known = known();
        for round in 0..20 {
            let sizes = (0..=3 * slots).filter(|size| slots < 10 || size % 7 == round % 7);
            sizes.for_each(|size| check(&mut requester, &known, size));
        }
    });
}

#[test]
fn small_lanes() {
    all_sizes(Config { slots: 5, ..Config::default() });
}

#[test]
fn the_smallest_lane() {
    all_sizes(Config { slots: 2, ..Config::default() });
}

#[test]
fn ordinary_lanes() {
    all_sizes(Config { slots: 128, ..Config::default() });
}

#[test]
fn left_to_processing_threads() {
    all_sizes(Config { slots: 9, help: false, ..Config::default() });
    all_sizes(Config { slots: 64, help: false, ..Config::default() });
}

#[test]
fn one_cpu() {
    let cpus = CpuSet::from_iter(affinity::current().unwrap().first());
    for help in [true, false] {
        all_sizes(Config { slots: 7, cpus: Some(cpus.clone()), help, ..Config::default() });
    }
}

#[test]
fn no_cpu_at_all() {
    all_sizes(Config { slots: 7, cpus: Some(CpuSet::new()), threads: 0, ..Config::default() });
}

#[test]
fn calls_that_sleep() {
    ends(|| {
        let engine = engine(Config { slots: 16, threads: 20, ..Config::default() });
        let mut requester = engine.requester().unwrap();
        let files: Vec<File> = (0..3).map(|_| tempfile::tempfile().unwrap()).collect();
        let time = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };
        for size in (0..=48).chain([1, 2, 48, 17]) {
            let sleep = Request::new(libc::SYS_nanosleep, [&raw const time as u64, 0]);
            assert_eq!(run(&mut requester, &vec![sleep; size]), vec![0; size]);
            let sync = |at: usize| {
                Request::new(libc::SYS_fsync, [files[at % files.len()].as_raw_fd() as u64])
            };
            files.iter().for_each(|mut file| file.write_all(b"dirty").unwrap());
            let syncs: Vec<Request> = (0..size).map(sync).collect();
            assert_eq!(run(&mut requester, &syncs), vec![0; size]);
        }
        assert!(engine.threads() > 0);
    });
}

#[test]
fn a_batch_in_parts_is_whole() {
    const SIZE: usize = 16 << 10;
    // Calls dear enough that a trial is content with some of them.
    ends(|| {
        let (file, bytes) = known();
        let fd = file.as_raw_fd() as u64;
        let engine = engine(Config::default());
        let mut requester = engine.requester().unwrap();
        for count in [33, 300, 512, 1300].repeat(12) {
            let mut buffers = vec![0u8; count * SIZE];
            let at = |i: usize| i * 64 % (BYTES - SIZE);
            let pread = |(i, buffer): (usize, &mut [u8])| {
                let to = buffer.as_mut_ptr() as u64;
                Request::new(libc::SYS_pread64, [fd, to, SIZE as u64, at(i) as u64])
            };
            let requests: Vec<_> = buffers.chunks_mut(SIZE).enumerate().map(pread).collect();
            assert_eq!(run(&mut requester, &requests), vec![SIZE as i64; count]);
            for (i, buffer) in buffers.chunks(SIZE).enumerate() {
                assert!(buffer == &bytes[at(i)..][..SIZE], "call {i} of {count}");
            }
        }
    });
}
