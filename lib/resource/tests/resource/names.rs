//! Names, ids, rights, listing and watching.

use std::time::Duration;

use kumiki_resource::{Error, Handle, Id, Name, Next, Pattern, Rights};

use crate::{Counter, Flag, both, builder};

#[test]
fn a_name_leads_to_its_resource_until_that_is_destroyed() {
    for interface in both() {
        let place = interface.places()[0];
        let made = interface.create::<Counter>(place, Some("hits"), (3, None)).unwrap();
        let name: Name = interface.ls(&Pattern::all()).unwrap()[0].name.parse().unwrap();
        let opened: Handle<Counter> = interface.open(&name).unwrap();
        assert_eq!(opened.id(), made.id());
        interface.with(&opened, |counter, _| counter.value += 1).unwrap();
        assert_eq!(interface.with(&made, |counter, pool| (counter.value, *pool)).unwrap(), (4, 1));

        let taken = interface.create::<Counter>(place, Some("hits"), (0, None)).unwrap_err();
        assert!(matches!(&taken, Error::Taken { id, .. } if *id == made.id()), "{taken}");
        // Of another kind it is another name.
        interface.create::<Flag>(place, Some("hits"), ()).unwrap();

        interface.destroy(made).unwrap();
        assert!(matches!(interface.lookup(&name), Err(Error::NotFound { .. })));
        let stale = interface.with(&opened, |counter, _| counter.value).unwrap_err();
        assert!(matches!(stale, Error::Stale { .. }), "{stale}");
        let again = interface.create::<Counter>(place, Some("hits"), (0, None)).unwrap();
        assert_ne!(again.id(), opened.id());
    }
}

#[test]
fn handles_allow_what_their_rights_say() {
    for interface in both() {
        let place = interface.places()[0];
        let all = interface.create::<Counter>(place, Some("a"), (0, None)).unwrap();
        let used = all.share(Rights::USE).unwrap();
        interface.with(&used, |counter, _| counter.value = 1).unwrap();
        assert!(matches!(used.share(Rights::USE), Err(Error::Rights { .. })));
        let name = interface.ls(&Pattern::all()).unwrap()[0].name.parse().unwrap();
        let opened = interface.open::<Counter>(&name).unwrap();
        let more = opened.share(Rights::DESTROY).unwrap_err();
        assert!(more.to_string().contains("needs destroy"), "{more}");
        let idle = all.share(Rights::SHARE).unwrap();
        assert!(matches!(interface.with(&idle, |_, _| ()), Err(Error::Rights { .. })));
        let refused = interface.destroy(opened).unwrap_err();
        assert!(refused.to_string().contains("allows use | share"), "{refused}");
        interface.destroy(all).unwrap();
    }
}

#[test]
fn an_id_at_no_place_is_refused_whatever_is_asked() {
    let interface = builder().per_core().unwrap();
    let flag = interface.create::<Flag>(interface.places()[0], None, ()).unwrap();
    let elsewhere = Id::from_u64(flag.id().to_u64() | 0xffff << 48);
    let forged = interface.of_id::<Flag>(elsewhere).unwrap();
    let next = |_: &mut Flag, (): &mut ()| Next {
        to: interface.of_id::<Flag>(flag.id()).unwrap(),
        run: |_: &mut Flag, (): &mut ()| (),
    };
    let outcomes = [
        interface.with(&forged, |_, ()| ()),
        interface.with_timeout(&forged, Duration::from_secs(60), |_, ()| ()),
        interface.start(&forged, |_, ()| ()).map(drop),
        interface.chain(&forged, next).map(drop),
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::NoPlace { .. })), "{outcome:?}");
    }
    interface.destroy(flag).unwrap();
}

