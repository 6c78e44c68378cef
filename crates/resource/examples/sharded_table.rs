//! A table sharded over cores, each shard owned by its core, beside one map under a mutex.
//!
//! ```console
//! $ cargo run --release -p kumiki-resource --example sharded_table
//! ```
//!
//! Each thread manages a core and works on keys at random. A key belongs to the core that
//! its number names; an operation on one's own shard takes no lock, one on another's is a
//! call in one cache line. `local` is the share of operations on the thread's own shard: a
//! program that keeps its connections where their data is has much of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Handle, Interface, Place, Result};
use kumiki_sys::affinity;

const KEYS: u64 = 1 << 16;
const OPERATIONS: u64 = 2_000_000;

/// One core's part of the table.
struct Shard(HashMap<u64, u64>);

impl Kind for Shard {
    const NAME: &'static str = "shard";
    type Spec = ();
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create((): (), (): &mut ()) -> Result<Shard> {
        Ok(Shard((0..KEYS).map(|key| (key, 0)).collect()))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About { state: format!("{} keys", self.0.len()), bytes: 0 }
    }
}

/// Numbers that are random enough (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Nanoseconds of all threads together for an operation of one.
fn report(what: &str, threads: usize, took: Duration) {
    let operations = OPERATIONS as f64 * threads as f64;
    let each = took.as_secs_f64() * 1e9 / operations;
    println!("{what:<34} {each:>8.1} ns an operation, {:>6.1} million a second", 1e3 / each);
}

fn owned(cpus: &[usize], local_percent: u64) -> Result<()> {
    let interface =
        Interface::builder().kind::<Shard>().cores([]).adopted(cpus.iter().copied()).per_core()?;
    let places = interface.places();
    let shards: Mutex<HashMap<usize, Handle<Shard>>> = Mutex::default();
    let (ready, ended) = (Barrier::new(cpus.len()), AtomicUsize::new(0));
    let run = |own: usize| {
        let _bound = affinity::bind(cpus[own])?;
        let mut manager = interface.manage(places[own])?;
        let shard = interface.create::<Shard>(places[own], Some("numbers"), ())?;
        shards.lock().expect("nobody panics").insert(own, shard);
        ready.wait();
        let all: Vec<Handle<Shard>> = {
            let shards = shards.lock().expect("nobody panics");
            (0..places.len())
                .map(|at| shards[&at].share(kumiki_resource::Rights::USE))
                .collect::<Result<_>>()?
        };
        ready.wait();
        let (start, mut random) = (Instant::now(), Random(own as u64 + 1));
        for _ in 0..OPERATIONS {
            let number = random.next();
            let at = if number >> 32 & 0x7f < local_percent * 128 / 100 {
                own
            } else {
                (number >> 40) as usize % all.len()
            };
            let key = number % KEYS;
            interface.with(&all[at], |shard, ()| *shard.0.entry(key).or_default() += 1)?;
            if random.0 & 0xf == 0 {
                manager.serve();
            }
        }
        let took = start.elapsed();
        ended.fetch_add(1, Ordering::Relaxed);
        while ended.load(Ordering::Relaxed) < places.len() {
            manager.wait(Instant::now() + Duration::from_millis(1));
        }
        Ok(took)
    };
    let took = thread::scope(|threads| {
        let run = &run;
        let all: Vec<_> = (0..cpus.len()).map(|own| threads.spawn(move || run(own))).collect();
        let took = all.into_iter().map(|thread| thread.join().expect("nobody panics"));
        took.collect::<Result<Vec<Duration>>>()
    })?;
    let longest = took.into_iter().max().unwrap_or_default();
    report(&format!("owned by cores, {local_percent} % local"), cpus.len(), longest);
    Ok(())
}

fn mutexed(cpus: &[usize]) -> Result<()> {
    let map: Mutex<HashMap<u64, u64>> = Mutex::new((0..KEYS).map(|key| (key, 0)).collect());
    let ready = Barrier::new(cpus.len());
    let run = |own: usize| {
        let _bound = affinity::bind(cpus[own])?;
        ready.wait();
        let (start, mut random) = (Instant::now(), Random(own as u64 + 1));
        for _ in 0..OPERATIONS {
            let key = random.next() % KEYS;
            *map.lock().expect("nobody panics").entry(key).or_default() += 1;
        }
        Ok(start.elapsed())
    };
    let took = thread::scope(|threads| {
        let run = &run;
        let all: Vec<_> = (0..cpus.len()).map(|own| threads.spawn(move || run(own))).collect();
        let took = all.into_iter().map(|thread| thread.join().expect("nobody panics"));
        took.collect::<Result<Vec<Duration>>>()
    })?;
    report("one map under a mutex", cpus.len(), took.into_iter().max().unwrap_or_default());
    Ok(())
}

fn main() -> Result<()> {
    let cpus: Vec<usize> = affinity::current()?.iter().collect();
    for count in [1, cpus.len()] {
        println!("{count} of {} cpus", cpus.len());
        mutexed(&cpus[..count])?;
        for local_percent in [100, 90, 50, 0] {
            owned(&cpus[..count], local_percent)?;
        }
    }
    Ok(())
}
