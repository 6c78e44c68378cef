//! Kumiki's shadow thread.

use anyhow::Result;
use kumiki_shadow::{Builder, Shadow};

use super::Fork;
use crate::pair::Pair;
use crate::shadow::sum::sum;
use crate::stopwatch::Stopwatch;

/// Shorter sums are not worth a round trip.
const INLINE_ELEMENTS: usize = 16 << 10;

/// A shadow with the wait that it has by default: spin, then sleep. Its main thread is
/// where the kernel has it, or `BOUND`, the paper's way.
pub(crate) struct Kumiki<const BOUND: bool> {
    shadow: Shadow,
}

/// A shadow on these two cpus, with all defaults.
pub(crate) fn shadow(pair: Pair) -> Result<Shadow> {
    // It takes cpus only from those that the caller may use, and begins where that is.
    pair.bind_main()?;
    pair.bind_both()?;
    Ok(Shadow::create()?)
}

impl Kumiki<false> {
    /// Starts the helper.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(Kumiki { shadow: shadow(pair)? })
    }
}

impl Kumiki<true> {
    /// Starts the helper.
    pub(crate) fn bound(pair: Pair) -> Result<Self> {
        pair.bind_both()?;
        let builder = Builder::new().main_cpu(pair.main).helper_cpu(pair.helper);
        Ok(Kumiki { shadow: builder.create()? })
    }
}

impl<const BOUND: bool> Fork for Kumiki<BOUND> {
    const BOUND: bool = BOUND;

    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        self.shadow.scope(|scope| {
            let job = scope.fork(other);
            let a = main();
            // A join would take back the job of a helper that sleeps.
            while !job.is_done() {
                std::hint::spin_loop();
            }
            (a, job.join().expect("jobs do not panic"))
        })
    }

    fn null(&mut self) {
        self.shadow.scope(|scope| {
            let job = scope.fork(|| ());
            job.join().expect("jobs do not panic");
        });
    }

    fn split<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        self.shadow.both(main, other)
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        self.shadow.scope(|scope| {
            let start = watch.clock().start();
            let job = scope.fork(|| ());
            let end = watch.clock().end();
            job.join().expect("jobs do not panic");
            Some(watch.ns(start, end))
        })
    }

    fn sum(&mut self, data: &[f32]) -> f32 {
        if data.len() < INLINE_ELEMENTS {
            return sum(data);
        }
        let (mine, others) = data.split_at(data.len() / 2);
        let (a, b) = self.shadow.both(|| sum(mine), || sum(others));
        a + b
    }
}
