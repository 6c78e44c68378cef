//! A job of `Shadow::fork` that was not joined before a copy: who waits for it gets its
//! panic. In a process of its own, as `prepare` measures once in a process.

use std::sync::Arc;
use std::time::Duration;

use kumiki_copy::{Error, Method, copy, copy_raw, copy_timeout, prepare, prepare_timeout};
use kumiki_shadow::Shadow;

use crate::child::in_a_child;
use crate::common::{self, Gate, fork_slow, panicked, shadows};

/// Something that waits for the job before it does anything.
type Next = (&'static str, fn(&mut Shadow));

const NEXT: [Next; 4] = [
    ("copy", |shadow| {
        let (mut to, from) = ([0; 100], [1; 100]);
        copy(shadow, &mut to, &from, Method::Split).unwrap();
        assert_eq!(to, from);
    }),
    ("copy by blocks", |shadow| {
        let (mut to, from) = ([0; 100], [1; 100]);
        copy(shadow, &mut to, &from, Method::Block(10)).unwrap();
        assert_eq!(to, from);
    }),
    ("copy_raw", |shadow| {
        let (mut to, from) = ([0; 100], [1; 100]);
        let (start, len) = (to.as_mut_ptr(), to.len());
        // SAFETY: two arrays of that length, both this thread's.
        unsafe { copy_raw(shadow, start, from.as_ptr(), len, Method::Prefetch) }.unwrap();
        assert_eq!(to, from);
    }),
    // The last one: nothing is measured a second time, nor waited for.
    ("prepare", |shadow| prepare(shadow)),
];

#[test]
fn whoever_waits_for_it_gets_its_panic() {
    in_a_child("unjoined::whoever_waits_for_it_gets_its_panic", wait_in_all_ways);
}

fn wait_in_all_ways() {
    for (name, next) in NEXT {
        for mut shadow in shadows() {
            shadow.fork(|| panic!("unjoined")).unwrap();
            assert!(panicked("unjoined", || next(&mut shadow)), "{name}");
            // It was joined by that.
            assert!(!shadow.is_busy(), "{name}");
        }
    }
    for (name, next) in NEXT {
        for mut shadow in shadows() {
            let gate = fork_slow(&mut shadow);
            next(&mut shadow);
            let measured_before = name == "prepare" && shadow.is_busy();
            assert!(gate.is_open() || measured_before, "{name}");
        }
    }
    // Without anything to wait for nothing is lost.
    for mut shadow in shadows() {
        shadow.fork(|| panic!("unjoined")).unwrap();
        let (mut to, from) = (vec![0; 2 << 20], vec![1; 2 << 20]);
        copy(&mut shadow, &mut to, &from, Method::Auto).unwrap();
        assert!(to == from && shadow.is_busy());
        prepare(&mut shadow);
        prepare_timeout(&mut shadow, Duration::ZERO).unwrap();
        let busy = copy_timeout(&mut shadow, &mut to, &from, Method::Split, Duration::MAX);
        assert!(matches!(busy, Err(Error::Busy)));
        let panic = shadow.join().unwrap().unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"unjoined"));
    }
}

#[test]
fn a_job_that_runs_is_not_waited_for_with_a_limit() {
    let (mut shadow, gate) = (common::shadow(), Arc::new(Gate::default()));
    let its = Arc::clone(&gate);
    shadow.fork(move || its.pass()).unwrap();
    let (mut to, from) = ([0], [1]);
    let copied = copy_timeout(&mut shadow, &mut to, &from, Method::Split, Duration::MAX);
    assert!(matches!(copied, Err(Error::Busy)) && to == [0], "{copied:?}");
    gate.open();
    shadow.join().unwrap().unwrap();
    copy_timeout(&mut shadow, &mut to, &from, Method::Split, Duration::MAX).unwrap();
    assert_eq!(to, from);
}
