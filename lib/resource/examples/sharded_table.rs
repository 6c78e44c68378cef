//! A table sharded over cores, whose owners are called, beside the same table under
//! mutexes; with what each gives.
//!
//! ```text
//! cargo run --release --package kumiki-resource --example sharded_table [SECONDS]
//! ```
//!
//! Keys belong to cores. A shard is a resource with a name, and nobody but its core's
//! thread touches its map: so the map has no lock, and stays in that core's cache. The
//! program has one thread a core, which is that core's manager: what is its own it does at
//! once, for the rest it calls, and serves others' calls while it waits. Meanwhile
//! `kumiki resource top` shows the shards at work.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Handle, Interface, Name, Place, Result};
use kumiki_sys::affinity;

const KEYS: u64 = 100_000;

/// What one core owns of the table: how often each key was seen.
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

/// Counts these keys in the shards that have them: one request for each, the own one while others work.
fn count(
    interface: &Interface,
    shards: &[Handle<Shard>],
    hash: &RandomState,
    keys: &[u64],
) -> Result<()> {
    let shard_of = |key| hash.hash_one(key) as usize % shards.len();
    if let [key] = keys {
        // One is a call: a batch has lists.
        return interface.with(&shards[shard_of(key)], |Shard(map), ()| {
            *map.entry(*key).or_default() += 1;
        });
    }
    let mut by_shard = vec![Vec::new(); shards.len()];
    for key in keys {
        by_shard[shard_of(key)].push(*key);
    }
    let asked = shards.iter().zip(by_shard).filter(|(_, keys)| !keys.is_empty());
    let counted = interface.each(asked, |Shard(map), (), keys| {
        for key in &keys {
            *map.entry(*key).or_default() += 1;
        }
        // Freed where it was allocated.
        keys
    });
    counted.into_iter().try_for_each(|keys| keys.map(drop))
}

/// Keys that nobody foresees.
struct Keys(u64);

impl Keys {
    fn take(&mut self, batch: usize) -> Vec<u64> {
        let next = |_| {
            // Knuth's generator (MMIX), of which the upper half is good.
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % KEYS
        };
        (0..batch).map(next).collect()
    }
}

/// One thread a core, the core's manager; keys a second.
fn sharded(time: Duration, batch: usize) -> Result<f64> {
    let cpus: Vec<usize> = affinity::current()?.iter().collect();
    let interface =
        Interface::builder().kind::<Shard>().cores([]).adopted(cpus.iter().copied()).per_core()?;
    // Others may look on.
    let _published = interface.publish();
    let hash = RandomState::new();
    let (made, ended) = (Barrier::new(cpus.len()), AtomicUsize::new(0));
    let (counted, found) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = |cpu: usize, place: Place| -> Result<()> {
        let _bound = affinity::bind(cpu)?;
        let mut manager = interface.manage(place)?;
        let own = interface.create::<Shard>(place, Some("counts"), ())?;
        made.wait();
        let open = |cpu: &usize| {
            interface.open::<Shard>(&Name::new(&format!("core{cpu}"), Shard::NAME, "counts")?)
        };
        let shards = cpus.iter().map(open).collect::<Result<Vec<_>>>()?;
        let (mut keys, mut mine, end) = (Keys(cpu as u64), 0, Instant::now() + time);
        while Instant::now() < end {
            count(&interface, &shards, &hash, &keys.take(batch))?;
            mine += batch as u64;
            manager.serve();
        }
        counted.fetch_add(mine, Ordering::Relaxed);
        // Others may still call this one.
        ended.fetch_add(1, Ordering::AcqRel);
        while ended.load(Ordering::Acquire) < cpus.len() {
            manager.wait_timeout(Duration::from_millis(1));
        }
        let sum = interface.with(&own, |Shard(map), ()| map.values().sum::<u64>())?;
        found.fetch_add(sum, Ordering::Relaxed);
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .zip(interface.places())
            .map(|(&cpu, place)| {
                scope.spawn({
                    let work = &work;
                    move || work(cpu, place)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    let counted = counted.into_inner();
    assert_eq!(counted, found.into_inner(), "each key was counted once");
    Ok(counted as f64 / time.as_secs_f64())
}

/// As many threads and as many maps, a mutex each; keys a second.
fn locked(time: Duration, batch: usize, threads: usize) -> f64 {
    let maps: Vec<Mutex<HashMap<u64, u64>>> = (0..threads).map(|_| Mutex::default()).collect();
    let (hash, stop, counted) = (RandomState::new(), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (maps, hash, stop, counted) = (&maps, &hash, &stop, &counted);
            scope.spawn(move || {
                let (mut keys, mut mine) = (Keys(thread as u64), 0);
                while !stop.load(Ordering::Relaxed) {
                    for key in keys.take(batch) {
                        let map = &maps[hash.hash_one(key) as usize % maps.len()];
                        *map.lock().expect("nobody panics").entry(key).or_default() += 1;
                    }
                    mine += batch as u64;
                }
                counted.fetch_add(mine, Ordering::Relaxed);
            });
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let sum = |map: Mutex<HashMap<_, u64>>| {
        map.into_inner().expect("nobody panicked").into_values().sum::<u64>()
    };
    let counted = counted.into_inner();
    assert_eq!(counted, maps.into_iter().map(sum).sum::<u64>());
    counted as f64 / time.as_secs_f64()
}

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    let threads = affinity::current()?.len();
    println!("keys per second, {threads} threads, {threads} shards or maps, {KEYS} keys:");
    println!("{:>8} {:>14} {:>14}", "batch", "sharded", "mutexes");
    for batch in [1, 16, 256] {
        let (ours, theirs) = (sharded(time, batch)?, locked(time, batch, threads));
        println!("{batch:>8} {ours:>14.0} {theirs:>14.0}");
    }
    Ok(())
}
