//! Under seccomp filters that refuse what the engine's threads ask for, or trap it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_parasc::{Config, Engine, Operation, Pending, Request, Requester};

use super::filter::{REFUSE, filter};
use super::{getppid, ppid};

/// Runs in a thread of its own, with its own filters.
fn aside(test: impl FnOnce() + Send + 'static) {
    thread::spawn(test).join().unwrap();
}

/// Only looks, as an executor does that waits to be woken.
fn ends<O: Operation + Send>(pending: &Pending<O>) -> bool {
    let start = Instant::now();
    while !pending.is_done() && start.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(1));
    }
    pending.is_done()
}

#[test]
fn a_request_given_to_a_thread_that_may_not_be_bound_is_made_by_another() {
    aside(|| {
        filter(&[libc::SYS_sched_setaffinity], REFUSE);
        for _ in 0..10 {
            let engine = Engine::new(&Config::default()).unwrap();
            // SAFETY: takes no argument.
            let pending = unsafe { engine.submit_raw(getppid()) };
            assert!(ends(&pending), "it is lost");
            assert_eq!(pending.wait().unwrap().output, ppid());
        }
    });
}

#[test]
fn where_sleeping_by_the_clock_is_forbidden_an_engine_works_and_ends() {
    aside(|| {
        filter(&[libc::SYS_clock_nanosleep, libc::SYS_nanosleep], REFUSE);
        let engine = Engine::new(&Config::default()).unwrap();
        let mut results = [0; 100];
        // SAFETY: takes no argument.
        unsafe { engine.requester().unwrap().run_raw(&[getppid(); 100], &mut results) }.unwrap();
        assert_eq!(results, [ppid(); 100]);
        let sleep = Request::new(libc::SYS_nanosleep, [(&raw const SHORT) as u64, 0]);
        // SAFETY: a time that stays.
        let pending = unsafe { engine.submit_raw(sleep) };
        assert_eq!(pending.wait().unwrap().output, -i64::from(libc::EPERM), "for its threads too");
        shuts_down(&engine);
    });
}

#[test]
fn where_the_kernel_gives_no_thread_nothing_waits_for_one() {
    const SUBMITTERS: usize = 2;
    const ROUNDS: usize = 1000;
    let sleep = Request::new(libc::SYS_nanosleep, [(&raw const SHORT) as u64, 0]);
    let config = Config { slots: 4, ..Config::default() };
    let engines: Vec<_> = (0..ROUNDS).map(|_| Engine::new(&config).unwrap()).collect();
    let come = AtomicUsize::new(0);
    let submit = || {
        filter(&[libc::SYS_clone, libc::SYS_clone3], REFUSE);
        let submit = |(round, engine): (usize, &Engine)| {
            come.fetch_add(1, Relaxed);
            // At the same moment, as nearly as can be.
            while come.load(Relaxed) < (round + 1) * SUBMITTERS {
                thread::yield_now();
            }
            // SAFETY: takes no argument, or a time that stays.
            unsafe { engine.submit_raw(if round % 2 == 0 { getppid() } else { sleep }) }
        };
        engines.iter().enumerate().map(submit).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let submitters: Vec<_> = (0..SUBMITTERS).map(|_| scope.spawn(submit)).collect();
        let all = submitters.into_iter().flat_map(|submitter| submitter.join().unwrap());
        // What one has left to the other is made when both are back.
        let all: Vec<_> = all.collect();
        let lost = all.iter().filter(|pending| !pending.is_done()).count();
        assert_eq!(lost, 0, "the callers have made them all");
    });
}

static SHORT: [i64; 2] = [0, 1000];

/// What the handler makes of a call that is trapped.
const EMULATED: i64 = 4711;
/// A call at which it ends a thread of the engine's own.
const DEADLY: libc::c_long = libc::SYS_sched_get_priority_min;

extern "C" fn emulate(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO this context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let result = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
    let mut name = [0; 16];
    // SAFETY: writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if *result == DEADLY && name.starts_with(b"parasc") {
        // SAFETY: ends this thread alone, as a filter does that kills it.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    *result = EMULATED;
}

