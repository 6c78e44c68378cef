//! The paper's figure: 4 KiB of memory made and destroyed as a resource, by each core.

use std::sync::Arc;

use anyhow::Result;
use kumiki_experiments::resource::shared::SharedKind;
use kumiki_resource::{Interface, Memory, Place};

use crate::child::turns;
use crate::pair::Pair;

use super::request::Request;
use super::together::Together;

/// Makes and destroys one with this name.
fn once(interface: &Interface, place: Place, name: &str) {
    let memory = interface.create::<Memory>(place, Some(name), 1).expect("there is memory");
    interface.destroy(memory).expect("made just now");
}

fn serve(mut pairs: Together<impl FnMut()>) -> Result<()> {
    turns(|request| {
        let cores = match request {
            Request::MemoryPair { cores } => cores,
            Request::MemoryBusy { .. } => 2,
            _ => return Ok(None),
        };
        let samples = pairs.turn(cores);
        Ok(samples.map(|all| all.into_iter().map(|ns| ns / cores as f64).collect()))
    })
}

/// Each thread manages the place of its cpu.
pub(crate) fn kumiki(pair: Pair) -> Result<()> {
    // A place's cpu must be one that this thread may use.
    pair.bind_both()?;
    let both = [pair.main, pair.helper];
    let interface = Interface::builder().kind::<Memory>().cores([]).adopted(both).per_core()?;
    pair.bind_main()?;
    let place = |cpu: usize| interface.place(&format!("core{cpu}"));
    let (here, there) = (place(pair.main)?, place(pair.helper)?);
    let _manager = interface.manage(here)?;
    let theirs = interface.clone();
    let other = move || {
        let manager = theirs.manage(there).expect("its place is free");
        move || {
            let _serves = &manager;
            once(&theirs, there, "buffer");
        }
    };
    serve(Together::both(|| once(&interface, here, "buffer"), pair, other)?)
}

/// A sharded map from names to pages, for both: what an engineer would write today.
#[cfg(feature = "peers")]
pub(crate) fn map(pair: Pair) -> Result<()> {
    use dashmap::DashMap;

    use super::pages::BYTES;

    /// Of any content.
    type Page = Box<std::mem::MaybeUninit<[u8; BYTES]>>;

    fn once(map: &DashMap<String, Page>, name: &str) {
        map.insert(name.to_owned(), Box::new_uninit());
        map.remove(name).expect("made just now");
    }
    let map = Arc::new(DashMap::new());
    let theirs = Arc::clone(&map);
    let other = move || move || once(&theirs, "buffer-1");
    serve(Together::both(move || once(&map, "buffer-0"), pair, other)?)
}

/// One table and one name tree for both.
pub(crate) fn shared(pair: Pair) -> Result<()> {
    /// Makes and destroys one with this name.
    fn once(all: &SharedKind<Memory>, name: &str) {
        let memory = all.create(Some(name), 1).expect("there is memory");
        all.destroy(memory).expect("made just now");
    }
    let all = Arc::new(SharedKind::new()?);
    let theirs = Arc::clone(&all);
    let other = move || move || once(&theirs, "buffer-1");
    serve(Together::both(|| once(&all, "buffer-0"), pair, other)?)
}
