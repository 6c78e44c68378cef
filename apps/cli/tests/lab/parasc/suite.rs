//! What programs may rely on, whichever backend makes their calls: the same for both, here
//! and in a machine of the lab.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use kumiki_parasc::backend::{Await, Direct};
use kumiki_parasc::op::{Close, Pread, Read};
use kumiki_parasc::{Backend, Config, CpuSet, Engine, Request, Requester};
use kumiki_wait::{Bell, Policy, Sleep, Threshold, Waiter};
use rustix::event::{EventfdFlags, eventfd};

use super::cancelled;

/// An engine of this backend; in a machine of the lab with the module it is there.
pub(super) fn engine(config: Config, backend: Backend) -> Engine {
    Engine::new(&Config { backend, ..config }).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn run(requester: &mut Requester, requests: &[Request]) -> Vec<i64> {
    let mut results = vec![i64::MIN; requests.len()];
    // SAFETY: requests of this suite point to what lives in it.
    unsafe { requester.run_raw(requests, &mut results) }.unwrap();
    results
}

fn a_file() -> File {
    let mut file = tempfile::tempfile().unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    file
}

pub(super) fn behaves(backend: Backend) {
    for help in [true, false] {
        let config = Config { help, ..Config::default() };
        results_are_those_of_each_call(engine(config.clone(), backend));
        what_is_closed_is_closed(engine(config, backend));
    }
    none_is_lost_and_none_made_twice(backend);
    submitted_calls_end(engine(Config::default(), backend));
    threads_of_the_program_serve(backend);
    a_child_of_fork_goes_on(engine(Config::default(), backend));
    answers_for_another_thread(backend);
    the_c_library_asks_threads_that_wait_in_a_call(backend);
    cancelled::a_thread_that_serves_is_cancelled(backend);
}

fn results_are_those_of_each_call(engine: Engine) {
    let file = a_file();
    let fd = file.as_raw_fd() as u64;
    let parent = i64::from(std::os::unix::process::parent_id());
    let mut requester = engine.requester().unwrap();
    for count in [1, 2, 3, 9, 40, 300, 700, 66_000].into_iter().chain([64; 60]) {
        let mut buffers = vec![[0_u8; 16]; count];
        let requests: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(at, buffer)| match at % 4 {
                0 => Request::new(libc::SYS_getppid, []),
                1 => Request::new(libc::SYS_close, [u64::MAX]),
                2 => Request::new(libc::SYS_pread64, [fd, 1, 16, 0]),
                _ => {
                    Request::new(libc::SYS_pread64, [fd, buffer.as_mut_ptr() as u64, 16, at as u64])
                }
            })
            .collect();
        for (at, result) in run(&mut requester, &requests).into_iter().enumerate() {
            let wanted = match at % 4 {
                0 => parent,
                1 => -i64::from(libc::EBADF),
                2 => -i64::from(libc::EFAULT),
                _ => 16,
            };
            assert_eq!(result, wanted, "call {at} of {count}");
            let read = buffers[at].iter().enumerate().all(|(byte, is)| *is == (at + byte) as u8);
            assert!(at % 4 != 3 || read, "call {at} of {count}: {:?}", buffers[at]);
        }
    }
}

/// Also for whoever waits for it: the last step of a close comes on the way out of the kernel.
fn what_is_closed_is_closed(engine: Engine) {
    let mut requester = engine.requester().unwrap();
    for _ in 0..20 {
        let (readers, writers): (Vec<_>, Vec<_>) =
            (0..30).map(|_| std::io::pipe().unwrap()).unzip();
        let mut closes: Vec<_> =
            writers.into_iter().map(|writer| Close::new(OwnedFd::from(writer))).collect();
        assert!(requester.run(&mut closes).unwrap().iter().all(Result::is_ok));
        let mut reads: Vec<_> = readers.iter().map(|reader| Read::new(reader, [0; 1])).collect();
        assert!(requester.run(&mut reads).unwrap().iter().all(|read| *read == Ok(0)));
    }
}

