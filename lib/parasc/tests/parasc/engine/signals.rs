//! Signals that rain on requesting threads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use kumiki_parasc::{Config, Request};
use kumiki_sys::cpuset::CpuSet;

use super::{ends, engine, parents, run, until};

const SIGNAL: i32 = libc::SIGALRM;

extern "C" fn nothing(_: i32) {}

/// Calls that the signal comes into return early: no SA_RESTART.
fn interrupt() {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are an action without flags and with an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
    // SAFETY: a handler that does nothing may run at any time.
    let set = unsafe { libc::sigaction(SIGNAL, action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
}

/// Runs `work` in a thread on which signals rain.
fn in_the_rain(work: impl FnOnce() + Send + 'static) {
    interrupt();
    let (over, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (tells_over, tells_begun) = (Arc::clone(&over), Arc::clone(&begun));
    let worker = thread::spawn(move || {
        tells_begun.store(true, Relaxed);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        tells_over.store(true, Relaxed);
        // Not gone before the last signal.
        thread::park();
        outcome
    });
    until("the worker has begun", || begun.load(Relaxed));
    let target = std::os::unix::thread::JoinHandleExt::as_pthread_t(&worker);
    while !over.load(Relaxed) {
        // SAFETY: the thread has not ended: it is parked at the end.
        unsafe { libc::pthread_kill(target, SIGNAL) };
        thread::sleep(Duration::from_micros(50));
    }
    worker.thread().unpark();
    worker.join().unwrap().unwrap();
}

#[test]
fn batches_in_the_rain_are_right() {
    for help in [true, false] {
        ends(move || {
            let engine = engine(Config { help, ..Config::default() });
            let mut requester = engine.requester().unwrap();
            in_the_rain(move || {
                for batch in 0..2000 {
                    parents(&mut requester, [1, 2, 30, 300][batch % 4]);
                }
            });
        });
    }
}

#[test]
fn interrupted_calls_say_so_and_are_not_repeated() {
    ends(|| {
        // No threads: the caller makes all calls itself.
        let config = Config { cpus: Some(CpuSet::new()), threads: 0, ..Config::default() };
        let engine = engine(config);
        let mut requester = engine.requester().unwrap();
        in_the_rain(move || {
            let time = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let sleep = Request::new(libc::SYS_nanosleep, [&raw const time as u64, 0]);
            let results = run(&mut requester, &[sleep; 40]);
            let interrupted = -i64::from(libc::EINTR);
            assert!(results.iter().all(|result| [0, interrupted].contains(result)), "{results:?}");
            // 20 ms each, a signal all 100 µs or so.
            assert!(results.contains(&interrupted), "{results:?}");
        });
    });
}

#[test]
fn threads_of_the_engine_are_not_interrupted() {
    ends(|| {
        interrupt();
        let engine = engine(Config { threads: 30, ..Config::default() });
        let mut requester = engine.requester().unwrap();
        let worker = thread::spawn(move || {
            let time = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
            let sleep = Request::new(libc::SYS_nanosleep, [&raw const time as u64, 0]);
            for _ in 0..30 {
                assert_eq!(run(&mut requester, &[sleep; 30]), [0; 30]);
            }
        });
        let mut sent = 0;
        while !worker.is_finished() {
            sent += signal_processing_threads();
            thread::sleep(Duration::from_micros(50));
        }
        worker.join().unwrap();
        assert!(sent > 100, "{sent}");
    });
}

/// Sends the signal to the threads of every engine, and says how many there were.
fn signal_processing_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let name = |task: &Path| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
    let processing = tasks.filter(|task| name(task).starts_with("parasc-"));
    let numbers = processing.map(|task| task.file_name().unwrap().to_str().unwrap().parse());
    let sent = numbers.filter(|number| {
        let thread: i32 = *number.as_ref().unwrap();
        let process = std::process::id() as i32;
        // SAFETY: takes no pointer; a thread of this process, or one that is no more.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) == 0 }
    });
    sent.count()
}
