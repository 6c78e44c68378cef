//! A thread that serves a desk on its cpu.

use std::mem;
use std::time::{Duration, Instant};

use kumiki_sys::fork::Process;
use kumiki_sys::pause::pause;
use kumiki_wait::{Policy, Waiter};

use kumiki_crew::roll::{self, Look};
use kumiki_crew::{JoinHandle, Result, start};

use super::Door;

/// Pause between two looks whether a thread has ended, about as long as that takes it.
const END_PAUSE: Duration = Duration::from_micros(50);

/// A thread that serves what callers ask of it, until the value is
/// dropped: then it serves what has come, and ends.
///
/// A child of fork(2) has the value but not the thread: there a call is
/// [`Gone`](super::Error::Gone) at once, an answer that was under way `Gone` or
/// [`Died`](super::Error::Died), and nothing is waited for on drop.
#[derive(Debug)]
pub(crate) struct Member {
    door: Door,
    process: Process,
    thread: Option<JoinHandle>,
    _entry: roll::RollEntry,
}

impl Member {
    /// Starts a thread of this name on `cpu`; returns when it is there. `setup` runs in
    /// it first; what that returns is dropped in it when it has served for the last time.
    /// If it panics, callers get [`Gone`](super::Error::Gone).
    ///
    /// # Errors
    /// As [`start`]; a way to wait that this machine lacks.
    pub(crate) fn start<T>(
        name: &str,
        cpu: usize,
        policy: &Policy,
        deadline: Option<Instant>,
        setup: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Member> {
        let process = Process::current()?;
        // Made here, where an error has somebody to go to.
        let mut waiter = Waiter::new(policy)?;
        let (door, server) = super::open();
        let thread = start(name, cpu, deadline, move || {
            // First, so that a death in `setup` is noticed.
            let serving = server.begin();
            let _held = setup();
            serving.serve(&mut waiter);
        })?;
        let _entry = enter_roll(cpu, &door);
        Ok(Member { door, process, thread: Some(thread), _entry })
    }

    /// The way to its desk.
    pub(crate) fn door(&self) -> &Door {
        &self.door
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.process.is_current() {
            // It stayed in the parent, and so must the handle.
            return mem::forget(thread);
        }
        self.door.close();
        if is_own(&thread) {
            // The last request holds it: it ends by itself then.
            return;
        }
        // One that was killed has left nothing that std's join could take, and that panics.
        while !self.door.has_died() {
            if thread.is_finished() {
                return drop(thread.join());
            }
            pause(END_PAUSE);
        }
    }
}

/// True of the calling thread.
#[cfg(not(sim))]
fn is_own(thread: &JoinHandle) -> bool {
    thread.thread().id() == std::thread::current().id()
}

/// A simulated machine has no members.
#[cfg(sim)]
fn is_own(_: &JoinHandle) -> bool {
    false
}

/// Enters who serves at a desk on `cpu`.
pub(crate) fn enter_roll(cpu: usize, door: &Door) -> roll::RollEntry {
    let door = door.clone();
    roll::enter("server", Some(cpu), move || Look {
        state: if door.is_gone() { "gone" } else { "serving" }.to_owned(),
        ..Look::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::{Caller, Error};
    use kumiki_sys::affinity;

    use super::*;

    fn member<T>(setup: impl FnOnce() -> T + Send + 'static) -> Member {
        let cpu = affinity::current().unwrap().first().unwrap();
        Member::start("crew-test", cpu, &Policy::default(), None, setup).unwrap()
    }

    fn caller(member: &Member) -> Caller {
        member.door().caller(Waiter::new(&Policy::default()).unwrap())
    }

    #[test]
    fn what_setup_has_made_lives_as_long_as_it_serves() {
        let held = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&held);
        let member = member(move || theirs);
        let mut asks = caller(&member);
        let answers: Vec<_> = (0..10)
            .map(|_| {
                let held = Arc::clone(&held);
                asks.submit(move || held.fetch_add(1, Ordering::Relaxed)).unwrap()
            })
            .collect();
        assert!(!member.door().is_gone());
        drop(member);
        assert_eq!(Arc::strong_count(&held), 1);
        let sum: u32 = answers.into_iter().map(|answer| asks.join(answer).unwrap()).sum();
        assert_eq!((sum, held.load(Ordering::Relaxed)), (45, 10));
    }

    #[test]
    fn one_that_ends_in_its_setup_is_gone() {
        let cpu = affinity::current().unwrap().first().unwrap();
        for dies in [true, false] {
            let setup = move || {
                if dies {
                    // SAFETY: ends the member's thread alone.
                    unsafe { libc::syscall(libc::SYS_exit, 0) };
                }
                panic!("in its setup, on purpose");
            };
            let member = Member::start::<()>("crew-test", cpu, &Policy::default(), None, setup);
            let member = member.unwrap();
            assert!(matches!(caller(&member).call(|| ()), Err(Error::Gone)));
            assert!(member.door().is_gone());
            assert_eq!(member.door().has_died(), dies);
            drop(member);
        }
    }

    #[test]
    fn a_child_of_fork_is_told_at_once() {
        let member = member(|| ());
        let mut asks = caller(&member);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let hold = move || {
            tell.send(()).unwrap();
            gone.recv().is_err()
        };
        let begun = asks.submit(hold).unwrap();
        let behind = asks.submit(|| ()).unwrap();
        told.recv().unwrap();
        // SAFETY: the child makes no call that waits for another thread of this one.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends a child that waits for ever.
            unsafe { libc::alarm(60) };
            let begun = matches!(asks.join(begun), Err(Error::Died));
            let behind = matches!(asks.join(behind), Err(Error::Gone));
            let inherited = matches!(asks.call(|| ()), Err(Error::Gone));
            let new = matches!(caller(&member).call(|| ()), Err(Error::Gone));
            let awaited = caller(&member).submit(|| ()).unwrap();
            let awaited = matches!(awaited.wait(), Err(Error::Gone));
            drop(member);
            let good = begun && behind && inherited && new && awaited;
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!good)) };
        }
        drop(go);
        assert!(asks.join(begun).unwrap());
        let mut status = 0;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn one_that_was_killed_is_not_waited_for() {
        let member = member(|| ());
        let mut asks = caller(&member);
        // SAFETY: ends the member's thread alone.
        let died = asks.call(|| unsafe { libc::syscall(libc::SYS_exit, 0) });
        assert!(matches!(died, Err(Error::Died)));
        assert!(member.door().is_gone());
        drop(member);
    }
}