/// Each call adds to a counter, from several requesting threads at once.
fn none_is_lost_and_none_made_twice(backend: Backend) {
    let engine = engine(Config::default(), backend);
    std::thread::scope(|threads| {
        for seed in 1..=3_u64 {
            let mut requester = engine.requester().unwrap();
            threads.spawn(move || {
                let counter = File::from(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
                let one = 1_u64;
                let add = Request::new(
                    libc::SYS_write,
                    [counter.as_raw_fd() as u64, (&raw const one).addr() as u64, 8],
                );
                let mut sum = 0;
                for batch in 0..150 {
                    let count = (batch * seed * 7 % 97 + 1) as usize;
                    let results = run(&mut requester, &vec![add; count]);
                    assert!(results.iter().all(|result| *result == 8));
                    sum += count as u64;
                }
                let mut bytes = [0; 8];
                std::io::Read::read_exact(&mut &counter, &mut bytes).unwrap();
                assert_eq!(u64::from_ne_bytes(bytes), sum);
            });
        }
    });
}

fn submitted_calls_end(engine: Engine) {
    let file = a_file();
    let mut requester = engine.requester().unwrap();
    for round in 0..20 {
        // Threads that serve lanes are called from there.
        run(&mut requester, &[Request::new(libc::SYS_getppid, []); 64]);
        let pending: Vec<_> = (0..40)
            .map(|at| {
                let file = file.try_clone().unwrap();
                engine.submit(Pread::new(file, round * 40 + at, [0_u8; 4]))
            })
            .collect();
        for pending in pending {
            assert_eq!(pending.wait().unwrap().output, Ok(4));
        }
    }
    assert!(engine.shut_down_timeout(Duration::from_secs(20)), "threads have not ended");
}

fn threads_of_the_program_serve(backend: Backend) {
    let config = Config { cpus: Some(CpuSet::new()), threads: 0, help: false, ..Config::default() };
    let engine = engine(config, backend);
    std::thread::scope(|threads| {
        threads.spawn(|| engine.process());
        threads.spawn(|| engine.process());
        let mut requester = engine.requester().unwrap();
        for count in (1..200).step_by(3) {
            let results = run(&mut requester, &vec![Request::new(libc::SYS_getuid, []); count]);
            assert!(
                results
                    .iter()
                    .all(|result| *result == i64::from(rustix::process::getuid().as_raw()))
            );
        }
        engine.shut_down_timeout(Duration::ZERO);
    });
}

fn a_child_of_fork_goes_on(engine: Engine) {
    let mut requester = engine.requester().unwrap();
    let requests = [Request::new(libc::SYS_getppid, []); 40];
    run(&mut requester, &requests);
    let own = i64::from(std::process::id());
    let mut results = [0; 40];
    // SAFETY: the child makes system calls on memory of its own and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        let ran = unsafe { requester.run_raw(&requests, &mut results) };
        let good = ran.is_ok() && results.iter().all(|result| *result == own);
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    run(&mut requester, &requests);
}

/// A thread inside the kernel hands such a call back, and makes it outside.
fn answers_for_another_thread(backend: Backend) {
    let config = Config { wrong_thread_answers: true, ..Config::default() };
    let engine = engine(config, backend);
    let mut requester = engine.requester().unwrap();
    let mixed = [libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getuid];
    let requests: Vec<_> =
        mixed.into_iter().cycle().take(90).map(|n| Request::new(n, [])).collect();
    for _ in 0..100 {
        let results = run(&mut requester, &requests);
        let of_process = |id: &i64| std::path::Path::new(&format!("/proc/self/task/{id}")).exists();
        assert!(results.iter().skip(1).step_by(3).all(of_process));
        assert!(results.iter().all(|result| *result >= 0));
    }
}

/// By signals, as for setuid(2), which is one thread's in the kernel; and it waits for each.
fn the_c_library_asks_threads_that_wait_in_a_call(backend: Backend) {
    let engine = engine(Config { help: false, ..Config::default() }, backend);
    let (reader, writer) = std::io::pipe().unwrap();
    let (set, has_set) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        let mut requester = engine.requester().unwrap();
        let reading = threads.spawn(move || requester.run(&mut [Read::new(reader, [0; 1])]));
        threads.spawn(move || {
            // One is in its read by then, or on its way there.
            std::thread::sleep(Duration::from_millis(50));
            // SAFETY: it asks for a number.
            let user = unsafe { libc::getuid() };
            // SAFETY: it changes nothing: this is the user.
            let failed = unsafe { libc::setuid(user) };
            set.send(failed).unwrap();
        });
        let asked = has_set.recv_timeout(Duration::from_secs(60));
        std::io::Write::write_all(&mut &writer, b"!").unwrap();
        assert_eq!(asked, Ok(0));
        assert_eq!(reading.join().unwrap().unwrap(), [Ok(1)]);
    });
}

/// Calls that the module has made, by its own count.
fn made() -> u64 {
    let text = std::fs::read_to_string("/sys/module/parasc/parameters/calls_made").unwrap();
    text.trim().parse().unwrap()
}

