//! What a child of fork(2) has of requests that its parent has submitted.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use kumiki_parasc::op::Close;
use kumiki_parasc::{Config, Engine, Error, Operation, Outcome, Pending};
use kumiki_sys::cpuset::CpuSet;

use super::ends::fork;
use super::{engine, is_being_made, read_under_way, release};

fn is_open(number: i32) -> bool {
    // SAFETY: asks for a flag; takes no pointer.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

/// What the child would close by it.
fn descriptor(close: &mut Close) -> Option<i32> {
    i32::try_from(close.request().args[0]).ok()
}

/// A connection that takes a minute to close, unless its other end goes.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    let linger = libc::linger { l_onoff: 1, l_linger: 60 };
    let (pointer, length) = (&raw const linger, size_of::<libc::linger>() as libc::socklen_t);
    // SAFETY: a socket of ours, and a struct of that length to read.
    let set = unsafe {
        libc::setsockopt(
            near.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            pointer.cast(),
            length,
        )
    };
    assert_eq!(set, 0);
    near.set_nonblocking(true).unwrap();
    // More than both ends hold.
    let full = loop {
        if let Err(error) = near.write(&[0; 65536]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    (near, far)
}

/// A close that a thread is at, the number that it has closed, and the other end.
fn close_under_way(engine: &Engine) -> (Pending<Close>, i32, TcpStream) {
    loop {
        let (near, far) = lingering();
        let mut close = Close::new(near);
        let request = close.request();
        let pending = engine.submit(close);
        // It is soon over if a child that another test forks has a copy just then.
        while !pending.is_done() {
            if is_being_made(&request) {
                return (pending, request.args[0] as i32, far);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Of a request that the parent has.
fn forked(outcome: Outcome<Close>) -> Option<Close> {
    let failed = outcome.err()?;
    matches!(failed.error, Error::Forked).then_some(failed.operation)
}

/// What the child has opened is still open when it has lost interest in the close.
fn after_a_close_under_way(lose: impl Fn(Pending<Close>) -> bool) {
    let engine = engine();
    let (pending, number, far) = close_under_way(&engine);
    let mut pending = Some(pending);
    let code = fork(|| {
        let null = File::open("/dev/null").unwrap();
        // It may be that of another test's file already.
        if !is_open(number) {
            // SAFETY: the number is nobody's.
            unsafe { libc::dup2(null.as_raw_fd(), number) };
        }
        if !lose(pending.take().unwrap()) {
            return 2;
        }
        if is_open(number) { 0 } else { 3 }
    });
    assert_eq!(code, 0);
    drop(far);
    assert_eq!(pending.unwrap().wait().unwrap().output, Ok(()));
}

#[test]
fn a_close_under_way_has_given_its_descriptor_up() {
    after_a_close_under_way(|pending| {
        let close = forked(pending.wait());
        close.is_some_and(|mut close| descriptor(&mut close).is_none())
    });
    after_a_close_under_way(|pending| {
        let outcome = pending.wait_timeout(Duration::from_secs(60));
        outcome.is_ok_and(|outcome| forked(outcome).is_some())
    });
    // One after the other: two that linger might be of one number.
    after_a_close_under_way(|pending| {
        drop(pending);
        true
    });
}

/// One thread, and that sleeps; so these have not begun, in slots and the queue.
#[test]
fn a_close_that_nobody_has_begun_closes_the_copy_once() {
    let cpus = Some(CpuSet::default());
    let config = Config { cpus, threads: 1, slots: 2, ..Config::default() };
    let engine = Engine::new(&config).unwrap();
    let (read, writer) = read_under_way(&engine);
    let mut closes: Vec<_> = (0..6)
        .map(|_| {
            let mut close = Close::new(File::open("/dev/null").unwrap());
            let number = descriptor(&mut close).unwrap();
            (engine.submit(close), number)
        })
        .collect();
    let code = fork(|| {
        for (at, (pending, number)) in closes.drain(..).enumerate() {
            if !is_open(number) {
                return 1;
            }
            if at % 2 == 0 {
                drop(pending);
            } else {
                let close = forked(pending.wait());
                if close.is_none_or(|mut close| descriptor(&mut close) != Some(number)) {
                    return 2;
                }
            }
            if is_open(number) {
                return 3;
            }
        }
        0
    });
    assert_eq!(code, 0);
    release(writer);
    for (pending, _) in closes {
        assert_eq!(pending.wait().unwrap().output, Ok(()));
    }
    assert_eq!(read.wait().unwrap().output, Ok(2));
}
