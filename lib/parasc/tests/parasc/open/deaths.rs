//! Processing threads of the program that die.

use std::ptr;
use std::thread;
use std::time::Duration;

use kumiki_parasc::{Config, Engine, Operation, Request};
use kumiki_sys::cpuset::CpuSet;

use super::{getppid, ppid, read_of_pipe, read_under_way, release, until_made};
use crate::processing_thread::{Thread, start};

pub(crate) const OWNER_DIED: i64 = -(libc::EOWNERDEAD as i64);

/// No threads but the program's.
fn bare(help: bool) -> Engine {
    let cpus = Some(CpuSet::default());
    Engine::new(&Config { cpus, threads: 0, slots: 64, help, ..Config::default() }).unwrap()
}

/// As `start`; it serves when this returns. Until then whoever submits a request would
/// find nobody, and make the call.
fn serving(engine: &Engine) -> Thread {
    let thread = start(engine);
    // SAFETY: takes no argument.
    let ticket = unsafe { engine.place(getppid()) }.unwrap();
    assert_eq!(engine.wait_timeout(1, Duration::from_secs(60)), 1);
    assert_eq!(engine.collect(ticket), Ok(ppid()));
    // It still has to take its note of that away.
    nap();
    thread
}

fn nap() {
    thread::sleep(Duration::from_millis(30));
}

#[test]
fn a_request_in_the_hands_of_a_dead_thread_is_answered() {
    let engine = bare(true);
    let first = serving(&engine);
    let (pending, _writer) = read_under_way(&engine);
    first.kill();
    let output = pending.wait_timeout(Duration::from_secs(60)).unwrap().unwrap().output;
    assert_eq!(output.unwrap_err().raw_os_error(), libc::EOWNERDEAD);
    // Others go on.
    let second = start(&engine);
    // SAFETY: takes no argument.
    let ticket = unsafe { engine.place(getppid()) }.unwrap();
    assert_eq!(engine.wait_timeout(1, Duration::from_secs(60)), 1);
    assert_eq!(engine.collect(ticket), Ok(ppid()));
    engine.shut_down_timeout(Duration::from_secs(60));
    second.join();
}

#[test]
fn one_whose_engine_has_been_shut_down_is_answered_too() {
    for look_on in [false, true] {
        let engine = bare(true);
        let thread = serving(&engine);
        let (pending, _writer) = read_under_way(&engine);
        assert!(!engine.shut_down_timeout(Duration::ZERO), "somebody sees to the request");
        thread.kill();
        let (tell, told) = std::sync::mpsc::channel();
        thread::spawn(move || {
            while look_on && !pending.is_done() {
                nap();
            }
            tell.send(pending.wait().unwrap().output)
        });
        let output = told.recv_timeout(Duration::from_secs(60)).expect("it is answered");
        assert_eq!(output.unwrap_err().raw_os_error(), libc::EOWNERDEAD);
        assert!(engine.shut_down_timeout(Duration::from_secs(60)));
    }
}

#[test]
fn a_future_that_nobody_waits_for_is_answered_too() {
    let engine = bare(true);
    let thread = serving(&engine);
    let (mut read, _writer) = read_of_pipe();
    let request = read.request();
    let pending = engine.submit(read);
    // SAFETY: the pointer is to a time that stays.
    let time = Box::leak(Box::new([1000i64, 0]));
    let sleep = Request::new(libc::SYS_nanosleep, [time.as_ptr() as u64, 0]);
    until_made(&request);
    thread.kill();
    while !pending.is_done() {
        nap();
    }
    let output = pending.wait().unwrap().output;
    assert_eq!(output.unwrap_err().raw_os_error(), libc::EOWNERDEAD);
    // Placed by hand, the answer is in the slot.
    let thread = serving(&engine);
    // SAFETY: see above.
    let ticket = unsafe { engine.place(sleep) }.unwrap();
    until_made(&sleep);
    thread.kill();
    assert_eq!(engine.wait_timeout(1, Duration::from_secs(60)), 1);
    assert_eq!(engine.collect(ticket), Ok(OWNER_DIED));
}

