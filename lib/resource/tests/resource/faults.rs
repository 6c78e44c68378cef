//! Handlers that panic, managers that die, interfaces that end.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Error, Interface, Pattern, Place, Result};
use kumiki_sys::affinity;

use crate::child::in_a_child;
use crate::{Counter, Flag, both, builder};

#[test]
fn a_panic_in_a_program_part_is_the_caller_s_error() {
    let interface = builder().per_core().unwrap();
    let counter = interface.create::<Counter>(interface.places()[0], None, (1, None)).unwrap();
    let error = interface
        .with(&counter, |counter, _| {
            counter.value = 2;
            assert_eq!(counter.value, 0, "on purpose");
        })
        .unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert_eq!(interface.with(&counter, |counter, _| counter.value).unwrap(), 2);
}

/// It cannot be taken apart.
struct Stubborn;

impl Kind for Stubborn {
    const NAME: &'static str = "stubborn";
    type Spec = ();
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create((): (), (): &mut ()) -> Result<Stubborn> {
        Ok(Stubborn)
    }

    fn destroy(self, (): &mut ()) {
        panic!("on purpose");
    }

    fn about(&self) -> About {
        About::default()
    }
}

#[test]
fn a_panic_in_destroy_leaves_no_name() {
    let own = affinity::current().unwrap().first().unwrap();
    let builder = || Interface::builder().kind::<Stubborn>();
    let adopted = builder().cores([]).adopted([own]).per_core().unwrap();
    let manager = adopted.manage(adopted.places()[0]).unwrap();
    for interface in [&builder().per_core().unwrap(), &adopted] {
        let place = interface.places()[0];
        for _ in 0..3 {
            let one = interface.create::<Stubborn>(place, Some("one"), ()).unwrap();
            let gone = interface.of_id::<Stubborn>(one.id()).unwrap();
            // At a manager's own place the panic is in this thread.
            let outcome = catch_unwind(AssertUnwindSafe(|| interface.destroy(one)));
            assert!(!matches!(outcome, Ok(Ok(()))), "{outcome:?}");
            assert!(matches!(interface.with(&gone, |_, ()| ()), Err(Error::Stale { .. })));
            assert!(interface.ls(&Pattern::all()).unwrap().is_empty());
        }
    }
    drop(manager);
}

#[test]
fn a_manager_that_is_killed_answers() {
    let interface = builder().per_core().unwrap();
    let place = interface.places()[0];
    let flag = interface.create::<Flag>(place, Some("a"), ()).unwrap();
    let died = interface
        // SAFETY: ends the manager's thread alone.
        .with(&flag, |_, ()| unsafe { libc::syscall(libc::SYS_exit, 0) })
        .unwrap_err();
    assert!(died.to_string().contains("died during this request"), "{died}");
    let gone = interface.create::<Flag>(place, None, ()).unwrap_err();
    assert!(matches!(gone, Error::Manager { .. }), "{gone}");
    // Others serve on.
    for other in &interface.places()[1..] {
        interface.create::<Flag>(*other, None, ()).unwrap();
    }
}

#[test]
fn an_interface_that_ends_leaves_nothing() {
    // Other tests open files meanwhile.
    in_a_child("faults::an_interface_that_ends_leaves_nothing", ends);
}

fn ends() {
    let count = |folder: &str| fs::read_dir(folder).unwrap().count();
    let before = (count("/proc/self/fd"), Arc::new(AtomicUsize::new(0)));
    for interface in both() {
        for place in interface.places() {
            for name in [None, Some("a"), Some("b")] {
                let spec = (1, Some(Arc::clone(&before.1)));
                before.1.fetch_add(0, Ordering::Relaxed);
                interface.create::<Counter>(place, name, spec).unwrap();
            }
        }
        assert!(before.1.load(Ordering::Relaxed) >= 3);
        drop(interface);
        assert_eq!(before.1.load(Ordering::Relaxed), 0);
    }
    assert_eq!(count("/proc/self/fd"), before.0);
}

#[test]
fn cpus_that_are_not_there_are_refused() {
    let error = builder().cores([100_000]).per_core().unwrap_err();
    assert!(error.to_string().contains("100000"), "{error}");
}

/// Its pool panics, or its thread is killed there.
struct Unfit<const DIES: bool>;

impl<const DIES: bool> Kind for Unfit<DIES> {
    const NAME: &'static str = "unfit";
    type Spec = ();
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        if DIES {
            // SAFETY: ends the manager's thread alone.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        panic!("a pool, on purpose");
    }

    fn create((): (), (): &mut ()) -> Result<Self> {
        Ok(Unfit)
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About::default()
    }
}

#[test]
fn a_manager_that_ends_while_it_sets_itself_up_is_an_error() {
    for builder in [builder().kind::<Unfit<false>>(), builder().kind::<Unfit<true>>()] {
        let error = builder.per_core().unwrap_err();
        assert!(matches!(error, Error::Setup { .. }), "{error}");
    }
}
