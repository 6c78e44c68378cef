//! A thread of a program in C that serves, and is cancelled: it ends between two calls, whichever
//! backend makes them, and no request is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use kumiki_parasc::{Backend, Config, CpuSet, Request, Requester};

use super::processing_thread;
use super::suite::{engine, run};

/// `PTHREAD_CANCELED` of <pthread.h>.
const CANCELED: usize = usize::MAX;

/// Patience with the end of a thread.
const PATIENCE: Duration = Duration::from_secs(60);

/// Batches until `over`, each answered right, and counted.
fn batches(requester: &mut Requester, over: &AtomicBool, count: &AtomicUsize) {
    let parent = i64::from(std::os::unix::process::parent_id());
    while !over.load(Relaxed) {
        let results = run(requester, &[Request::new(libc::SYS_getppid, []); 50]);
        assert!(results.iter().all(|result| *result == parent), "{results:?}");
        count.fetch_add(1, Relaxed);
    }
}

/// Without requests and while it serves some, after a while that differs.
pub(super) fn a_thread_that_serves_is_cancelled(backend: Backend) {
    let config = Config { cpus: Some(CpuSet::new()), threads: 0, help: false, ..Config::default() };
    let engine = engine(config, backend);
    let mut requester = engine.requester().unwrap();
    let stays = processing_thread::start(&engine);
    for round in 0..20 {
        let (over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            let serves = round % 2 == 1;
            if serves {
                threads.spawn(|| batches(&mut requester, &over, &count));
            }
            let thread = processing_thread::start(&engine);
            while serves && count.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(round));
            thread.cancel();
            let ended = thread.join_within(PATIENCE);
            // What is asked for is answered without it.
            let before = count.load(Relaxed);
            while serves && count.load(Relaxed) < before + 2 {
                std::thread::yield_now();
            }
            over.store(true, Relaxed);
            assert_eq!(ended, Some(CANCELED), "round {round}");
        });
    }
    engine.shut_down_timeout(Duration::ZERO);
    assert_eq!(stays.join_within(PATIENCE), Some(0));
}