#[test]
fn a_handle_is_of_one_interface() {
    let ([a, b], [c, d]) = (both(), both());
    for [one, two] in [[&a, &b], [&a, &c], [&b, &d]] {
        let mine = one.create::<Flag>(one.places()[0], None, ()).unwrap();
        two.create::<Flag>(two.places()[0], None, ()).unwrap();
        let enough = Duration::from_secs(60);
        let outcomes = [
            two.with(&mine, |_, ()| ()),
            two.with_timeout(&mine, enough, |_, ()| ()),
            two.start(&mine, |_, ()| ()).map(drop),
            two.destroy_by(&mine),
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(Error::Foreign { .. })), "{outcome:?}");
        }
        one.with(&mine.share(Rights::USE).unwrap(), |_, ()| ()).unwrap();
    }
}

#[test]
fn ids_of_another_kind_place_or_time_are_refused() {
    for interface in both() {
        let place = interface.places()[0];
        let flag = interface.create::<Flag>(place, None, ()).unwrap();
        let wrong = interface.of_id::<Counter>(flag.id()).unwrap_err();
        assert!(wrong.to_string().contains("of kind flag, not counter"), "{wrong}");
        let numbers = |shift: u32| kumiki_resource::Id::from_u64(flag.id().to_u64() ^ 1 << shift);
        // Another index, another use; another kind; a place that is not there.
        for shift in [3, 22] {
            let forged = interface.of_id::<Flag>(numbers(shift)).unwrap();
            let error = interface.with(&forged, |_, ()| ()).unwrap_err();
            assert!(matches!(error, Error::Unknown { .. }), "{error}");
        }
        assert!(matches!(interface.of_id::<Flag>(numbers(45)), Err(Error::NoKind { .. })));
        if interface.places().len() > 1 {
            let nowhere = interface.of_id::<Flag>(numbers(63)).unwrap();
            let error = interface.with(&nowhere, |_, ()| ()).unwrap_err();
            assert!(matches!(error, Error::NoPlace { .. }), "{error}");
        }
        for (name, what) in
            [("core9999/flag/a", "no place core9999"), ("nokind/kind/a", "no kind kind")]
        {
            let error = interface.lookup(&name.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        let bad = interface.create::<Flag>(place, Some("a/b"), ()).unwrap_err();
        assert!(matches!(bad, Error::Name { .. }), "{bad}");
        let refused = interface.create::<Counter>(place, Some("b"), (u64::MAX, None)).unwrap_err();
        assert!(refused.to_string().starts_with("counter: "), "{refused}");
        assert_eq!(interface.ls(&Pattern::all()).unwrap().len(), 1);
    }
}

#[test]
fn listings_match_patterns_in_order() {
    for interface in both() {
        for place in interface.places() {
            for unique in ["b", "a", "c"] {
                interface.create::<Counter>(place, Some(unique), (0, None)).unwrap();
            }
            interface.create::<Flag>(place, None, ()).unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            let all = interface.ls(&Pattern::new(pattern).unwrap()).unwrap();
            all.into_iter().map(|listed| listed.name).collect()
        };
        let places = interface.places().len();
        assert_eq!(names("**").len(), 4 * places);
        assert_eq!(names("*/counter/[ab]").len(), 2 * places);
        assert_eq!(names("*/counter").len(), 0);
        assert!(names("*/counter/*")[..3].is_sorted());
        assert!(names("*/flag/*")[0].contains("/flag/0x"));
        assert!(Pattern::new("[").is_err());
    }
}

#[test]
fn watchers_hear_of_names_that_come_and_go() {
    for interface in both() {
        let place = *interface.places().last().unwrap();
        let changes = interface.watch(&Pattern::new("*/counter/a*").unwrap()).unwrap();
        let handle = interface.create::<Counter>(place, Some("ab"), (0, None)).unwrap();
        interface.create::<Counter>(place, Some("b"), (0, None)).unwrap();
        interface.create::<Flag>(place, Some("a"), ()).unwrap();
        let id = handle.id();
        interface.destroy(handle).unwrap();
        let heard: Vec<_> = changes.try_iter().map(|change| (change.id, change.created)).collect();
        assert_eq!(heard, [(id, true), (id, false)]);
    }
}