/// However few they are, and whoever waits how: nothing is made elsewhere.
fn what_is_asked_of_the_module_it_makes() {
    let requests = [Request::new(libc::SYS_gettid, []); 40];
    for how in [Await::Looking, Await::Asleep] {
        let (direct, before, own) = (Direct::open().unwrap(), made(), rustix::thread::gettid());
        let own = i64::from(own.as_raw_nonzero().get());
        let counts = [1, 1, 2, 5, 40].into_iter().cycle().take(200);
        let is_right = std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| direct.process(Duration::from_millis(1)));
            }
            let is_right = counts.clone().all(|count| {
                let mut results = vec![0; count];
                // SAFETY: gettid takes nothing and changes nothing.
                let ran = unsafe { direct.run(&requests[..count], &mut results, how) };
                ran.is_ok() && results.iter().all(|id| *id > 0 && *id != own)
            });
            direct.end();
            is_right
        });
        assert!(is_right, "{how:?}");
        let asked = counts.sum::<usize>() as u64;
        assert_eq!(made() - before, asked, "{how:?}");
    }
    let (direct, before) = (Direct::open().unwrap(), made());
    let request = [Request::new(libc::SYS_getppid, [])];
    // SAFETY: as above.
    unsafe { direct.by_one_entry(&request, &mut [0]) }.unwrap();
    assert_eq!(made() - before, 1);
}

/// While a tracer looks on they are made outside, and some time after it inside again.
fn a_tracer_has_its_time() {
    // The calling thread alone, by one entry.
    let config = Config { cpus: Some(CpuSet::new()), threads: 0, ..Config::default() };
    let engine = engine(config, Backend::Kernel);
    let mut requester = engine.requester().unwrap();
    let requests = [Request::new(libc::SYS_getppid, []); 40];
    let mut is_inside = |rounds: u32| {
        let before = made();
        (0..rounds).for_each(|_| drop(run(&mut requester, &requests)));
        made() > before
    };
    assert!(is_inside(100));
    let id = rustix::thread::gettid().as_raw_nonzero().get();
    // SAFETY: the child makes system calls alone, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(looks_on(id)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } != child {
        is_inside(1);
    }
    assert_eq!(status, 0);
    let begin = std::time::Instant::now();
    while !is_inside(100) {
        // A minute is the longest pause.
        assert!(begin.elapsed() < Duration::from_secs(200), "nothing is made inside any more");
    }
}

/// Traces the system calls of this thread for some hundred stops; 0 if it could.
fn looks_on(thread: i32) -> i32 {
    let attached = traced(libc::PTRACE_ATTACH, thread);
    let looked = (0..400).all(|_| is_stopped(thread) && traced(libc::PTRACE_SYSCALL, thread));
    i32::from(!(attached && looked && is_stopped(thread) && traced(libc::PTRACE_DETACH, thread)))
}

fn traced(request: u32, thread: i32) -> bool {
    // SAFETY: requests that have no memory of this process in them.
    unsafe { libc::ptrace(request, thread, 0, 0) == 0 }
}

fn is_stopped(thread: i32) -> bool {
    let mut status = 0;
    // SAFETY: writes the status alone.
    unsafe { libc::waitpid(thread, &mut status, libc::__WALL) == thread }
}

/// What a thread waits for is stored to while the kernel rests on it for this thread.
fn a_store_ends_a_doze_inside_the_kernel() {
    let policy =
        Policy { sleep: Sleep::Mwait, threshold: Threshold::Ticks(0), ..Policy::default() };
    let mut waiter = Waiter::new(&policy).unwrap_or_else(|error| panic!("{error}"));
    for round in 0..20_u8 {
        let (bell, word) = (Bell::new(), AtomicU8::new(0));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                std::thread::sleep(Duration::from_millis(round.into()));
                word.store(1, Release);
                bell.ring();
            });
            waiter.wait(&bell, &word, || (word.load(Acquire) == 1).then_some(()));
        });
    }
    assert!(waiter.counts().dozed > 0 && waiter.counts().slept == 0, "{:?}", waiter.counts());
    // It is no instruction of the program's own, but better than none.
    assert_eq!(Waiter::new(&Policy::default()).unwrap().sleep(), Sleep::Mwait);
}

/// In a machine, by the same program as outside (`super`).
#[test]
#[ignore = "for a machine of the lab, in which the module is loaded"]
fn in_a_machine() {
    a_store_ends_a_doze_inside_the_kernel();
    behaves(Backend::User);
    assert_eq!(made(), 0);
    what_is_asked_of_the_module_it_makes();
    behaves(Backend::Kernel);
    // A third to a half of all: threads outside, on their way inside, make some, too.
    assert!(made() > 10_000, "{}", made());
    a_tracer_has_its_time();
}
