//! Parallel system calls beside other ways to make many.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use kumiki_measure::bench::Row;
use kumiki_parasc::Request;

use crate::against::Against;
use crate::child::turns;
use crate::pair::Pair;
use crate::run;
use crate::stopwatch::{Amount, Stopwatch};

use self::request::{Batch, Kind};
use self::scratch::Scratch;
use self::work::{WARM_PHASE, Work};

mod bare;
mod du;
mod handoff;
mod kumiki;
mod plain;
mod plan;
mod rayon;
mod request;
mod scratch;
mod share;
mod tokio;
mod work;

#[cfg(feature = "peers")]
mod crossbeam;
#[cfg(feature = "peers")]
mod ring;

#[cfg(test)]
mod tests;

pub use self::du::walk;
use self::plan::Parasc;

/// Measures everything, or the cases in `only` if it names some; of Kumiki alone, beside the
/// `other` program's, if there is one.
pub fn rows(pair: Pair, only: &[&str], other: Option<&Path>) -> Result<Vec<Row>> {
    let (trees, calls): (Vec<&str>, Vec<&str>) =
        only.iter().partition(|name| du::NAMES.contains(name));
    let mut rows = Vec::new();
    if only.is_empty() || !calls.is_empty() {
        let plan = Parasc::new()?;
        rows = match other {
            Some(other) => run::run(&mut Against::new(plan, other, pair)?, pair, &calls)?,
            None => run::run(&mut { plan }, pair, &calls)?,
        };
    }
    if only.is_empty() || !trees.is_empty() {
        rows.extend(du::rows(&trees, other)?);
    }
    Ok(rows)
}

/// A way to make many system calls, ready on its two cpus.
pub(crate) trait Execute {
    /// What its getppid returns, if it has none and does something else.
    const PARENT: Option<i64> = None;

    /// Makes every call, in any order, and returns when all are done:
    /// `results` has what the kernel returned for each, a result or `-errno`.
    ///
    /// # Safety
    /// As for [`kumiki_sys::syscall::raw`], on whatever thread.
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]);

    /// Called before the first batch of some work.
    fn expect(&mut self, work: &Work) -> Result<()> {
        let _ = work;
        Ok(())
    }
}

/// Serves as `subject`, which works in the folder at this path.
pub fn serve(subject: &str, pair: Pair, folder: &Path) -> Result<()> {
    let scratch = Scratch::new(folder);
    if subject != plan::LOOP_OF_ONE {
        // As in any program that has threads, whatever they do.
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    }
    match subject {
        "kumiki" => instances(|batch| kumiki::Kumiki::new(batch.kind, pair), pair, scratch),
        plan::RUN => instances(|batch| kumiki::Kumiki::in_batches(batch.kind, pair), pair, scratch),
        plan::LOOP | plan::LOOP_OF_ONE | plan::PLAIN => {
            instances(|_| Ok(plain::Loop), pair, scratch)
        }
        plan::LOOP_OF_LIBC => instances(|_| Ok(plain::LibcLoop), pair, scratch),
        plan::BARE => instances(|_| Ok(bare::Bare::new(pair)), pair, scratch),
        "tokio" => instances(|_| tokio::Tokio::new(pair), pair, scratch),
        "rayon" => instances(|_| rayon::Rayon::new(), pair, scratch),
        #[cfg(feature = "peers")]
        "crossbeam" => instances(|_| crossbeam::Crossbeam::new(), pair, scratch),
        #[cfg(feature = "peers")]
        "io_uring" => instances(|_| ring::Ring::new(ring::Flavour::Default), pair, scratch),
        #[cfg(feature = "peers")]
        "io_uring_defer" => instances(|_| ring::Ring::new(ring::Flavour::Defer), pair, scratch),
        #[cfg(feature = "peers")]
        "io_uring_registered" => {
            instances(|_| ring::Ring::new(ring::Flavour::Registered), pair, scratch)
        }
        #[cfg(feature = "peers")]
        "io_uring_sqpoll" => {
            instances(|_| ring::Ring::new(ring::Flavour::Sqpoll(pair.helper)), pair, scratch)
        }
        _ => bail!("there is no subject {subject:?} in this build"),
    }
}

