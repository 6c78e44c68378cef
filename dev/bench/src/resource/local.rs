//! What stays on its core: a call to what the calling thread owns, a name looked up.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Mutex;

use anyhow::Result;
use foldhash::fast::RandomState;
use kumiki_experiments::resource::shared::SharedKind;
use kumiki_resource::{Interface, Name, Pattern, Place};

use crate::child::turns;
use crate::pair::Pair;

use super::request::Request;
use super::table::{ENTRIES, Table};
use super::together::Together;

/// Names among which one is looked up.
const NAMES: u64 = 1000;

/// Serves by these two operations, each of which is handed a number below
/// [`ENTRIES`].
fn serve(mut call: impl FnMut(u64) -> u64, mut lookup: impl FnMut(u64)) -> Result<()> {
    let mut keys = [0; 2];
    let [call_key, name_key] = &mut keys;
    let next = |key: &mut u64| {
        *key = (*key + 1) % ENTRIES;
        *key
    };
    let mut calls = Together::alone(|| _ = black_box(call(next(call_key))));
    let mut lookups = Together::alone(|| lookup(next(name_key)));
    turns(|request| match request {
        Request::LocalCall => Ok(calls.turn(1)),
        Request::Lookup => Ok(lookups.turn(1)),
        _ => Ok(None),
    })
}

fn unique(at: u64) -> String {
    format!("table-{at}")
}

/// Through `interface`, which has `place` here.
fn through(interface: &Interface, place: Place) -> Result<()> {
    let table = interface.create::<Table>(place, Some("counts"), ())?;
    let mut names: Vec<Name> = Vec::new();
    for at in 0..NAMES {
        interface.create::<Table>(place, Some(&unique(at)), ())?;
    }
    for listed in interface.ls(&Pattern::new("*/table/table-*")?)? {
        names.push(listed.name.parse()?);
    }
    let call = |key| interface.with(&table, |table, ()| table.count(key)).expect("it is there");
    let lookup = |at| _ = black_box(interface.lookup(&names[at as usize]).expect("it is there"));
    serve(call, lookup)
}

/// This thread manages its cpu's place.
pub(crate) fn kumiki(pair: Pair) -> Result<()> {
    let interface =
        Interface::builder().kind::<Table>().cores([]).adopted([pair.main]).per_core()?;
    let place = interface.places()[0];
    let _manager = interface.manage(place)?;
    through(&interface, place)
}

/// The shared type, of which nobody else uses anything.
pub(crate) fn shared() -> Result<()> {
    let all = SharedKind::<Table>::new()?;
    let table = all.create(Some("counts"), ())?;
    let names: Vec<String> = (0..NAMES).map(unique).collect();
    for name in &names {
        all.create(Some(name), ())?;
    }
    let call = |key| all.with(table, |table, ()| table.count(key)).expect("it is there");
    let lookup = |at| _ = black_box(all.lookup(&names[at as usize]).expect("it is there"));
    serve(call, lookup)
}

/// A map by name, and a table, each under a mutex that nobody else wants.
pub(crate) fn mutex_map() -> Result<()> {
    let map: HashMap<String, u64, RandomState> = (0..NAMES).map(|at| (unique(at), at)).collect();
    let names: Vec<String> = map.keys().cloned().collect();
    let (map, table) = (Mutex::new(map), Mutex::new(Table::new()));
    let call = |key| table.lock().expect("nobody panics").count(key);
    let lookup = |at: u64| {
        let map = map.lock().expect("nobody panics");
        black_box(map.get(&names[at as usize]).copied());
    };
    serve(call, lookup)
}

/// The table itself; there is nothing to look up.
pub(crate) fn direct() -> Result<()> {
    let mut table = Table::new();
    serve(|key| table.count(key), |_| ())
}
