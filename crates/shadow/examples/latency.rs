//! Prints what a fork and join of nothing costs here, beside the raw round trip
//! of a cache line measured in the same moments.

use std::sync::atomic::{AtomicU64, Ordering};

use kumiki_shadow::Shadow;
use kumiki_sys::affinity;
use kumiki_sys::clock::Clock;

#[repr(align(128))]
struct Line(AtomicU64);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Clock::new();
    let mut shadow = Shadow::create()?;
    let info = shadow.info().expect("it has a helper");
    println!("{info:?}");
    let (mut raw, mut null, mut call) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..200 {
        raw.extend(round_trips(info.helper_cpu, &clock, 100)?);
        for i in 0..200 {
            let t0 = clock.start();
            let (t1, _) = shadow.scope(|scope| {
                let job = scope.fork(|| i + 1);
                let t1 = clock.start();
                (t1, job.join())
            });
            let t2 = clock.end();
            if i >= 100 {
                call.push(clock.between(t0, t1) - clock.read_cost_ns());
                null.push(clock.between(t0, t2));
            }
        }
    }
    let mut fork_only = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..2000 {
        let t0 = clock.start();
        for _ in 0..16 {
            shadow.scope(|scope| scope.fork(|| ()).join()).ok();
        }
        whole.push(clock.between(t0, clock.end()) / 16.0);
    }
    fork_only.append(&mut call);
    for (name, values) in [
        ("raw", &mut raw),
        ("fork+join", &mut null),
        ("fork+join, of 16", &mut whole),
        ("fork call", &mut fork_only),
    ] {
        values.sort_by(f64::total_cmp);
        let at = |q: f64| values[(values.len() as f64 * q) as usize];
        println!("{name:18} p50 {:7.1} p99 {:8.1} ns", at(0.5), at(0.99));
    }
    Ok(())
}

/// Single round trips, each timed as a fork and join is.
fn round_trips(
    cpu: usize,
    clock: &Clock,
    count: u64,
) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let line = Line(AtomicU64::new(0));
    let line = &line.0;
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _bound = affinity::bind(cpu);
            for n in 0..2 * count {
                while line.load(Ordering::Acquire) != 2 * n + 1 {}
                line.store(2 * n + 2, Ordering::Release);
            }
        });
        for n in 0..2 * count {
            let t0 = clock.start();
            line.store(2 * n + 1, Ordering::Release);
            while line.load(Ordering::Acquire) != 2 * n + 2 {}
            if n >= count {
                taken.push(clock.between(t0, clock.end()));
            }
        }
    });
    Ok(taken)
}
