use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn keys(limit: usize) -> Keys {
    Keys::new(Arc::new(limit.into()), Hash::default())
}

fn value(keys: &Keys, key: &str, now: u64) -> Option<Vec<u8>> {
    keys.get(key.as_bytes(), now).map(|found| found.value.to_vec())
}

#[test]
fn what_has_gone_is_nowhere() {
    let mut keys = keys(1 << 20);
    keys.set(b"a", b"1", 100).unwrap();
    keys.set(b"b", b"2", 0).unwrap();
    assert_eq!(keys.get(b"a", 40).unwrap().goes_at, 100);
    assert_eq!(value(&keys, "a", 100), None);
    assert!(!keys.remove(b"a", 100), "it was not there");
    keys.goes(b"b", 300);
    assert_eq!((keys.going(), keys.clean(299)), (1, Some(300)));
    assert_eq!(keys.clean(300), None);
    assert_eq!((keys.len(), keys.going(), keys.expired()), (0, 0, 1));
}

/// Values of all lengths that come and go, until there is no room, again and again: so many bytes
/// are never passed, and what is live can always be nearly all of them.
#[test]
fn memory_is_bounded_however_values_come_and_go() {
    const LIMIT: usize = 8 << 20;
    let mut keys = keys(LIMIT);
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..12 {
        let length = [10, 100, 2100, 3000, 50, 20_000, 300, 7][round % 8];
        let (mut live, mut refused) = (0, 0);
        for at in 0..3_000_000 / (length + 20) * 4 {
            let key = format!("key{round}:{at}");
            let length = length + random.usize(..length);
            match keys.set(key.as_bytes(), &vec![b'v'; length], 0) {
                Ok(()) => live += length,
                Err(Full) => refused += 1,
            }
            assert!(keys.bytes() <= LIMIT, "{} in round {round}", keys.bytes());
        }
        assert!(refused > 0, "round {round}: {live}");
        // Most of them go, here and there: nothing is in one piece any more.
        let mut names = Vec::new();
        keys.each(|key, _| names.push(key.to_vec()));
        for name in names.iter().filter(|_| random.u8(..8) > 0) {
            assert!(keys.remove(name, 0));
        }
        // And of those that are left as many bytes can be had again, if others are moved.
        let before = keys.len();
        let mut more = 0;
        while keys.set(format!("more{more}").as_bytes(), &[b'm'; 3000], 0).is_ok() {
            more += 1;
        }
        assert!(
            more > 1200,
            "{more} values of 3000 bytes where seven eighths had gone, round {round}"
        );
        for at in 0..more {
            assert_eq!(value(&keys, &format!("more{at}"), 0).unwrap(), [b'm'; 3000]);
            keys.remove(format!("more{at}").as_bytes(), 0);
        }
        assert_eq!(keys.len(), before);
    }
    keys.clear(0, Vec::new());
    assert_eq!((keys.bytes(), keys.len()), (0, 0));
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut keys = keys(1 << 20);
    let large = vec![b'l'; 300_000];
    assert_eq!(keys.set(b"a", &large, 0), Ok(()));
    assert_eq!(keys.set(b"b", &large, 0), Ok(()));
    assert_eq!(keys.set(b"c", &large, 0), Ok(()));
    assert_eq!(keys.set(b"a", &vec![b'm'; 500_000], 0), Err(Full));
    assert_eq!(value(&keys, "a", 0).unwrap(), large);
    assert_eq!(keys.room_for([(1, 300_000)].into_iter()), Err(Full));
    assert!(keys.remove(b"b", 0));
    assert_eq!(keys.room_for([(1, 100_000)].into_iter()), Ok(()));
}

