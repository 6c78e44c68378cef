//! Operations within operations: refused where they would wait for themselves or for each
//! other.

use std::time::Duration;

use kumiki_resource::{Error, Interface};
use kumiki_sys::affinity;

use crate::calls::busy;
use crate::{Counter, Flag, builder};

fn is_nested<T: std::fmt::Debug>(outcome: kumiki_resource::Result<T>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::Nested { .. }), "{error}");
}

/// The calling thread is to manage the first place; the second has a manager of its own.
fn half_adopted() -> Option<Interface> {
    let allowed = affinity::current().unwrap();
    let mut cpus = allowed.iter();
    let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else {
        eprintln!("skipped: two cpus are needed");
        return None;
    };
    Some(builder().cores([second]).adopted([first]).per_core().unwrap())
}

#[test]
fn a_manager_within_an_operation_does_not_wait_for_others() {
    let Some(interface) = half_adopted() else { return };
    let [own, other] = interface.places()[..] else { unreachable!() };
    let _manager = interface.manage(own).unwrap();
    let mine = interface.create::<Counter>(own, None, (0, None)).unwrap();
    let there = interface.create::<Counter>(other, None, (0, None)).unwrap();
    let enough = Duration::from_secs(60);
    let (go, first) = busy(&interface, other);
    interface
        .with(&mine, |_, _| {
            is_nested(interface.with(&there, |counter, _| counter.value));
            is_nested(interface.with_timeout(&there, enough, |counter, _| counter.value));
            let answer = interface.start(&there, |counter, _| counter.value += 1).unwrap();
            is_nested(answer.wait());
        })
        .unwrap();
    drop(go);
    first.wait().unwrap();
    // What nobody could wait for has not run, and the manager calls on.
    assert_eq!(interface.with(&there, |counter, _| counter.value).unwrap(), 0);
    // What has come already is taken.
    let answer = interface.start(&there, |counter, _| counter.value).unwrap();
    while !answer.is_done() {
        std::thread::yield_now();
    }
    assert_eq!(interface.with(&mine, move |_, _| answer.wait().unwrap()).unwrap(), 0);
}

#[test]
fn a_manager_within_an_operation_does_not_wait_for_another_interface() {
    let [one, two] = [builder().per_core().unwrap(), builder().per_core().unwrap()];
    let flag = one.create::<Flag>(one.places()[0], None, ()).unwrap();
    let counter = two.create::<Counter>(two.places()[0], None, (0, None)).unwrap();
    let (go, first) = busy(&two, two.places()[0]);
    one.with(&flag, |_, ()| {
        is_nested(two.with(&counter, |counter, _| counter.value));
        is_nested(two.start(&counter, |counter, _| counter.value += 1).unwrap().wait());
    })
    .unwrap();
    drop(go);
    first.wait().unwrap();
    assert_eq!(two.with(&counter, |counter, _| counter.value).unwrap(), 0);
}

#[test]
fn one_that_manages_calls_other_interfaces() {
    let Some(interface) = half_adopted() else { return };
    let two = builder().per_core().unwrap();
    let manager = interface.manage(interface.places()[0]).unwrap();
    for place in two.places() {
        let counter = two.create::<Counter>(place, None, (7, None)).unwrap();
        assert_eq!(two.with(&counter, |counter, _| counter.value).unwrap(), 7);
        let answer = two.start(&counter, |counter, _| counter.value).unwrap();
        assert_eq!(answer.wait().unwrap(), 7);
    }
    drop(manager);
}
