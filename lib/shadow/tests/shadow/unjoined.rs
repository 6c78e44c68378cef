//! A job of `Shadow::fork` that was not joined before the next thing: who waits for it
//! gets its panic.

use std::time::Duration;

use kumiki_shadow::{Error, Shadow};

use crate::common::{fork_slow, panicked, shadows};

/// Something that waits for the job before it does anything.
type Next = (&'static str, fn(&mut Shadow));

const NEXT: [Next; 3] = [
    ("fork", |shadow| shadow.scope(|scope| scope.fork(|| ()).join().unwrap())),
    ("both", |shadow| assert_eq!(shadow.both(|| 1, || 2), (1, 2))),
    ("both_timeout", |shadow| {
        let (ours, theirs) = shadow.both_timeout(Duration::from_secs(60), || 1, || 2);
        assert_eq!((ours, theirs.unwrap()), (1, 2));
    }),
];

#[test]
fn whoever_waits_for_it_gets_its_panic() {
    for (name, next) in NEXT {
        for mut shadow in shadows() {
            shadow.fork(|| panic!("unjoined")).unwrap();
            assert!(panicked("unjoined", || next(&mut shadow)), "{name}");
            // It was joined by that.
            assert!(!shadow.is_busy(), "{name}");
            assert!(matches!(shadow.join(), Err(Error::NotForked)), "{name}");
        }
    }
    for (name, next) in NEXT {
        for mut shadow in shadows() {
            let gate = fork_slow(&mut shadow);
            next(&mut shadow);
            assert!(gate.is_open(), "{name}");
        }
    }
    // Without anything to wait for nothing is lost.
    for mut shadow in shadows() {
        shadow.fork(|| panic!("unjoined")).unwrap();
        shadow.scope(|_| ());
        assert!(matches!(shadow.fork(|| ()), Err(Error::Busy)));
        let panic = shadow.join().unwrap().unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"unjoined"));
    }
}

#[test]
fn the_end_with_a_limit_has_its_panic_and_a_drop_has_not() {
    for mut shadow in shadows() {
        shadow.fork(|| panic!("unjoined")).unwrap();
        assert!(panicked("unjoined", || {
            assert!(shadow.destroy_timeout(Duration::from_secs(60)).is_ok());
        }));
    }
    for mut shadow in shadows() {
        shadow.fork(|| panic!("unjoined")).unwrap();
        drop(shadow);
    }
}
