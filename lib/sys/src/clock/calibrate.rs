//! How long a tick is, what a read costs and what it can tell apart.

use std::time::Duration;

use super::Clock;
use super::source::monotonic_raw_ns;
use super::tsc::Tsc;
use crate::pause::pause;

/// Attempts to read both clocks in one go; the best counts.
const ATTEMPTS: usize = 200;
/// Reads in a row to find resolution and cost.
const READS: u32 = 500;
/// Times that is repeated.
const ROUNDS: usize = 9;

/// Length of a tick.
pub(super) struct Rate {
    pub(super) ns_per_tick: f64,
    pub(super) error_ppm: f64,
}

/// Both clocks at one moment, known to half of `window` ticks.
#[derive(Clone, Copy)]
struct Moment {
    ticks: u64,
    ns: u64,
    window: u64,
}

/// Reads the TSC before and after the kernel's clock. An interrupt, or a
/// hypervisor that takes the cpu away, in between widens the window, so the
/// narrowest of many attempts is the truest.
fn moment(tsc: Tsc) -> Moment {
    let attempts = (0..ATTEMPTS).map(|_| {
        let before = tsc.start();
        let ns = monotonic_raw_ns();
        let window = tsc.end().saturating_sub(before);
        Moment { ticks: before + window / 2, ns, window }
    });
    let narrowest = attempts.filter(|m| m.window > 0).min_by_key(|m| m.window);
    narrowest.unwrap_or_else(|| Moment {
        ticks: tsc.start(),
        ns: monotonic_raw_ns(),
        window: u64::MAX,
    })
}

/// Compares the clocks now and after `span`.
pub(super) fn rate(tsc: Tsc, span: Duration) -> Rate {
    let first = moment(tsc);
    // Less than this would leave a window's width as large as the span.
    pause(span.max(Duration::from_millis(1)));
    let last = moment(tsc);
    between(first, last)
}

fn between(first: Moment, last: Moment) -> Rate {
    let ticks = last.ticks.saturating_sub(first.ticks).max(1) as f64;
    let ns = last.ns.saturating_sub(first.ns).max(1) as f64;
    // Each end is off by at most half its window, and the kernel rounds to 1 ns.
    let off_ticks = (first.window as f64 + last.window as f64) / 2.0;
    Rate { ns_per_tick: ns / ticks, error_ppm: (off_ticks / ticks + 1.0 / ns) * 1e6 }
}

/// Smallest difference other than 0 between reads in a row, and the cost of a
/// read, both in nanoseconds.
pub(super) fn resolution_and_cost(clock: &Clock) -> (f64, f64) {
    let mut smallest = None;
    let mut costs: Vec<f64> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let first = clock.start();
        let mut last = first;
        for _ in 0..READS {
            let now = clock.start();
            if now > last {
                let step = now - last;
                smallest = Some(smallest.map_or(step, |least: u64| least.min(step)));
            }
            last = now;
        }
        costs.push(clock.between(first, last) / f64::from(READS));
    }
    costs.sort_by(f64::total_cmp);
    (clock.ns(smallest.unwrap_or(1)), costs[ROUNDS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_and_its_error_follow_from_two_moments() {
        let at = |ticks, ns, window| Moment { ticks, ns, window };
        let rate = between(at(1_000, 5_000, 200), at(2_601_000, 1_005_000, 60));
        assert!((rate.ns_per_tick - 1.0 / 2.6).abs() < 1e-12);
        assert!((rate.error_ppm - 51.0).abs() < 1e-9, "{}", rate.error_ppm);
    }

    #[test]
    fn a_clock_that_stands_still_gives_no_nonsense() {
        let still = Moment { ticks: 7, ns: 7, window: 1 };
        let rate = between(still, still);
        assert!(rate.ns_per_tick.is_finite() && rate.error_ppm >= 1e6);
    }
}
