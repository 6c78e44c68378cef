//! A thread that serves a desk on its cpu.

use std::mem;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kumiki_slot::{Caller, Door};
use kumiki_sys::fork::Process;
use kumiki_sys::pause::pause;
use kumiki_wait::{Policy, Waiter};

use crate::error::Result;
use crate::roll;
use crate::start::start;

/// Between two looks whether a thread has ended, about what that takes it.
const END_PAUSE: Duration = Duration::from_micros(50);

/// A thread that serves what callers ask of it, until it is retired: when the value is
/// dropped it serves what has come, and ends.
///
/// A child of fork(2) has the value but not the thread: there a call is
/// [`Gone`](kumiki_slot::Error::Gone) at once, an answer that was under way `Gone` or
/// [`Died`](kumiki_slot::Error::Died), and nothing is waited for on drop.
#[derive(Debug)]
pub struct Member {
    name: String,
    cpu: usize,
    door: Door,
    policy: Policy,
    process: Process,
    thread: Option<JoinHandle<()>>,
    _entry: roll::Entry,
}

impl Member {
    /// Starts a thread of this name on `cpu`; returns when it is there. `setup` runs in
    /// it first; what that returns is dropped in it when it has served for the last time.
    /// If it panics, callers get [`Gone`](kumiki_slot::Error::Gone).
    ///
    /// # Errors
    /// As [`start`]; a way to wait that this machine lacks.
    pub fn start<T>(
        name: &str,
        cpu: usize,
        policy: &Policy,
        deadline: Option<Instant>,
        setup: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Member> {
        let process = Process::current()?;
        // Made here, where an error has somebody to go to.
        let mut waiter = Waiter::new(policy)?;
        let (door, server) = kumiki_slot::open();
        let thread = start(name, cpu, deadline, move || {
            // First, so that a death in `setup` is noticed.
            let serving = server.begin();
            let _held = setup();
            serving.serve(&mut waiter);
        })?;
        let _entry = roll::server(cpu, &door);
        let (name, policy, thread) = (name.to_owned(), *policy, Some(thread));
        Ok(Member { name, cpu, door, policy, process, thread, _entry })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its cpu.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// The way to its desk.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// A caller for one thread, which waits by this member's policy.
    ///
    /// # Errors
    /// A way to wait that this machine lacks.
    pub fn caller(&self) -> Result<Caller> {
        Ok(self.door.caller(Waiter::new(&self.policy)?))
    }

    /// Whether it serves.
    pub fn is_alive(&self) -> bool {
        self.process.is_current() && !self.door.is_gone()
    }

    /// Has it serve what has come and end, and waits for that.
    pub fn retire(self) {
        drop(self);
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
        if thread.thread().id() == std::thread::current().id() {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use kumiki_slot::Error;
    use kumiki_sys::affinity;

    use super::*;

    fn member<T>(setup: impl FnOnce() -> T + Send + 'static) -> Member {
        let cpu = affinity::current().unwrap().first().unwrap();
        Member::start("crew-test", cpu, &Policy::default(), None, setup).unwrap()
    }

    #[test]
    fn what_setup_has_made_lives_as_long_as_it_serves() {
        let held = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&held);
        let member = member(move || theirs);
        let mut caller = member.caller().unwrap();
        let answers: Vec<_> = (0..10)
            .map(|_| {
                let held = Arc::clone(&held);
                caller.submit(move || held.fetch_add(1, Ordering::Relaxed)).unwrap()
            })
            .collect();
        assert!(member.is_alive());
        member.retire();
        assert_eq!(Arc::strong_count(&held), 1);
        let sum: u32 = answers.into_iter().map(|answer| caller.join(answer).unwrap()).sum();
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
            assert!(matches!(member.caller().unwrap().call(|| ()), Err(Error::Gone)));
            assert!(!member.is_alive());
            assert_eq!(member.door().has_died(), dies);
            member.retire();
        }
    }

    #[test]
    fn a_child_of_fork_is_told_at_once() {
        let member = member(|| ());
        let mut caller = member.caller().unwrap();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let hold = move || {
            tell.send(()).unwrap();
            gone.recv().is_err()
        };
        let begun = caller.submit(hold).unwrap();
        let behind = caller.submit(|| ()).unwrap();
        told.recv().unwrap();
        // SAFETY: the child makes no call that waits for another thread of this one.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends a child that waits for ever.
            unsafe { libc::alarm(60) };
            let begun = matches!(caller.join(begun), Err(Error::Died));
            let behind = matches!(caller.join(behind), Err(Error::Gone));
            let inherited = matches!(caller.call(|| ()), Err(Error::Gone));
            let new = matches!(member.caller().unwrap().call(|| ()), Err(Error::Gone));
            let awaited = member.caller().unwrap().submit(|| ()).unwrap();
            let awaited = matches!(awaited.wait(), Err(Error::Gone));
            drop(member);
            let good = begun && behind && inherited && new && awaited;
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!good)) };
        }
        drop(go);
        assert!(caller.join(begun).unwrap());
        let mut status = 0;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn one_that_was_killed_is_not_waited_for() {
        let member = member(|| ());
        let mut caller = member.caller().unwrap();
        // SAFETY: ends the member's thread alone.
        let died = caller.call(|| unsafe { libc::syscall(libc::SYS_exit, 0) });
        assert!(matches!(died, Err(Error::Died)));
        assert!(!member.is_alive());
        member.retire();
    }
}
