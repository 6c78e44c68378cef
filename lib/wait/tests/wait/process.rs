//! What processes and filters do to a wait. Each scene runs in a process of its
//! own, in which nothing has been decided yet: this program once more, for one
//! test.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_wait::{Bell, Policy, Sleep, Threshold, Waiter, barrier};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::filter::{REFUSE, filter};

const SCENE: &str = "KUMIKI_WAIT_TEST_SCENE";
/// How a process ends that has played its scene.
const PLAYED: i32 = 42;
/// Longer than any scene takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Plays `scene` in a fresh process, which is this test with a variable set.
fn in_a_process_of_its_own(test: &str, scene: fn()) {
    if std::env::var_os(SCENE).is_some() {
        scene();
        // Not through the harness: under a filter it might not come to its end.
        exit(PLAYED);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(SCENE, test).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{test} hangs");
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(PLAYED), "{test}: {status}");
}

fn exit(code: i32) -> ! {
    // SAFETY: ends this process and nothing else.
    unsafe { libc::_exit(code) }
}

/// Bell and word of each of two players.
#[derive(Default)]
struct Table {
    bells: [Bell; 2],
    words: [AtomicU32; 2],
}

impl Table {
    const fn shared() -> Self {
        Table { bells: [const { Bell::shared() }; 2], words: [const { AtomicU32::new(0) }; 2] }
    }

    /// Hands a number to and fro; every wait sleeps if it can. Now and then one
    /// stays away for long enough.
    fn play(&self, side: usize, rounds: u32) {
        let mut waiter = sleeper();
        for round in 1..=rounds {
            if side == 1 {
                self.wait(&mut waiter, side, round);
            }
            if round % 8 == 0 {
                thread::sleep(Duration::from_micros(100));
            }
            self.words[1 - side].store(round, Release);
            self.bells[1 - side].ring();
            if side == 0 {
                self.wait(&mut waiter, side, round);
            }
        }
    }

    fn wait(&self, waiter: &mut Waiter, side: usize, round: u32) {
        let word = &self.words[side];
        let ready = || (word.load(Acquire) >= round).then_some(());
        waiter.wait(&self.bells[side], word, ready);
    }

    fn play_both(&self, rounds: u32) {
        thread::scope(|threads| {
            threads.spawn(|| self.play(1, rounds));
            self.play(0, rounds);
        });
    }
}

/// A table in memory that this process's children share with it.
fn in_shared_memory(table: Table) -> &'static Table {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let bytes = size_of::<Table>();
    // SAFETY: a new mapping at an address of the kernel's choice.
    let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::SHARED) };
    let place = memory.unwrap().cast::<Table>();
    // SAFETY: freshly mapped for this, page-aligned, and nobody else's yet.
    unsafe { place.write(table) };
    // SAFETY: written above, never unmapped; all its fields are atomic.
    unsafe { &*place }
}

fn until_asleep(bell: &Bell) {
    while !bell.is_asleep() {
        thread::yield_now();
    }
}

fn sleeper() -> Waiter {
    let policy =
        Policy { threshold: Threshold::Ticks(0), sleep: Sleep::Futex, ..Policy::default() };
    Waiter::new(&policy).unwrap()
}

/// Forks; the child does `part` and ends well.
fn fork(part: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child runs only what this test wrote, and ends by `_exit`; the
    // C library makes its allocator usable there.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(part));
            exit(if done.is_ok() { 0 } else { 101 })
        }
        child => child,
    }
}

