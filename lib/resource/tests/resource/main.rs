//! Resources as a program uses them.

mod calls;
#[path = "../child/mod.rs"]
mod child;
mod cores;
mod desk;
mod faults;
mod kinds;
mod model;
mod names;
mod nested;
mod passed;
mod published;
mod tree;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Builder, Error, Interface, Place, Result};

/// A number, and in its place's pool how many there are.
struct Counter {
    value: u64,
    _live: Live,
}

/// Told when it is dropped.
struct Live(Option<Arc<AtomicUsize>>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.iter().for_each(|live| _ = live.fetch_sub(1, Ordering::Relaxed));
    }
}

impl Kind for Counter {
    const NAME: &'static str = "counter";
    type Spec = (u64, Option<Arc<AtomicUsize>>);
    type Pool = usize;

    fn pool(_: Place) -> Result<usize> {
        Ok(0)
    }

    fn create((value, live): Self::Spec, pool: &mut usize) -> Result<Counter> {
        if value == u64::MAX {
            let text = format!("{value} is the largest number there is: ask for a smaller one");
            return Err(Error::Kind { kind: Self::NAME, text });
        }
        *pool += 1;
        live.iter().for_each(|live| _ = live.fetch_add(1, Ordering::Relaxed));
        Ok(Counter { value, _live: Live(live) })
    }

    fn destroy(self, pool: &mut usize) {
        *pool -= 1;
    }

    fn about(&self) -> About {
        About { state: self.value.to_string(), bytes: 8 }
    }
}

/// Another kind, of which there is never much.
struct Flag;

impl Kind for Flag {
    const NAME: &'static str = "flag";
    type Spec = ();
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create((): (), (): &mut ()) -> Result<Flag> {
        Ok(Flag)
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About::default()
    }
}

fn builder() -> Builder {
    Interface::builder().kind::<Counter>().kind::<Flag>()
}

/// One of all cpus and one of a single one, which are to behave alike.
fn both() -> [Interface; 2] {
    let one = kumiki_sys::affinity::current().unwrap().first();
    [builder().per_core().unwrap(), builder().cores(one).per_core().unwrap()]
}