/// Of the line that they are appended to, where calls are soon over as far as is known.
#[test]
fn one_placed_by_hand_is_answered_and_those_after_it_are_made() {
    let engine = bare(true);
    let thread = serving(&engine);
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&zero) as u64;
    // Nothing is read.
    let none = Request::new(libc::SYS_read, [fd, 0, 0]);
    // SAFETY: no byte is written, or one to memory that stays.
    let place = |request| unsafe { engine.place(request) }.unwrap();
    for _ in 0..50 {
        let ticket = place(none);
        assert_eq!(engine.wait_timeout(1, Duration::from_secs(60)), 1);
        assert_eq!(engine.collect(ticket), Ok(0));
    }
    let (mut read, _writer) = read_of_pipe();
    let request = read.request();
    std::mem::forget(read);
    let mut tickets = vec![place(request)];
    until_made(&request);
    tickets.extend((0..20).map(|_| place(none)));
    thread.kill();
    // The supervising thread may make them, too.
    let second = start(&engine);
    assert_eq!(engine.wait_timeout(21, Duration::from_secs(60)), 21);
    for (at, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(engine.collect(ticket), Ok(if at == 0 { OWNER_DIED } else { 0 }), "{at}");
    }
    engine.shut_down_timeout(Duration::from_secs(60));
    second.join();
}

#[test]
fn a_batch_outlives_its_thread() {
    let engine = bare(false);
    let thread = serving(&engine);
    let mut requester = engine.requester().unwrap();
    let (mut read, _writer) = read_of_pipe();
    // The operation stays where it is until the batch is over.
    let mut requests = vec![getppid(); 20];
    let request = read.request();
    requests[7] = request;
    let mut results = vec![0; 20];
    thread::scope(|scope| {
        // SAFETY: see above; the others take no argument.
        scope.spawn(|| unsafe { requester.run_raw(&requests, &mut results) }.unwrap());
        until_made(&request);
        thread.kill();
    });
    for (at, result) in results.iter().enumerate() {
        assert_eq!(*result, if at == 7 { OWNER_DIED } else { ppid() }, "{at}");
    }
}

#[test]
fn cancelled_threads_end_between_two_calls() {
    let engine = bare(true);
    let threads = [serving(&engine), start(&engine)];
    let (pending, writer) = read_under_way(&engine);
    threads.iter().for_each(Thread::cancel);
    release(writer);
    assert_eq!(pending.wait().unwrap().output, Ok(2));
    threads.into_iter().for_each(Thread::join);
    // None is left: the caller makes the call.
    // SAFETY: takes no argument.
    assert!(unsafe { engine.submit_raw(getppid()) }.is_done());
}

#[test]
fn what_a_cancelled_thread_was_called_for_is_left_to_others() {
    let engine = bare(true);
    for round in 0..20 {
        let thread = start(&engine);
        nap();
        thread.cancel();
        let begin = std::time::Instant::now();
        let mut pending = Vec::new();
        while begin.elapsed() < Duration::from_millis(2) {
            // SAFETY: takes no argument.
            pending.push(unsafe { engine.submit_raw(getppid()) });
        }
        thread.join();
        let begin = std::time::Instant::now();
        while !pending.iter().all(kumiki_parasc::Pending::is_done) {
            assert!(begin.elapsed() < Duration::from_secs(10), "one is lost in round {round}");
            nap();
        }
    }
}

#[test]
fn threads_die_at_random_and_no_request_is_lost() {
    let engine = bare(true);
    let mut died = 0;
    for _ in 0..40 {
        let threads: Vec<_> = (0..3).map(|_| start(&engine)).collect();
        // SAFETY: takes no argument.
        let pending: Vec<_> = (0..200).map(|_| unsafe { engine.submit_raw(getppid()) }).collect();
        thread::sleep(Duration::from_micros(fastrand::u64(0..500)));
        threads.into_iter().for_each(Thread::kill);
        for pending in pending {
            let completed = pending.wait_timeout(Duration::from_secs(60));
            match completed.expect("it ends").unwrap().output {
                OWNER_DIED => died += 1,
                result => assert_eq!(result, ppid()),
            }
        }
    }
    println!("{died} requests were in the hands of a thread that died");
    assert!(died <= 120, "one for each thread at most");
}

#[test]
fn a_signal_that_is_handled_interrupts_the_call() {
    extern "C" fn nothing(_: libc::c_int) {}
    let engine = bare(true);
    let thread = serving(&engine);
    let (pending, _writer) = read_under_way(&engine);
    // SAFETY: plain numbers and a pointer that may be null.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: a handler that does nothing, without SA_RESTART.
    unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut()) };
    thread.signal(libc::SIGUSR2);
    let output = pending.wait_timeout(Duration::from_secs(60)).unwrap().unwrap().output;
    assert_eq!(output.unwrap_err().raw_os_error(), libc::EINTR);
    engine.shut_down_timeout(Duration::from_secs(60));
    thread.join();
}