fn ends_well(child: libc::pid_t) -> bool {
    let status = status(child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// How a child has ended.
fn status(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of ours, and an integer of ours to write to.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(waited, child);
    status
}

/// Whether `part` makes no futex call, tried in a child.
fn makes_no_futex_call(part: impl FnOnce()) -> bool {
    let status = status(fork(|| {
        filter(&[libc::SYS_futex], libc::SECCOMP_RET_KILL_PROCESS);
        part();
    }));
    let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS;
    assert!(killed || libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    !killed
}

#[test]
fn threads_of_a_forked_child_wait_and_are_woken() {
    in_a_process_of_its_own("process::threads_of_a_forked_child_wait_and_are_woken", || {
        // The parent has decided and has slept, with several threads.
        Table::default().play_both(50);
        let asymmetric = barrier::is_asymmetric();
        let child = fork(|| {
            assert_eq!(barrier::is_asymmetric(), asymmetric);
            assert!(barrier::heavy());
            Table::default().play_both(500);
            // And a grandchild.
            assert!(ends_well(fork(|| Table::default().play_both(50))));
        });
        Table::default().play_both(500);
        assert!(ends_well(child));
    });
}

#[test]
fn processes_wait_for_each_other_in_shared_memory() {
    in_a_process_of_its_own("process::processes_wait_for_each_other_in_shared_memory", || {
        let table = in_shared_memory(Table::shared());
        let child = fork(|| table.play(1, 500));
        table.play(0, 500);
        assert!(ends_well(child));
    });
}

#[test]
fn a_ring_makes_up_for_a_process_that_died_ringing() {
    in_a_process_of_its_own("process::a_ring_makes_up_for_a_process_that_died_ringing", || {
        let table = in_shared_memory(Table::shared());
        let [bell, _] = &table.bells;
        let ring = |round| {
            table.words[0].store(round, Release);
            bell.ring();
        };
        let wakers = fork(|| {
            until_asleep(bell);
            // Asleep it is in the kernel only, a little later.
            thread::sleep(Duration::from_millis(50));
            // Has taken the wake upon itself, and is killed as it begins it.
            assert!(!makes_no_futex_call(|| ring(1)));
            ring(2);
        });
        table.wait(&mut sleeper(), 0, 2);
        assert!(ends_well(wakers));
    });
}

#[test]
fn of_one_who_was_rung_only_a_shared_bell_costs_a_call_again() {
    in_a_process_of_its_own(
        "process::of_one_who_was_rung_only_a_shared_bell_costs_a_call_again",
        || {
            let kinds: [fn() -> Bell; 2] = [Bell::new, Bell::shared];
            for (kind, again) in kinds.into_iter().zip([false, true]) {
                let table = in_shared_memory(Table { bells: [kind(), kind()], ..Table::default() });
                let [bell, _] = &table.bells;
                // Falls asleep for good, and will never say that it is awake.
                let owner = fork(|| table.wait(&mut sleeper(), 0, 1));
                until_asleep(bell);
                // SAFETY: ends a child of ours.
                assert_eq!(unsafe { libc::kill(owner, libc::SIGKILL) }, 0);
                assert!(libc::WIFSIGNALED(status(owner)));
                assert!(bell.is_asleep());
                bell.ring();
                assert!(!bell.is_asleep());
                assert_eq!(!makes_no_futex_call(|| bell.ring()), again);
            }
        },
    );
}

#[test]
fn where_membarrier_is_forbidden_from_the_start_both_sides_fence() {
    in_a_process_of_its_own(
        "process::where_membarrier_is_forbidden_from_the_start_both_sides_fence",
        || {
            filter(&[libc::SYS_membarrier], REFUSE);
            assert!(!barrier::is_asymmetric());
            assert!(barrier::heavy());
            Table::default().play_both(2000);
        },
    );
}

#[test]
fn where_membarrier_is_forbidden_later_no_wake_is_lost() {
    in_a_process_of_its_own("process::where_membarrier_is_forbidden_later_no_wake_is_lost", || {
        if !barrier::is_asymmetric() {
            eprintln!("skipped: this kernel or a filter around us refuses membarrier");
            return;
        }
        filter(&[libc::SYS_membarrier], REFUSE);
        assert!(barrier::is_asymmetric(), "a thread may be in a light fence: no way back");
        assert!(!barrier::heavy());
        Table::default().play_both(2000);
        // A sleep that is longer than several of its steps, and its deadline.
        let (bell, word) = (Bell::new(), AtomicU32::new(0));
        let (begin, span) = (Instant::now(), Duration::from_millis(20));
        let never = || None::<()>;
        assert!(sleeper().wait_deadline(&bell, &word, begin + span, never).is_err());
        assert!(begin.elapsed() >= span);
    });
}

/// poll(2) by either of its numbers; newer processors have one of them.
#[cfg(target_arch = "x86_64")]
const POLLS: [libc::c_long; 2] = [libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const POLLS: [libc::c_long; 1] = [libc::SYS_ppoll];

#[test]
fn where_sleeping_by_the_clock_is_forbidden_a_sleep_is_measured_and_waits_end() {
    in_a_process_of_its_own(
        "process::where_sleeping_by_the_clock_is_forbidden_a_sleep_is_measured_and_waits_end",
        || {
            filter(&[libc::SYS_clock_nanosleep, libc::SYS_nanosleep], REFUSE);
            assert!(kumiki_wait::sleep_cost_ticks() > 0);
            let cost = Policy { threshold: Threshold::Adaptive, ..Policy::default() };
            let waits = |policy: &Policy| {
                let (begin, span) = (Instant::now(), Duration::from_millis(5));
                let (bell, word) = (Bell::new(), AtomicU32::new(0));
                let mut waiter = Waiter::new(policy).unwrap();
                let never = || None::<()>;
                assert!(waiter.wait_deadline(&bell, &word, begin + span, never).is_err());
                assert!(begin.elapsed() >= span);
            };
            waits(&cost);
            // Not even by a futex: poll(2) is left. And then nothing is.
            let asleep = Policy { threshold: Threshold::Ticks(0), sleep: Sleep::Futex, ..cost };
            filter(&[libc::SYS_futex], REFUSE);
            waits(&asleep);
            filter(&POLLS, REFUSE);
            waits(&asleep);
        },
    );
}

#[test]
fn ringing_and_spinning_make_no_futex_call() {
    in_a_process_of_its_own("process::ringing_and_spinning_make_no_futex_call", || {
        const ROUNDS: u32 = 1000;
        let policy = Policy { threshold: Threshold::Infinite, ..Policy::default() };
        let mut waiter = Waiter::new(&policy).unwrap();
        static TABLE: Table =
            Table { bells: [const { Bell::new() }; 2], words: [const { AtomicU32::new(0) }; 2] };
        static STARTED: AtomicU32 = AtomicU32::new(0);
        thread::spawn(|| {
            let policy = Policy { threshold: Threshold::Infinite, ..Policy::default() };
            let mut waiter = Waiter::new(&policy).unwrap();
            filter(&[libc::SYS_futex], libc::SECCOMP_RET_KILL_PROCESS);
            STARTED.store(1, Release);
            for round in 1..=ROUNDS {
                TABLE.wait(&mut waiter, 1, round);
                TABLE.words[0].store(round, Release);
                TABLE.bells[0].ring();
            }
            // Leaving the thread would make one.
            loop {
                thread::sleep(Duration::from_secs(1));
            }
        });
        while STARTED.load(Acquire) == 0 {
            thread::yield_now();
        }
        // From here on a futex call of either thread is death.
        filter(&[libc::SYS_futex], libc::SECCOMP_RET_KILL_PROCESS);
        for round in 1..=ROUNDS {
            TABLE.words[1].store(round, Release);
            TABLE.bells[1].ring();
            TABLE.wait(&mut waiter, 0, round);
        }
        exit(PLAYED);
    });
}

#[test]
fn the_filter_of_the_test_above_does_kill() {
    let scene = || {
        filter(&[libc::SYS_futex], libc::SECCOMP_RET_KILL_PROCESS);
        let (bell, word) = (Bell::new(), AtomicU32::new(0));
        // Far enough not to pass before the sleep, and reached if nothing kills.
        let later = Instant::now() + Duration::from_secs(5);
        let _ = sleeper().wait_deadline(&bell, &word, later, || None::<()>);
    };
    let child = fork(scene);
    assert!(!ends_well(child));
}

#[test]
fn the_variable_is_heeded_where_it_is_asked_for() {
    in_a_process_of_its_own("process::the_variable_is_heeded_where_it_is_asked_for", || {
        let default = Waiter::new(&Policy::default()).unwrap().sleep();
        // SAFETY: no other thread of this process reads the environment now.
        unsafe { std::env::set_var("KUMIKI_WAIT", "futex") };
        assert_eq!(Waiter::new(&Policy::from_env().unwrap()).unwrap().sleep(), Sleep::Futex);
        for unknown in [b"nap".as_slice(), b"nap\xff"] {
            // SAFETY: as above.
            unsafe { std::env::set_var("KUMIKI_WAIT", OsStr::from_bytes(unknown)) };
            let error = Policy::from_env().unwrap_err().to_string();
            assert!(error.contains("KUMIKI_WAIT=nap"), "{error}");
            assert_eq!(Waiter::new(&Policy::default()).unwrap().sleep(), default);
        }
    });
}
