//! Several requesting threads at once, more of them than cpus.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;

use kumiki_parasc::{Config, Request};
use kumiki_sys::affinity;
use rustix::event::{EventfdFlags, eventfd};

use super::{ends, engine, getppid, parent, parents, run, warm_up};

const THREADS: usize = 12;

/// Each thread adds to one counter and to its own: nothing is lost and nothing
/// is done twice.
fn sums(help: bool) {
    ends(move || {
        let engine = Arc::new(engine(Config { help, ..Config::default() }));
        let all = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                let (engine, all) = (Arc::clone(&engine), Arc::clone(&all));
                thread::spawn(move || {
                    let mut requester = engine.requester().unwrap();
                    let own = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
                    let mut added = 0;
                    for _ in 0..100 {
                        let count = fastrand::usize(..300);
                        let numbers: Vec<u64> = (0..count).map(|_| fastrand::u64(1..9)).collect();
                        let add = |fd: u64, number: &u64| {
                            Request::new(libc::SYS_write, [fd, &raw const *number as u64, 8])
                        };
                        for fd in [own.as_raw_fd() as u64, all.as_raw_fd() as u64] {
                            let adds: Vec<Request> = numbers.iter().map(|n| add(fd, n)).collect();
                            assert_eq!(run(&mut requester, &adds), vec![8; count]);
                        }
                        added += numbers.iter().sum::<u64>();
                    }
                    let mut sum = [0; 8];
                    rustix::io::read(&own, &mut sum).unwrap();
                    assert_eq!(u64::from_ne_bytes(sum), added);
                    added
                })
            })
            .collect();
        let added: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        let mut sum = [0; 8];
        rustix::io::read(&*all, &mut sum).unwrap();
        assert_eq!(u64::from_ne_bytes(sum), added);
    });
}

#[test]
fn what_many_threads_add_comes_out() {
    sums(true);
}

#[test]
fn what_many_threads_leave_to_others_comes_out() {
    sums(false);
}

#[test]
fn a_requester_moves_from_thread_to_thread() {
    ends(|| {
        let engine = engine(Config::default());
        let mut requester = engine.requester().unwrap();
        for _ in 0..50 {
            let moved = thread::spawn(move || {
                for _ in 0..10 {
                    assert_eq!(run(&mut requester, &[getppid(); 60]), [parent(); 60]);
                }
                requester
            });
            requester = moved.join().unwrap();
        }
    });
}

#[test]
fn an_engine_binds_nothing_of_the_program() {
    let see = || affinity::current().unwrap();
    let all = move || [see(), thread::spawn(see).join().unwrap()];
    let before = all();
    let engine = engine(Config::default());
    let mut requester = engine.requester().unwrap();
    warm_up(&engine, &mut requester);
    parents(&mut requester, 300);
    assert_eq!(all(), before);
}
