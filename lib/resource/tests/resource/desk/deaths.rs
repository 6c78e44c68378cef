//! Servers that die answer, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use kumiki_resource::desk::{Door, Error, Server};

use super::{caller, waiter};

/// Ends the calling thread as a seccomp filter does that kills it: nothing is unwound.
pub(crate) fn die() -> u32 {
    // SAFETY: ends this thread alone, which nobody joins.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended")
}

/// A server whose thread nobody joins.
pub(crate) fn mortal() -> Door {
    let (door, server) = kumiki_resource::desk::open();
    thread::spawn(move || server.serve(&mut waiter()));
    door
}

#[test]
fn what_a_killed_server_was_at_may_have_happened_and_the_rest_has_not() {
    let door = mortal();
    let (mut first, mut second) = (caller(&door), caller(&door));
    first.call(|| ()).unwrap();
    second.call(|| ()).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let at = first.submit(die).unwrap();
    let behind: Vec<_> = (0..3)
        .map(|_| {
            let ran = Arc::clone(&ran);
            first.submit(move || ran.fetch_add(1, Ordering::Relaxed)).unwrap()
        })
        .collect();
    assert!(matches!(first.join(at), Err(Error::Died)));
    for answer in behind {
        assert!(matches!(first.join(answer), Err(Error::Gone)));
    }
    assert!(matches!(second.call(|| ()), Err(Error::Gone)));
    assert!(door.is_gone());
    // The captures of what was not run are dropped.
    assert_eq!((ran.load(Ordering::Relaxed), Arc::strong_count(&ran)), (0, 1));
}

#[test]
fn everybody_who_waits_for_a_server_that_dies_is_told() {
    let door = mortal();
    thread::scope(|threads| {
        for id in 0..4 {
            let mut caller = caller(&door);
            threads.spawn(move || {
                loop {
                    match caller.call(move || if id == 0 { die() } else { id }) {
                        Ok(answer) => assert_eq!(answer, id),
                        Err(Error::Died) => break assert_eq!(id, 0),
                        Err(error) => break assert!(matches!(error, Error::Gone), "{error}"),
                    }
                }
            });
        }
    });
}

#[test]
fn a_server_that_never_serves_is_gone() {
    let (door, server) = kumiki_resource::desk::open();
    let mut caller = caller(&door);
    let answer = caller.submit(|| 1).unwrap();
    assert!(!answer.is_done());
    drop::<Server>(server);
    assert!(matches!(caller.join(answer), Err(Error::Gone)));
}

#[test]
fn a_server_whose_thread_panics_between_requests_is_gone() {
    let (door, server) = kumiki_resource::desk::open();
    let thread = thread::spawn(move || {
        let mut server = server.begin();
        server.round();
        panic!("between two rounds, on purpose");
    });
    assert!(thread.join().is_err());
    assert!(matches!(caller(&door).call(|| 1), Err(Error::Gone)));
}

#[test]
fn captures_of_what_was_left_to_itself_are_dropped_although_nobody_runs_it() {
    for dies in [true, false] {
        let held = Arc::new(());
        let (door, server) = kumiki_resource::desk::open();
        let mut caller = caller(&door);
        let at = caller.submit(move || if dies { die() } else { 1 }).unwrap();
        let theirs = Arc::clone(&held);
        caller.submit(move || theirs).unwrap().detach();
        if dies {
            thread::spawn(move || server.serve(&mut waiter()));
            assert!(matches!(caller.join(at), Err(Error::Died)));
        } else {
            drop(server);
            assert!(matches!(caller.join(at), Err(Error::Gone)));
        }
        drop(caller);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