/// A walk meets each key that is there all the time once, whatever others do meanwhile.
#[test]
fn a_walk_meets_all_that_stay() {
    let mut keys = keys(64 << 20);
    let mut random = fastrand::Rng::with_seed(9);
    for at in 0..20_000 {
        keys.set(format!("stays{at}").as_bytes(), b"v", 0).unwrap();
    }
    for count in [1, 10, 1000] {
        let (mut seen, mut cursor, mut steps) = (BTreeMap::<Vec<u8>, usize>::new(), Some(0), 0);
        while let Some(from) = cursor {
            let mut at_once = 0;
            cursor = keys.scan(from, count, |key, _| {
                *seen.entry(key.to_vec()).or_default() += 1;
                at_once += 1;
            });
            assert!(at_once <= count + 1, "{at_once} of {count}");
            steps += 1;
            // A table grows, and shrinks.
            for _ in 0..random.usize(..10) {
                keys.set(format!("goes{}", random.u16(..)).as_bytes(), b"v", 0).unwrap();
                keys.remove(format!("goes{}", random.u16(..)).as_bytes(), 0);
            }
        }
        assert!(steps <= 20_000 * 5 / count.min(20), "{steps}");
        for at in 0..20_000 {
            assert_eq!(seen.get(format!("stays{at}").as_bytes()), Some(&1), "{at} by {count}");
        }
    }
    let drawn: BTreeSet<Vec<u8>> =
        (0..100).filter_map(|_| keys.random(random.u64(..), 0)).map(<[u8]>::to_vec).collect();
    assert!(drawn.len() > 90, "{}", drawn.len());
    // Few are as likely, too.
    keys.clear(0, Vec::new());
    keys.set(b"a", b"v", 0).unwrap();
    keys.set(b"b", b"v", 0).unwrap();
    let draws = (0..1000).filter(|_| keys.random(random.u64(..), 0) == Some(b"a")).count();
    assert!((400..600).contains(&draws), "{draws}");
}

#[test]
fn who_watches_sees_each_change() {
    let mut keys = keys(1 << 20);
    keys.set(b"a", b"1", 0).unwrap();
    keys.set(b"goes", b"1", 50).unwrap();
    type Change = fn(&mut Keys);
    let changes: [(Change, bool); 8] = [
        (|_| (), true),
        (|keys| keys.set(b"a", b"2", 0).unwrap(), false),
        (|keys| keys.set(b"a", b"longer", 0).unwrap(), false),
        (|keys| keys.goes(b"a", 1 << 40), false),
        (|keys| keys.set(b"other", b"2", 0).unwrap(), true),
        (|keys| _ = keys.remove(b"a", 1), false),
        (|keys| _ = keys.remove(b"a", 1), true),
        (|keys| keys.set(b"a", b"1", 0).unwrap(), false),
    ];
    for (change, is_same) in changes {
        let seen = keys.watch(b"a", 1);
        change(&mut keys);
        assert_eq!(keys.unwatch(&seen, 1), is_same);
    }
    let seen = keys.watch(b"goes", 40);
    assert!(!keys.unwatch(&seen, 60), "it has gone");
    let seen = keys.watch(b"goes", 60);
    assert!(keys.unwatch(&seen, 70), "it had gone before");
    let seen = keys.watch(b"a", 1);
    let nobody = keys.watch(b"nobody", 1);
    keys.clear(1, Vec::new());
    assert!(!keys.unwatch(&seen, 1) && keys.unwatch(&nobody, 1));
}

proptest! {
    #[test]
    fn it_is_a_map(steps in prop::collection::vec((0..6_u8, 0..6_u8, 0..90_u64), 0..300)) {
        // So little that entries are moved now and then.
        let mut keys = keys(400 << 10);
        let mut model: BTreeMap<String, (usize, u64)> = BTreeMap::new();
        let mut now = 1;
        for (what, key, number) in steps {
            let key = format!("key{key}");
            let bytes = key.as_bytes();
            model.retain(|_, (_, at)| *at == 0 || *at > now);
            match what {
                0 | 1 => {
                    let goes_at = if number % 3 == 0 { 0 } else { now + number };
                    let length = number as usize * 300;
                    if keys.set(bytes, &vec![b'v'; length], goes_at).is_ok() {
                        model.insert(key, (length, goes_at));
                    }
                }
                2 => prop_assert_eq!(keys.remove(bytes, now), model.remove(&key).is_some()),
                3 => {
                    // Of one that is there; what has gone stays away.
                    if let Some(its) = model.get_mut(&key) {
                        keys.goes(bytes, now + number);
                        its.1 = now + number;
                    }
                }
                4 => {
                    now += number;
                    keys.clean(now);
                }
                _ => {
                    let found = keys.get(bytes, now).map(|found| (found.value.len(), found.goes_at));
                    prop_assert_eq!(found, model.get(&key).copied());
                }
            }
            prop_assert!(keys.bytes() <= 400 << 10);
            let mut count = 0;
            keys.each(|_, goes_at| count += usize::from(goes_at == 0 || goes_at > now));
            model.retain(|_, (_, at)| *at == 0 || *at > now);
            prop_assert_eq!(count, model.len());
        }
        let mut later = now;
        while let Some(next) = keys.clean(later) {
            later = next.max(later + 1);
        }
        let for_ever = model.values().filter(|(_, at)| *at == 0).count();
        prop_assert_eq!((keys.len(), keys.going()), (for_ever, 0));
    }
}
