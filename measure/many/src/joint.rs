//! What threads do together without the kernel: work that a team shares, calls to one core, claims of one word.

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_resource::desk;
use kumiki_shadow::{Builder, Policy, Threshold};
use kumiki_sys::affinity;
use kumiki_wait::Waiter;

use crate::rate::rate;

/// Something that threads on so many cpus do together.
pub(crate) struct Joint {
    pub(crate) name: &'static str,
    pub(crate) shares: &'static str,
    /// Operations a second by a thread on each of these cpus, for about so long.
    pub(crate) rate: fn(&[usize], Duration) -> io::Result<f64>,
}

pub(crate) const JOINTS: [Joint; 3] = [
    Joint { name: "fork and join, 4096 parts of 1 µs", shares: "a team's work", rate: fork_join },
    Joint { name: "calls to one core, 0.2 µs each", shares: "their owner", rate: core_calls },
    Joint { name: "claims, 0.2 µs of work each", shares: "a word", rate: claims },
];

/// Parts of the work of a team.
const PARTS: usize = 4096;

/// Multiplies for about so long: a multiplication that waits for the last one takes 3 or 4 cycles.
fn work(ns: u64) {
    black_box((0..ns).fold(black_box(3_u64), |x, _| x.wrapping_mul(x | 1)));
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

fn spins() -> Policy {
    // Those that sleep would add a wake to what is counted in lines.
    Policy { threshold: Threshold::Infinite, ..Policy::default() }
}

fn fork_join(cpus: &[usize], span: Duration) -> io::Result<f64> {
    let _bound = affinity::bind(cpus[0]).map_err(other)?;
    let builder = Builder::new().main_cpu(cpus[0]).helper_cpus(cpus[1..].iter().copied());
    let mut team = builder.policy(spins()).create_team(cpus.len()).map_err(other)?;
    let (began, mut parts) = (Instant::now(), 0);
    while began.elapsed() < span {
        team.for_each(PARTS, 1, |range| work(1000 * range.len() as u64));
        parts += PARTS;
    }
    Ok(parts as f64 / began.elapsed().as_secs_f64())
}

/// Answers a second of an owner on the first cpu, whom all others ask; with one cpu it asks itself.
fn core_calls(cpus: &[usize], span: Duration) -> io::Result<f64> {
    let _bound = affinity::bind(cpus[0]).map_err(other)?;
    let (door, server) = desk::open();
    let (served, ready) = (AtomicU64::new(0), Barrier::new(cpus.len()));
    let answer = || {
        work(200);
        served.fetch_add(1, Relaxed);
    };
    thread::scope(|scope| {
        let callers: Vec<_> = cpus[1..]
            .iter()
            .map(|&cpu| {
                let (door, ready) = (door.clone(), &ready);
                scope.spawn(move || {
                    let (bound, waiter) = (affinity::bind(cpu), Waiter::new(&spins()));
                    ready.wait();
                    let _bound = bound.map_err(other)?;
                    let mut caller = door.caller(waiter.map_err(other)?);
                    while caller.call(answer).is_ok() {}
                    Ok(())
                })
            })
            .collect();
        let mut serving = server.begin();
        ready.wait();
        let (began, before) = (Instant::now(), served.load(Relaxed));
        while began.elapsed() < span {
            if callers.is_empty() {
                answer();
            } else if !serving.round() {
                spin_loop();
            }
        }
        let rate = (served.load(Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
        door.close();
        serving.end();
        let mut ends = callers.into_iter().map(|caller| caller.join().expect("it only calls"));
        ends.try_for_each(|end: io::Result<()>| end)?;
        Ok(rate)
    })
}

/// Claims a second of one word by swaps, as calls of a batch are claimed, each with work of its own.
fn claims(cpus: &[usize], span: Duration) -> io::Result<f64> {
    let word = AtomicU64::new(0);
    let claim = || {
        let mut now = word.load(Relaxed);
        while let Err(other) = word.compare_exchange_weak(now, now + 1, AcqRel, Relaxed) {
            now = other;
        }
        work(200);
        Ok(())
    };
    rate(cpus, span, move |_| Ok(claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_by_one_and_by_all() {
        let cpus: Vec<_> = affinity::current().unwrap().iter().collect();
        for joint in JOINTS {
            for size in [1, cpus.len()] {
                let rate = (joint.rate)(&cpus[..size], Duration::from_millis(50)).unwrap();
                assert!(rate > 0.0, "{} by {size}: {rate}", joint.name);
            }
        }
    }
}
