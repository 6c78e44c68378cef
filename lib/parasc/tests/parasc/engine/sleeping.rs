//! Calls that were soon over, and sleep by now.

use std::os::fd::AsRawFd;
use std::time::Instant;

use kumiki_parasc::{Config, Request};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::{ends, engine, run};

/// How many threads make a batch is settled as it begins, by what such calls took before.
#[test]
fn a_long_batch_whose_calls_have_begun_to_sleep_is_made_by_many() {
    const CALLS: usize = 4000;
    ends(|| {
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
        let begin = Instant::now();
        assert_eq!(run(&mut requester, &waits), vec![0; CALLS]);
        // Two threads take half of it.
        assert!(begin.elapsed() < alone / 3, "{:?} of {alone:?}", begin.elapsed());
        // However many there were: where others have the processors, calls that are soon over
        // may have taken so long that the pool grew by them.
        assert!(engine.threads() > 16, "{} threads", engine.threads());
        // And those after it.
        let begin = Instant::now();
        assert_eq!(run(&mut requester, &waits), vec![0; CALLS]);
        assert!(begin.elapsed() < alone / 6, "{:?} of {alone:?}", begin.elapsed());
    });
}
