//! By how many threads batches are shared, where the kernel lets one thread on at a time, and where it does not.
//!
//! The wall is made up: reads of an open file of /proc are made one after the other, as each holds that file's
//! mutex while the kernel writes down what it says. Of as many open files they are not.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Instant;

use kumiki_parasc::{Config, Request};

use super::{ends, engine, run};

const FILES: usize = 224;
/// Bytes of each that are read.
const LENGTH: usize = 1024;
/// Of so many calls one asks which thread makes it.
const ASKS: usize = 8;
/// Batches until the number is found, and those that are looked at.
const LEARNS: usize = 400;
const SEEN: usize = 100;

/// Share of the calls that others make, and how many threads make some.
fn shared(files: usize) -> (f64, f64) {
    ends(move || {
        let open = |_| File::open("/proc/self/status").unwrap();
        let files: Vec<File> = (0..files).map(open).collect();
        let mut read = vec![0_u8; FILES * LENGTH];
        let mut places = read.chunks_exact_mut(LENGTH).map(|place| place.as_mut_ptr() as u64);
        let mut fds = files.iter().map(|file| file.as_raw_fd() as u64).cycle();
        let call = |at: usize| {
            if at % ASKS == 0 {
                return Request::new(libc::SYS_gettid, []);
            }
            let (fd, place) = (fds.next().unwrap(), places.next().unwrap());
            Request::new(libc::SYS_pread64, [fd, place, LENGTH as u64, 0])
        };
        let batch: Vec<Request> = (0..FILES / (ASKS - 1) * ASKS).map(call).collect();
        let engine = engine(Config { wrong_thread_answers: true, ..Config::default() });
        let mut requester = engine.requester().unwrap();
        let own = i64::from(rustix::thread::gettid().as_raw_pid());
        for _ in 0..LEARNS {
            run(&mut requester, &batch);
        }
        let (mut others, mut threads) = (0, 0);
        for _ in 0..SEEN {
            let results = run(&mut requester, &batch);
            assert!(results.iter().all(|result| *result > 0), "{results:?}");
            let mut makers: Vec<i64> = results.into_iter().step_by(ASKS).collect();
            others += makers.iter().filter(|maker| **maker != own).count();
            makers.sort_unstable();
            makers.dedup();
            threads += makers.len();
        }
        let asked = (SEEN * batch.len() / ASKS) as f64;
        (others as f64 / asked, threads as f64 / SEEN as f64)
    })
}

/// Speed of four threads that read, each of its own open file, in that of one. Emulated cpus may have few
/// real ones.
fn scales() -> f64 {
    let reads = || {
        let file = File::open("/proc/self/status").unwrap();
        let mut read = [0; LENGTH];
        (0..10 * FILES).for_each(|_| _ = file.read_at(&mut read, 0).unwrap());
    };
    let took = |threads: usize| {
        let begin = Instant::now();
        thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(reads)));
        begin.elapsed().as_secs_f64()
    };
    took(1);
    4.0 * took(1) / took(4)
}

#[test]
fn who_would_wait_at_a_wall_is_not_asked() {
    let before = scales();
    let ((free, most), (walled, least)) = (shared(FILES), shared(1));
    let speed = before.min(scales());
    println!(
        "calls that others make: {free:.2} by {most:.1} threads; {walled:.2} by {least:.1} at a wall; \
         four threads are {speed:.2} times as fast as one"
    );
    let cpus = thread::available_parallelism().unwrap().get();
    if cpus < 4 || speed < 1.7 {
        println!("passed over: {cpus} cpus, of which other programs have some");
        return;
    }
    assert!(free > 0.1 && walled < free / 2.0 && least < most, "{free} {walled} {most} {least}");
}
