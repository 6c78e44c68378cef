//! Wakers, operations and buffers are the program's code: their panics end no
//! thread of the engine.

use std::future::Future;
use std::panic::panic_any;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use kumiki_parasc::{Config, Engine, Operation, Request};
use kumiki_sys::cpuset::CpuSet;

use super::{ReadOfPipe, engine, getppid, ppid, read_of_pipe, release, until_made};

const LONG: Duration = Duration::from_secs(60);

/// What it panics with panics as well when it is dropped.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("as a payload's may");
    }
}

/// A read whose buffer's drop panics, after it has counted itself.
struct Panics(ReadOfPipe, Arc<AtomicUsize>);

impl Drop for Panics {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
        panic_any(Payload);
    }
}

// SAFETY: those of the operation within.
unsafe impl Operation for Panics {
    type Output = <ReadOfPipe as Operation>::Output;

    fn request(&mut self) -> Request {
        self.0.request()
    }

    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the caller vouches for it.
        unsafe { self.0.complete(ret_val) }
    }
}

/// Has a thread of the engine drop such an operation, whose call it is at when
/// nobody wants its end any more.
fn drop_under_way(engine: &Engine) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (read, writer) = read_of_pipe();
    let mut read = Panics(read, Arc::clone(&dropped));
    let request = read.request();
    let pending = engine.submit(read);
    until_made(&request);
    drop(pending);
    assert_eq!(dropped.load(SeqCst), 0, "a thread is in the call");
    release(writer);
    while dropped.load(SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Submits a call that is left to the engine's threads.
fn still_serves(engine: &Engine, request: Request) -> i64 {
    // SAFETY: takes no argument, or one that stays.
    let pending = unsafe { engine.submit_raw(request) };
    let ended = pending.wait_timeout(LONG).expect("a thread is there to make it");
    ended.expect("made").output
}

#[test]
fn an_operation_whose_drop_panics_ends_no_thread_of_the_pool() {
    let cpus = Some(CpuSet::default());
    let engine = Engine::new(&Config { cpus, threads: 1, ..Config::default() }).unwrap();
    let time = Box::leak(Box::new([0i64, 1000]));
    for _ in 0..3 {
        drop_under_way(&engine);
        let sleep = Request::new(libc::SYS_nanosleep, [time.as_ptr() as u64, 0]);
        assert_eq!(still_serves(&engine, sleep), 0);
        assert_eq!(still_serves(&engine, getppid()), ppid());
    }
    assert!(engine.shut_down_timeout(LONG));
}

#[test]
fn an_operation_whose_drop_panics_ends_no_thread_of_a_seat() {
    // One seat, and nobody else.
    let cpus = Some(CpuSet::from_iter([rustix::thread::sched_getcpu()]));
    let config = Config { cpus, threads: 0, help: false, ..Config::default() };
    let engine = Engine::new(&config).unwrap();
    for _ in 0..3 {
        drop_under_way(&engine);
        assert_eq!(still_serves(&engine, getppid()), ppid());
    }
    let (tell, told) = mpsc::channel();
    let mut requester = engine.requester().unwrap();
    thread::spawn(move || {
        let mut results = [0; 20];
        // SAFETY: takes no argument.
        unsafe { requester.run_raw(&[getppid(); 20], &mut results) }.unwrap();
        tell.send(results).unwrap();
    });
    assert_eq!(told.recv_timeout(LONG).expect("it ends"), [ppid(); 20]);
    assert!(engine.shut_down_timeout(LONG));
}

#[test]
fn a_waker_that_panics_ends_no_thread() {
    struct Wakes;
    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            panic_any(Payload);
        }
    }
    let engine = engine();
    let (read, writer) = read_of_pipe();
    let mut pending = engine.submit(read);
    let waker = Waker::from(Arc::new(Wakes));
    let polled = pin!(&mut pending).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    release(writer);
    assert_eq!(pending.wait_timeout(LONG).unwrap().unwrap().output, Ok(2));
    assert_eq!(still_serves(&engine, getppid()), ppid());
    assert!(engine.shut_down_timeout(LONG));
}
