//! Random operations by two threads, held against a model of what each has made.

use std::collections::BTreeMap;
use std::thread;

use kumiki_resource::{Error, Handle, Interface, Pattern, Rights};
use proptest::prelude::*;

use crate::{Counter, both};

#[derive(Clone, Debug)]
enum Step {
    Create { place: usize, name: Option<u8> },
    Add { which: usize, by: u64 },
    Destroy { which: usize },
    Stale { which: usize },
    Lookup { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..1000_usize;
    prop_oneof![
        4 => (0..8_usize, prop::option::of(0..20_u8)).prop_map(|(place, name)| Step::Create { place, name }),
        6 => (which.clone(), 0..9_u64).prop_map(|(which, by)| Step::Add { which, by }),
        2 => which.clone().prop_map(|which| Step::Destroy { which }),
        1 => which.clone().prop_map(|which| Step::Stale { which }),
        2 => which.prop_map(|which| Step::Lookup { which }),
    ]
}

struct Made {
    handle: Handle<Counter>,
    name: Option<String>,
    value: u64,
}

/// What one thread makes is its own; the names carry its number.
fn run(interface: &Interface, thread: usize, steps: &[Step]) {
    let places = interface.places();
    let (mut made, mut gone): (Vec<Made>, Vec<Handle<Counter>>) = Default::default();
    let mut names = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Create { place, name } => {
                let place = places[place % places.len()];
                let unique = name.map(|name| format!("{thread}-{name}"));
                let created = interface.create::<Counter>(place, unique.as_deref(), (0, None));
                let key = (place, unique.clone());
                match created {
                    Ok(handle) => {
                        assert!(unique.is_none() || names.insert(key, handle.id()).is_none());
                        let listed = unique.map(|unique| format!("*/counter/{unique}"));
                        made.push(Made { handle, name: listed, value: 0 });
                    }
                    Err(Error::Taken { id, .. }) => assert_eq!(names.get(&key), Some(&id)),
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Add { which, by } if !made.is_empty() => {
                let at = which % made.len();
                let made = &mut made[at];
                made.value += by;
                let add = |counter: &mut Counter, _: &mut usize| {
                    counter.value += by;
                    counter.value
                };
                assert_eq!(interface.with(&made.handle, add).unwrap(), made.value);
            }
            Step::Destroy { which } if !made.is_empty() => {
                let Made { handle, .. } = made.swap_remove(which % made.len());
                let id = handle.id();
                gone.push(handle.share(Rights::USE).unwrap());
                interface.destroy(handle).unwrap();
                names.retain(|_, named| *named != id);
            }
            Step::Stale { which } if !gone.is_empty() => {
                let error = interface.with(&gone[which % gone.len()], |_, _| ()).unwrap_err();
                assert!(matches!(error, Error::Stale { .. }), "{error}");
            }
            Step::Lookup { which } if !made.is_empty() => {
                let made = &made[which % made.len()];
                let Some(pattern) = &made.name else { continue };
                let listed = interface.ls(&Pattern::new(pattern).unwrap()).unwrap();
                assert!(listed.iter().any(|listed| listed.id == made.handle.id()));
            }
            _ => {}
        }
    }
    for Made { handle, .. } in made {
        interface.destroy(handle).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_operation_does_what_the_model_does(steps in prop::collection::vec(step(), 1..300)) {
        for interface in both() {
            let half = steps.len() / 2;
            thread::scope(|threads| {
                threads.spawn(|| run(&interface, 0, &steps[..half]));
                threads.spawn(|| run(&interface, 1, &steps[half..]));
            });
            prop_assert!(interface.ls(&Pattern::all()).unwrap().is_empty());
        }
    }
}
