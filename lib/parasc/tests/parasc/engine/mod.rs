//! The engine as a program uses it, in good times and bad.

mod bad;
mod batch;
mod bounds;
mod children;
mod end;
mod meanwhile;
mod memory;
mod own;
mod parting;
mod signals;
mod sleeping;
mod together;
mod walls;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_parasc::{Config, Engine, Request, Requester};

/// Nothing for so long is a hang, also on sixteen emulated cpus.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs `work` in a thread of its own; fails if that hangs or panics.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = work();
        let _ = tell.send(());
        result
    });
    match told.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        _ => thread.join().unwrap(),
    }
}

/// Waits until `is_true`; fails if it never is.
fn until(what: &str, is_true: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn engine(config: Config) -> Engine {
    Engine::new(&config).unwrap()
}

/// Makes the calls, none of which may do harm.
fn run(requester: &mut Requester, requests: &[Request]) -> Vec<i64> {
    // No result of a call that is made here.
    let mut results = vec![i64::MIN; requests.len()];
    // SAFETY: the tests' calls have arguments that outlive them, or wrong ones
    // that the kernel refuses.
    unsafe { requester.run_raw(requests, &mut results) }.unwrap();
    results
}

fn getppid() -> Request {
    Request::new(libc::SYS_getppid, [])
}

fn parent() -> i64 {
    i64::from(std::os::unix::process::parent_id())
}

/// So many getppid, all with the right answer.
fn parents(requester: &mut Requester, count: usize) {
    assert_eq!(run(requester, &vec![getppid(); count]), vec![parent(); count]);
}

/// Runs batches that are worth sharing until a processing thread has started;
/// where there is one cpu only, none ever does.
fn warm_up(engine: &Engine, requester: &mut Requester) {
    for _ in 0..10_000 {
        if engine.threads() > 0 {
            return;
        }
        parents(requester, 300);
    }
}
