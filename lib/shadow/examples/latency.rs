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
    println!("{info:?}, in steps of {:.1} ns", clock.resolution_ns());
    let (mut raw, mut raws, mut null) = (vec![], vec![], vec![]);
    let (mut call, mut reads) = (vec![], vec![]);
    for _ in 0..200 {
        let (each, row) = round_trips(info.helper_cpu, &clock, 100)?;
        raw.extend(each);
        raws.push(row);
        for i in 0..200 {
            let t0 = clock.start();
            let (t1, _) = shadow.scope(|scope| {
                let job = scope.fork(move || i + 1);
                let t1 = clock.start();
                (t1, job.join())
            });
            let t2 = clock.end();
            if i >= 100 {
                call.push(clock.between(t0, t1));
                null.push(clock.between(t0, t2));
                let t3 = clock.start();
                reads.push(clock.between(t3, clock.start()));
            }
        }
    }
    let mut whole = Vec::new();
    for _ in 0..2000 {
        let t0 = clock.start();
        for _ in 0..16 {
            shadow.scope(|scope| scope.fork(|| ()).join()).ok();
        }
        whole.push(clock.between(t0, clock.end()) / 16.0);
    }
    // The call is about as short as reading the clock, whose cost in the same
    // moments is subtracted; the two vary on their own, and less than none is none.
    reads.sort_by(f64::total_cmp);
    let read = reads[reads.len() / 2];
    call.iter_mut().for_each(|ns| *ns = f64::max(*ns - read, 0.0));
    for (name, values) in [
        ("raw", &mut raw),
        ("raw, of 16", &mut raws),
        ("fork+join", &mut null),
        ("fork+join, of 16", &mut whole),
        ("fork call", &mut call),
    ] {
        values.sort_by(f64::total_cmp);
        let at = |q: f64| values[(values.len() as f64 * q) as usize];
        println!("{name:18} p50 {:7.1} p99 {:8.1} ns", at(0.5), at(0.99));
    }
    Ok(())
}

/// Single round trips, each timed as a fork and join is, and what each of 16 in a row
/// takes.
fn round_trips(
    cpu: usize,
    clock: &Clock,
    count: u64,
) -> Result<(Vec<f64>, f64), Box<dyn std::error::Error>> {
    let line = Line(AtomicU64::new(0));
    let line = &line.0;
    let (mut taken, mut row) = (Vec::new(), 0.0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _bound = affinity::bind(cpu);
            for n in 0..2 * count + 16 {
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
        let t0 = clock.start();
        for n in 2 * count..2 * count + 16 {
            line.store(2 * n + 1, Ordering::Release);
            while line.load(Ordering::Acquire) != 2 * n + 2 {}
        }
        row = clock.between(t0, clock.end()) / 16.0;
    });
    Ok((taken, row))
}
