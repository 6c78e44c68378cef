//! Calls that were soon over, and sleep by now.

use std::os::fd::AsRawFd;
use std::time::Instant;

use kumiki_parasc::{Config, Request};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::{ends, engine, run};

const CALLS: usize = 4000;
/// Other programs have the processors for a while: what must be seen is seen in one of so many.
const TRIES: usize = 5;

/// How many threads make a batch is settled as it begins, by what such calls took before.
#[test]
fn a_long_batch_whose_calls_have_begun_to_sleep_is_made_by_many() {
    ends(|| {
        let tries = (0..TRIES).map(|_| tried());
        let faults: Vec<_> = tries.map_while(Result::err).collect();
        assert!(faults.len() < TRIES, "{faults:?}");
    });
}

/// Whether such a batch takes a third of what one thread takes at most, and the next one a sixth.
fn tried() -> Result<(), String> {
    let engine = engine(Config::default());
    let mut requester = engine.requester().unwrap();
    let nothing_comes = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let mut event = [0_u8; 12];
    let fd = nothing_comes.as_raw_fd() as u64;
    let place = event.as_mut_ptr().addr() as u64;
    let wait = |ms| Request::new(libc::SYS_epoll_pwait, [fd, place, 1, ms, 0, 0]);
    for _ in 0..300 {
        assert_eq!(run(&mut requester, &vec![wait(0); CALLS]), vec![0; CALLS]);
    }
    // The first one is taken for all.
    let mut waits = vec![wait(1); CALLS];
    waits[0] = wait(0);
    // What one thread takes on this machine as it is now, by a twentieth of them.
    let begin = Instant::now();
    for _ in 0..CALLS / 20 {
        let (mut events, limit) =
            (Vec::with_capacity(1), Timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        epoll::wait(&nothing_comes, spare_capacity(&mut events), Some(&limit)).unwrap();
    }
    let alone = begin.elapsed() * 20;
    // Two threads take half of it.
    for most in [alone / 3, alone / 6] {
        let begin = Instant::now();
        assert_eq!(run(&mut requester, &waits), vec![0; CALLS]);
        let (took, threads) = (begin.elapsed(), engine.threads());
        if took > most || threads <= 16 {
            return Err(format!("{took:?} by {threads} threads, {alone:?} by one"));
        }
    }
    Ok(())
}