/// Traps these calls in the calling thread and those that it starts.
fn trap(calls: &[libc::c_long]) {
    // SAFETY: plain numbers and a pointer that may be null.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = emulate as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: a handler that may run at any time.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut()) }, 0);
    filter(calls, libc::SECCOMP_RET_TRAP);
}

const DIED: i64 = -(libc::EOWNERDEAD as i64);

/// Otherwise the program's own threads make all calls of batches.
fn has_another_cpu() -> bool {
    thread::available_parallelism().unwrap().get() > 1
}

fn deadly() -> Request {
    Request::new(DEADLY, [libc::SCHED_FIFO as u64])
}

/// Nothing may be left that is waited for.
fn shuts_down(engine: &Engine) {
    assert!(engine.shut_down_timeout(Duration::from_secs(10)), "a thread is missing");
}

#[test]
fn a_batch_is_over_though_its_threads_die_at_it() {
    const CALLS: usize = 100;
    if !has_another_cpu() {
        return;
    }
    aside(|| {
        trap(&[DEADLY]);
        let engine = Engine::new(&Config::default()).unwrap();
        let mut requester = engine.requester().unwrap();
        let zero = File::open("/dev/zero").unwrap();
        let mut bytes = vec![7_u8; 1 << 14];
        let pread = [zero.as_raw_fd() as u64, bytes.as_mut_ptr().addr() as u64, 1 << 14, 0];
        let pread = Request::new(libc::SYS_pread64, pread);
        let mut run = |requests: &[Request; CALLS]| {
            let mut results = [0; CALLS];
            // SAFETY: all write zeros to memory that stays, or take a number.
            unsafe { requester.run_raw(requests, &mut results) }.unwrap();
            results
        };
        let start = Instant::now();
        let mut deaths = 0;
        while deaths < 2 {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody else was at a batch");
            assert_eq!(run(&[pread; CALLS]), [1 << 14; CALLS]);
            let mut requests = [pread; CALLS];
            requests[3] = deadly();
            let results = run(&requests);
            deaths += usize::from(results[3] == DIED);
            let expected = |at| if at == 3 { [EMULATED, DIED] } else { [1 << 14; 2] };
            assert!((0..CALLS).all(|at| expected(at).contains(&results[at])), "{results:?}");
        }
        drop(requester);
        shuts_down(&engine);
    });
}

#[test]
fn what_is_submitted_first_is_answered_though_its_thread_dies_at_it() {
    aside(|| {
        trap(&[DEADLY, libc::SYS_nanosleep]);
        for pool in [false, true] {
            let engine = Engine::new(&Config::default()).unwrap();
            if pool {
                // A call that is known to be long, for the pool.
                let sleep = Request::new(libc::SYS_nanosleep, [(&raw const SHORT) as u64, 0]);
                // SAFETY: a time that stays.
                let slept = unsafe { engine.submit_raw(sleep) };
                assert_eq!(slept.wait().unwrap().output, EMULATED);
            }
            // Not waited for by anybody.
            // SAFETY: takes a number.
            let pending = unsafe { engine.submit_raw(deadly()) };
            assert!(ends(&pending), "it is lost");
            assert_eq!(pending.wait().unwrap().output, DIED);
            shuts_down(&engine);
        }
    });
}

#[test]
fn what_is_left_to_a_thread_that_dies_at_it_is_answered() {
    if !has_another_cpu() {
        return;
    }
    aside(|| {
        trap(&[DEADLY]);
        let engine = Engine::new(&Config { help: false, ..Config::default() }).unwrap();
        let mut requester = engine.requester().unwrap();
        for count in [1, 3] {
            let mut requests = vec![getppid(); count];
            requests[0] = deadly();
            let mut results = vec![0; count];
            // A thread that comes late finds it made.
            while results[0] != DIED {
                // SAFETY: take a number, or none.
                unsafe { requester.run_raw(&requests, &mut results) }.unwrap();
                assert!([DIED, EMULATED].contains(&results[0]), "{results:?}");
                assert_eq!(results[1..], vec![ppid(); count - 1]);
            }
        }
        // Not waited for by anybody.
        // SAFETY: as above.
        let pending = unsafe { engine.submit_raw(deadly()) };
        assert!(ends(&pending), "it is lost");
        assert_eq!(pending.wait().unwrap().output, DIED);
        // SAFETY: as above.
        let ticket = unsafe { engine.place(deadly()) }.unwrap();
        assert_eq!(engine.wait_timeout(1, Duration::from_secs(10)), 1);
        assert_eq!(engine.collect(ticket), Ok(DIED));
        // There are others by now.
        // SAFETY: as above.
        let pending = unsafe { engine.submit_raw(getppid()) };
        assert!(ends(&pending));
        assert_eq!(pending.wait().unwrap().output, ppid());
        drop(requester);
        shuts_down(&engine);
    });
}

