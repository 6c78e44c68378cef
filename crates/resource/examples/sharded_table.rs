//! A table sharded over cores, whose owners are called, beside the same table under
//! mutexes; with what each gives.
//!
//! ```text
//! cargo run --release --package kumiki-resource --example sharded_table [SECONDS]
//! ```
//!
//! Keys belong to cores. A shard is a resource with a name, and nobody but its core
//! touches its map: so the map has no lock, and stays in that core's cache. Meanwhile
//! `kumiki resource top` shows the shards at work.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Handle, Interface, Place, Result};

/// What one core owns of the table.
struct Shard(HashMap<u64, u64>);

impl Kind for Shard {
    const NAME: &'static str = "shard";
    type Spec = ();
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create((): (), (): &mut ()) -> Result<Shard> {
        Ok(Shard(HashMap::new()))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        let state = format!("{} keys", self.0.len());
        About { state, bytes: (self.0.capacity() * size_of::<(u64, u64)>()) as u64 }
    }
}

/// The table: counts by keys.
struct Sharded {
    interface: Interface,
    shards: Vec<Handle<Shard>>,
    hash: RandomState,
}

impl Sharded {
    fn new() -> Result<Sharded> {
        let interface = Interface::builder().kind::<Shard>().per_core()?;
        let places = interface.places().into_iter();
        let shards = places.map(|place| interface.create(place, Some("counts"), ()));
        let shards = shards.collect::<Result<_>>()?;
        Ok(Sharded { interface, shards, hash: RandomState::new() })
    }

    /// Counts all of these keys, a call for each core that has some of them.
    fn add(&self, keys: &[u64]) -> Result<()> {
        let mut by_shard = vec![Vec::new(); self.shards.len()];
        for key in keys {
            by_shard[self.hash.hash_one(key) as usize % self.shards.len()].push(*key);
        }
        for (shard, keys) in self.shards.iter().zip(by_shard) {
            self.interface.with(shard, |Shard(map), ()| {
                for key in keys {
                    *map.entry(key).or_default() += 1;
                }
            })?;
        }
        Ok(())
    }

    fn total(&self) -> Result<u64> {
        let sum = |shard| self.interface.with(shard, |Shard(map), ()| map.values().sum::<u64>());
        self.shards.iter().map(sum).sum()
    }
}

/// The same with locks: as many maps, a mutex each.
struct Locked {
    maps: Vec<Mutex<HashMap<u64, u64>>>,
    hash: RandomState,
}

impl Locked {
    fn new(maps: usize) -> Locked {
        Locked { maps: (0..maps).map(|_| Mutex::default()).collect(), hash: RandomState::new() }
    }

    fn add(&self, keys: &[u64]) {
        for key in keys {
            let at = self.hash.hash_one(key) as usize % self.maps.len();
            *self.maps[at].lock().expect("nobody panics").entry(*key).or_default() += 1;
        }
    }

    fn total(&self) -> u64 {
        let sum = |map: &Mutex<HashMap<u64, u64>>| {
            map.lock().expect("nobody panics").values().sum::<u64>()
        };
        self.maps.iter().map(sum).sum()
    }
}

/// Has `threads` threads add batches of keys for so long; how many keys a second.
fn run(time: Duration, threads: u64, batch: u64, add: impl Fn(&[u64]) + Sync) -> (u64, f64) {
    let (stop, added) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, added, add) = (&stop, &added, &add);
            scope.spawn(move || {
                // The numbers of Knuth's generator (MMIX), of which the upper half is good.
                let mut number = thread;
                let mut next = || {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (number >> 33) % 100_000
                };
                let mut own = 0;
                while !stop.load(Ordering::Relaxed) {
                    let keys: Vec<u64> = (0..batch).map(|_| next()).collect();
                    add(&keys);
                    own += batch;
                }
                added.fetch_add(own, Ordering::Relaxed);
            });
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let added = added.into_inner();
    (added, added as f64 / start.elapsed().as_secs_f64())
}

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("keys per second, {cores} threads, {cores} shards, 100,000 keys:");
    println!("{:>8} {:>14} {:>14}", "batch", "sharded", "mutexes");
    for batch in [1, 16, 256] {
        let sharded = Sharded::new()?;
        // Others may look on: kumiki resource top.
        let _published = sharded.interface.publish();
        let ours = run(time, cores as u64, batch, |keys| {
            sharded.add(keys).expect("the managers serve as long as the table is there");
        });
        assert_eq!(sharded.total()?, ours.0, "each key was counted once");
        let locked = Locked::new(cores);
        let theirs = run(time, cores as u64, batch, |keys| locked.add(keys));
        assert_eq!(locked.total(), theirs.0);
        println!("{batch:>8} {:>14.0} {:>14.0}", ours.1, theirs.1);
    }
    Ok(())
}
