//! Throughput of what threads do again and again, each bound to a cpu.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_sys::affinity;

/// Calls a second of a thread on each of these cpus, which makes what `prepare` gives for its number.
pub(crate) fn rate<M: FnMut() -> io::Result<()>>(
    cpus: &[usize],
    span: Duration,
    prepare: impl Fn(usize) -> io::Result<M> + Sync,
) -> io::Result<f64> {
    let (ready, is_over) = (Barrier::new(cpus.len() + 1), AtomicBool::new(false));
    thread::scope(|scope| {
        let (ready, is_over, prepare) = (&ready, &is_over, &prepare);
        let threads: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(number, &cpu)| {
                scope.spawn(move || {
                    let bound = affinity::bind(cpu).map_err(io::Error::other);
                    // Once without a count, whatever it says: it is said below.
                    let warm = prepare(number).and_then(|mut make| make().map(|()| make));
                    ready.wait();
                    let (_bound, mut make) = (bound?, warm?);
                    let (began, mut count) = (Instant::now(), 0_u64);
                    while !is_over.load(Relaxed) {
                        make()?;
                        count += 1;
                    }
                    Ok(count as f64 / began.elapsed().as_secs_f64())
                })
            })
            .collect();
        ready.wait();
        thread::sleep(span);
        is_over.store(true, Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a thread that only calls")).sum()
    })
}
