//! Shutting down, and fork(2).

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use kumiki_parasc::op::Read;
use kumiki_parasc::{Config, Engine, Error, Pending};

use super::{engine, getppid, ppid, read_of_pipe, read_under_way, release};

#[test]
fn requests_in_flight_end_with_the_engine() {
    let engine = Engine::new(&Config { threads: 2, slots: 4, ..Config::default() }).unwrap();
    let mut reads = Vec::new();
    for _ in 0..20 {
        let (read, writer) = read_of_pipe();
        reads.push((engine.submit(read), writer));
    }
    thread::sleep(Duration::from_millis(50));
    engine.shut_down_timeout(Duration::from_millis(10));
    let (mut done, mut not_executed) = (0, 0);
    for (pending, writer) in reads {
        if pending.is_done() {
            let failed = pending.wait().unwrap_err();
            assert!(matches!(failed.error, Error::ShutDown), "{failed}");
            not_executed += 1;
        } else {
            release(writer);
            assert_eq!(pending.wait().unwrap().output, Ok(2));
            done += 1;
        }
    }
    // Two threads of the pool may have been inside a call, and one a cpu.
    let cpus = thread::available_parallelism().unwrap().get();
    assert!(done <= 2 + cpus && done + not_executed == 20, "{done}");
    assert!(engine.shut_down_timeout(Duration::from_secs(60)));
    // SAFETY: takes no argument.
    let late = unsafe { engine.submit_raw(getppid()) };
    assert!(matches!(late.wait().unwrap_err().error, Error::ShutDown));
}

#[test]
fn memory_outlives_the_engine() {
    let engine = engine();
    let (pending, writer) = read_under_way(&engine);
    drop(engine);
    release(writer);
    assert_eq!(pending.wait().unwrap().output, Ok(2));
}

#[test]
fn submitting_and_shutting_down_at_once_loses_nothing() {
    for _ in 0..30 {
        let engine = Engine::new(&Config { slots: 4, ..Config::default() }).unwrap();
        thread::scope(|scope| {
            let submitters: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        // SAFETY: takes no argument.
                        let submit = |_| unsafe { engine.submit_raw(getppid()) };
                        (0..50).map(submit).collect::<Vec<_>>()
                    })
                })
                .collect();
            engine.shut_down_timeout(Duration::ZERO);
            for pending in submitters.into_iter().flat_map(|thread| thread.join().unwrap()) {
                match pending.wait_timeout(Duration::from_secs(60)).expect("it ends") {
                    Ok(completed) => assert_eq!(completed.output, ppid()),
                    Err(failed) => assert!(matches!(failed.error, Error::ShutDown)),
                }
            }
        });
    }
}

#[test]
fn a_requester_in_the_middle_of_a_batch_finishes_it() {
    for help in [true, false] {
        let engine = Engine::new(&Config { help, ..Config::default() }).unwrap();
        let mut requester = engine.requester().unwrap();
        let requests = vec![getppid(); 400];
        let mut results = vec![0; 400];
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..50 {
                    results.fill(0);
                    // SAFETY: takes no argument.
                    unsafe { requester.run_raw(&requests, &mut results) }.unwrap();
                    assert!(results.iter().all(|result| *result == ppid()));
                }
            });
            thread::sleep(Duration::from_millis(2));
            engine.shut_down_timeout(Duration::from_secs(60));
        });
    }
}

type ReadOfPipe = Pending<Read<OwnedFd, Box<[u8]>>>;

/// Drops what it has when it is woken, as an executor may that is gone.
#[derive(Default)]
struct Drops(Mutex<Vec<ReadOfPipe>>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        let dropped = std::mem::take(&mut *self.0.lock().unwrap());
        drop(dropped);
    }
}

#[test]
fn a_waker_may_drop_other_requests() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let engine = Engine::new(&Config { threads: 2, slots: 4, ..Config::default() }).unwrap();
        let (readers, writers): (Vec<_>, Vec<_>) = (0..20).map(|_| read_of_pipe()).unzip();
        // In calls, in slots and in the queue.
        let mut woken: Vec<_> = readers.into_iter().map(|read| engine.submit(read)).collect();
        let drops = Arc::new(Drops::default());
        *drops.0.lock().unwrap() = woken.split_off(10);
        let waker = Waker::from(Arc::clone(&drops));
        for pending in &mut woken {
            assert!(Pin::new(pending).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        engine.shut_down_timeout(Duration::ZERO);
        assert!(woken.iter().any(Pending::is_done) && drops.0.lock().unwrap().is_empty());
        // The end of their files.
        drop(writers);
        woken.into_iter().for_each(|pending| drop(pending.wait()));
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("it ends");
}

/// Runs `child` in a child of fork(2) and returns its exit status.
pub(super) fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child makes its calls and ends without the parent's handlers.
    match unsafe { libc::fork() } {
        0 => {
            let code = child();
            // SAFETY: ends the child.
            unsafe { libc::_exit(code) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: the child made above.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            assert!(libc::WIFEXITED(status), "{status:#x}");
            libc::WEXITSTATUS(status)
        }
    }
}

#[test]
fn a_child_of_fork_makes_its_calls_itself() {
    let engine = engine();
    // SAFETY: takes no argument.
    unsafe { engine.submit_raw(getppid()) }.wait().unwrap();
    let (pending, writer) = read_under_way(&engine);
    let parent = i64::from(std::process::id());
    let mut pending = Some(pending);
    let code = fork(|| {
        // SAFETY: takes no argument.
        let own = unsafe { engine.submit_raw(getppid()) };
        if !own.is_done() || own.wait().map(|done| done.output).ok() != Some(parent) {
            return 1;
        }
        // SAFETY: as above.
        let ticket = unsafe { engine.place(getppid()) };
        if ticket.map(|ticket| engine.collect(ticket)).ok() != Some(Ok(parent)) {
            return 2;
        }
        match pending.take().unwrap().wait() {
            Err(failed) if matches!(failed.error, Error::Forked) => 0,
            _ => 3,
        }
    });
    assert_eq!(code, 0);
    release(writer);
    assert_eq!(pending.unwrap().wait().unwrap().output, Ok(2));
}
