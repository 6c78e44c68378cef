//! fork(2): the child has the memory but none of the threads.

use std::thread;

use kumiki_parasc::{Config, Engine};
use rustix::process::{Pid, WaitOptions, waitpid};

use super::{ends, engine, getppid, parents, run, warm_up};

/// Runs `work` in a child of this process; fails if that fails or hangs.
fn in_a_fork(work: impl FnOnce() -> bool) {
    // SAFETY: the child makes calls, allocates (the C library prepares its
    // allocator for that) and leaves without returning from here.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: ends the child where it hangs; takes no pointer.
            unsafe { libc::alarm(60) };
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: leaves at once.
            unsafe { libc::_exit(if good.unwrap_or(false) { 0 } else { 1 }) }
        }
        child => {
            let child = Pid::from_raw(child).expect("fork has worked");
            let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(status.exit_status(), Some(0), "{status:?}");
        }
    }
}

fn forks(config: Config) {
    ends(|| {
        let engine = engine(config);
        let mut requester = engine.requester().unwrap();
        warm_up(&engine, &mut requester);
        let mut other = engine.requester().unwrap();
        let worker = thread::spawn(move || {
            for _ in 0..2000 {
                parents(&mut other, 300);
            }
        });
        for _ in 0..20 {
            let own = i64::from(std::process::id());
            in_a_fork(|| {
                let mut good = true;
                for count in [1, 2, 300, 2000] {
                    good &= run(&mut requester, &vec![getppid(); count]) == vec![own; count];
                }
                // What the parent's threads are is not ours to tell.
                good &= engine.threads() == 0;
                good &= engine.shut_down_timeout(super::PATIENCE);
                good
            });
            // The parent does not notice.
            parents(&mut requester, 300);
        }
        in_a_fork(|| {
            // An engine of the child's own.
            let engine = Engine::new(&Config::default()).unwrap();
            let mut own = engine.requester().unwrap();
            let parent = i64::from(std::os::unix::process::parent_id());
            let mut good = true;
            for _ in 0..300 {
                good &= run(&mut own, &[getppid(); 300]) == [parent; 300];
            }
            good && run(&mut requester, &[getppid(); 300]) == [parent; 300]
        });
        worker.join().unwrap();
    });
}

#[test]
fn a_child_makes_its_calls_itself() {
    forks(Config::default());
}

#[test]
fn a_child_makes_calls_itself_that_are_left_to_others() {
    forks(Config { help: false, ..Config::default() });
}