/// Answers every turn by the instance that it asks for, each made by `make`.
fn instances<S: Execute>(
    mut make: impl FnMut(Batch) -> Result<S>,
    pair: Pair,
    scratch: Scratch,
) -> Result<()> {
    let watch = Stopwatch::new();
    let mut current: Option<Instance<S>> = None;
    turns(|asked: Batch| {
        let batch = Batch { plain: false, ..asked };
        if current.as_ref().is_none_or(|last| last.batch != batch) {
            // The last one has ended before the next begins.
            drop(current.take());
            // Its threads inherit both cpus, whatever main is bound to.
            pair.bind_both()?;
            let mut subject = make(batch)?;
            pair.bind_main()?;
            let work = Work::new(batch, &scratch)?;
            subject.expect(&work)?;
            current = Some(Instance { batch, subject, work, fresh: true });
        }
        let Instance { subject, work, fresh, .. } = current.as_mut().expect("made above");
        let samples = match asked.plain {
            // As warm as the subject.
            true => turn(&mut plain::Loop, work, &watch, *fresh),
            false => turn(subject, work, &watch, std::mem::take(fresh)),
        };
        samples.map(Some)
    })
}

/// A subject with its work.
struct Instance<S> {
    batch: Batch,
    subject: S,
    work: Work,
    /// The subject has had no turn.
    fresh: bool,
}

/// Samples of one turn, nanoseconds for each batch.
///
/// Where a short loop lies in its page makes a hundredth of a call, and moves with any
/// change of the program: so there are some copies of it, at places of their own, and
/// each turn takes any of them.
fn turn<S: Execute>(
    subject: &mut S,
    work: &mut Work,
    watch: &Stopwatch,
    fresh: bool,
) -> Result<Vec<f64>> {
    let copies = [
        turn_at::<S, 0>,
        turn_at::<S, 1>,
        turn_at::<S, 2>,
        turn_at::<S, 3>,
        turn_at::<S, 4>,
        turn_at::<S, 5>,
        turn_at::<S, 6>,
        turn_at::<S, 7>,
    ];
    copies[fastrand::usize(..copies.len())](subject, work, watch, fresh)
}

fn turn_at<S: Execute, const COPY: usize>(
    subject: &mut S,
    work: &mut Work,
    watch: &Stopwatch,
    fresh: bool,
) -> Result<Vec<f64>> {
    let (mut outcome, runs) = (Ok(()), work.runs());
    let amount = amount(work.kind(), fresh);
    let sample = |watch: &Stopwatch| {
        if outcome.is_err() {
            return f64::NAN;
        }
        outcome = work.before();
        let start = watch.clock().start();
        (0..runs).for_each(|_| work.run::<COPY>(subject));
        let ns = watch.ns(start, watch.clock().end()) / runs as f64;
        outcome = std::mem::replace(&mut outcome, Ok(())).and_then(|()| work.check(S::PARENT));
        ns
    };
    let samples =
        if runs > 1 { watch.means(amount, sample) } else { watch.samples(amount, sample) };
    outcome.map(|()| samples)
}

/// A new instance has more time to learn what it adapts to.
fn amount(kind: Kind, fresh: bool) -> Amount {
    let ms = Duration::from_millis;
    let of = |warm, warm_span, least, most, span| Amount { warm, warm_span, least, most, span };
    match (kind, fresh) {
        // What comes later than a quarter of a second counts.
        (Kind::PreadCold, true) => of(1, WARM_PHASE, 2, 20, ms(100)),
        (Kind::PreadColdWarmed, true) => of(1, 2 * WARM_PHASE, 2, 20, ms(100)),
        (Kind::PreadCold | Kind::PreadColdWarmed, false) => of(1, ms(0), 2, 20, ms(100)),
        (kind, true) if kind == Kind::UnlinkMany || kind.is_unlink_one() => {
            of(4, ms(0), 2, 20, ms(2))
        }
        (kind, false) if kind == Kind::UnlinkMany || kind.is_unlink_one() => {
            of(0, ms(0), 2, 20, ms(2))
        }
        (Kind::FsyncDirty | Kind::Nanosleep, true) => of(6, ms(5), 2, 20, ms(5)),
        (Kind::FsyncDirty | Kind::Nanosleep, false) => of(1, ms(0), 2, 20, ms(5)),
        (_, true) => of(50, ms(8), 5, 100, ms(2)),
        (_, false) => of(5, Duration::from_micros(500), 5, 100, ms(2)),
    }
}