#[test]
fn a_call_that_a_filter_traps_is_emulated_by_the_handler() {
    aside(|| {
        trap(&[libc::SYS_vhangup]);
        let engine = Engine::new(&Config::default()).unwrap();
        let request = Request::new(libc::SYS_vhangup, []);
        // SAFETY: takes no argument.
        let pending = unsafe { engine.submit_raw(request) };
        assert!(ends(&pending));
        assert_eq!(pending.wait().unwrap().output, EMULATED);
        let engine = Engine::new(&Config { help: false, ..Config::default() }).unwrap();
        let mut results = [0; 100];
        // SAFETY: as above.
        unsafe { engine.requester().unwrap().run_raw(&[request; 100], &mut results) }.unwrap();
        assert_eq!(results, [EMULATED; 100]);
    });
}

#[test]
fn a_filter_that_there_was_before_the_engine_sees_every_call() {
    aside(|| {
        filter(&[libc::SYS_sched_get_priority_max], REFUSE);
        // Which leaves all calls to its processing threads.
        let engine = Engine::new(&Config { help: false, ..Config::default() }).unwrap();
        let request = Request::new(libc::SYS_sched_get_priority_max, [libc::SCHED_FIFO as u64]);
        let mut results = [0; 100];
        // SAFETY: takes a number.
        unsafe { engine.requester().unwrap().run_raw(&[request; 100], &mut results) }.unwrap();
        assert_eq!(results, [-i64::from(libc::EPERM); 100]);
    });
}

/// Has many dirty files synced a few times, so that all ways to do so come about.
fn sync(requester: &mut Requester) {
    let files: Vec<File> = (0..200).map(|_| tempfile::tempfile().unwrap()).collect();
    let fsync = |file: &File| Request::new(libc::SYS_fsync, [file.as_raw_fd() as u64]);
    let requests: Vec<Request> = files.iter().map(fsync).collect();
    for round in 0..10 {
        files.iter().for_each(|file| file.write_all_at(&[round; 5000], 0).unwrap());
        let mut results = [-1; 200];
        // SAFETY: the calls have descriptors, and no pointers.
        unsafe { requester.run_raw(&requests, &mut results) }.unwrap();
        assert_eq!(results, [0; 200]);
    }
}

#[test]
fn a_filter_sees_no_call_that_nobody_has_asked_for() {
    // It would end the whole test.
    let forbid = || filter(&[libc::SYS_sync_file_range], libc::SECCOMP_RET_KILL_PROCESS);
    let engine = || Engine::new(&Config::default()).unwrap();
    // Before there is an engine; after there is one.
    aside(move || {
        forbid();
        sync(&mut engine().requester().unwrap());
    });
    aside(move || {
        let engine = engine();
        let mut requester = engine.requester().unwrap();
        sync(&mut requester);
        forbid();
        sync(&mut requester);
    });
    // Only threads of the engine have one.
    let engine = engine();
    thread::scope(|scope| {
        let first = || {
            forbid();
            let sleep = Request::new(libc::SYS_nanosleep, [(&raw const SHORT) as u64, 0]);
            // SAFETY: a time that stays.
            let slept = [(); 8].map(|()| unsafe { engine.submit_raw(sleep) });
            slept.into_iter().for_each(|slept| assert!(slept.wait().is_ok()));
        };
        scope.spawn(first).join().unwrap();
    });
    sync(&mut engine.requester().unwrap());
}
