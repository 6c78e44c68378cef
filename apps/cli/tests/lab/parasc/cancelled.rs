//! A thread of a program in C that serves, and is cancelled: it ends between two calls, whichever
//! backend makes them, and no request is lost.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kumiki_parasc::{Backend, Config, CpuSet, Engine, Request, Requester};

use super::suite::{engine, run};

extern "C-unwind" fn process(engine: *mut c_void) -> *mut c_void {
    // SAFETY: `Thread::start` was given an engine that outlives the thread.
    unsafe { &*engine.cast::<Engine>() }.process();
    ptr::null_mut()
}

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    /// The C library's, declared as what it is: a cancellation unwinds the thread.
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_tryjoin_np(thread: libc::pthread_t, ended: *mut *mut c_void) -> c_int;
}

/// `PTHREAD_CANCELED` of <pthread.h>.
const CANCELED: usize = usize::MAX;

/// One that has to end before its engine.
struct Thread(libc::pthread_t);

impl Thread {
    fn start(engine: &Engine) -> Thread {
        let mut thread = 0;
        let argument = ptr::from_ref(engine).cast_mut().cast();
        // SAFETY: the engine is not moved, and lives until the thread has been joined.
        let error = unsafe { pthread_create(&raw mut thread, ptr::null(), process, argument) };
        assert_eq!(error, 0);
        Thread(thread)
    }

    fn cancel(&self) {
        // SAFETY: a thread that has not been joined.
        assert_eq!(unsafe { libc::pthread_cancel(self.0) }, 0);
    }

    /// What it gave when it ended; `None`: it goes on.
    fn join(self) -> Option<usize> {
        let (mut ended, begin) = (ptr::null_mut(), Instant::now());
        // SAFETY: it is joined once: what has not ended is asked again.
        while unsafe { pthread_tryjoin_np(self.0, &raw mut ended) } != 0 {
            if begin.elapsed() > Duration::from_secs(60) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(ended.addr())
    }
}

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
    let stays = Thread::start(&engine);
    for round in 0..20 {
        let (over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            let serves = round % 2 == 1;
            if serves {
                threads.spawn(|| batches(&mut requester, &over, &count));
            }
            let thread = Thread::start(&engine);
            while serves && count.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(round));
            thread.cancel();
            let ended = thread.join();
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
    assert_eq!(stays.join(), Some(0));
}
