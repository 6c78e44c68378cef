//! How long to spin before sleeping.
//!
//! Spinning for as long as sleeping and being woken costs is never more than
//! twice as dear as knowing the future (A. Karlin et al., "Competitive Randomized
//! Algorithms for Non-Uniform Problems", 1990, the deterministic bound). Below
//! that the threshold follows what the waits have been: where they are long,
//! spinning in advance of the sleep is wasted, and the threshold goes down to a
//! floor; where they are short or a sleep has cost more than it saved, it goes
//! up again.
//!
//! ```text
//!   floor, 2 µs or more   threshold              bound = 2 × cost of a sleep
//!     ├───────────────────────┼───────────────────────┤
//!             ÷2 ◄── a sleep that paid
//!                       a sleep that did not ──► ×2 ⎫ beyond the bound to twice
//!            a sleep that did not come about ──► ×2 ⎭ the time that was to be spun
//!        a spin that took more than half of it ──► +⅛ of the bound
//! ```
//!
//! A sleep has paid if what it ended for came later than a sleep costs: this one, from
//! the ring until the sleeper ran, or one as measured, whichever is more. The measured
//! figure alone would not do: where the other cpu was awake when it was taken, by
//! chance, it is a tenth of what sleeps cost later, each wait of more than that would
//! count as long, and every one would end in a sleep. Of a sleep whose ring nobody has
//! timed, the cost is taken for the measured one.
//!
//! A sleep that did not come about, as its reason came while it was prepared, should
//! have been spun for in any case.

/// Ticks to spin, and how they change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adapt {
    threshold: u64,
    step: u64,
    floor: u64,
    bound: u64,
    /// No sleep costs more: a sleeper that took longer had to wait for its cpu.
    dearest: u64,
}

impl Adapt {
    /// Always `ticks`; `u64::MAX` for never to sleep. All the arithmetic below
    /// then leaves it alone, without asking.
    pub(crate) fn fixed(ticks: u64) -> Self {
        Adapt { threshold: ticks, step: 0, floor: ticks, bound: ticks, dearest: 0 }
    }

    /// Threshold between `floor` and twice `cost` ticks, or twice what a sleep turns out to cost if
    /// that is no more than `dearest`; at first `cost`.
    pub(crate) fn between(floor: u64, cost: u64, dearest: u64) -> Self {
        let bound = cost.saturating_mul(2).max(floor);
        Adapt { threshold: cost.max(floor), step: bound / 8, floor, bound, dearest }
    }

    #[inline(always)]
    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Takes note of a wait that ended after `spent` ticks of spinning.
    #[inline(always)]
    pub(crate) fn spun(&mut self, spent: u64) {
        // A spin that was over long before the threshold says nothing about it.
        if spent > self.threshold / 2 {
            let raised = self.threshold.saturating_add(self.step).min(self.bound);
            self.threshold = raised.max(self.threshold);
        }
    }

    /// Learns that the answer came `total` ticks after the wait began, after a doze or a sleep, of
    /// which the `wake` took so many, if that is known.
    pub(crate) fn slept(&mut self, total: u64, wake: Option<u64>) {
        let measured = self.bound / 2;
        let wake = wake.unwrap_or(measured).min(self.dearest);
        let came = total.saturating_sub(wake);
        if came < wake.max(measured) { self.double(came) } else { self.halve() }
    }

    /// Learns that the answer came while a sleep was prepared, `total` ticks after the wait began.
    pub(crate) fn spared(&mut self, total: u64) {
        self.double(total);
    }

    fn double(&mut self, came: u64) {
        if self.step > 0 {
            let most = came.min(self.dearest).saturating_mul(2).max(self.bound);
            self.threshold = self.threshold.saturating_mul(2).min(most);
        }
    }

    fn halve(&mut self) {
        self.threshold = (self.threshold / 2).max(self.floor);
    }

    /// Learns that the answer had not come `total` ticks after the wait began, when time was up.
    pub(crate) fn missed(&mut self, total: u64) {
        // Of a wait that was given less time than the bound nothing is known.
        if total >= self.bound {
            self.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: u64 = 5_000;
    const COST: u64 = 150_000;
    const DEAREST: u64 = 500_000;

    #[test]
    fn fixed_stays() {
        for ticks in [0, 1, 5_000, u64::MAX] {
            let mut adapt = Adapt::fixed(ticks);
            for total in [0, 1, u64::MAX / 2, u64::MAX] {
                adapt.spun(total);
                adapt.slept(total, None);
                adapt.slept(total, Some(total / 2));
                adapt.spared(total);
                assert_eq!(adapt.threshold(), ticks);
            }
        }
    }

    #[test]
    fn long_waits_lead_to_the_floor_and_no_further() {
        let mut adapt = Adapt::between(FLOOR, COST, DEAREST);
        assert_eq!(adapt.threshold(), COST);
        for _ in 0..20 {
            adapt.slept(10 * COST, None);
        }
        assert_eq!(adapt.threshold(), FLOOR);
    }

    #[test]
    fn sleeps_that_did_not_pay_lead_back_within_few_waits() {
        let mut adapt = Adapt::between(FLOOR, COST, DEAREST);
        (0..20).for_each(|_| adapt.slept(u64::MAX, None));
        // What comes after a third of the cost is spun for after these sleeps.
        let mut sleeps = 0;
        while adapt.threshold() < COST / 3 {
            adapt.slept(COST / 3 + COST, None);
            sleeps += 1;
        }
        assert!(sleeps <= 4, "{sleeps}");
    }

    #[test]
    fn never_more_than_twice_the_cost() {
        let mut adapt = Adapt::between(FLOOR, COST, DEAREST);
        for _ in 0..100 {
            adapt.spun(adapt.threshold());
            adapt.slept(0, None);
            assert!(adapt.threshold() <= 2 * COST);
        }
        assert_eq!(adapt.threshold(), 2 * COST);
    }

    #[test]
    fn short_spins_change_nothing() {
        let mut adapt = Adapt::between(FLOOR, COST, DEAREST);
        (0..100).for_each(|_| adapt.spun(COST / 2));
        assert_eq!(adapt.threshold(), COST);
        adapt.spun(COST / 2 + 1);
        assert!(adapt.threshold() > COST);
    }

    #[test]
    fn sleeps_that_take_long_to_prepare_are_spared() {
        // A thirtieth of what it takes to prepare them.
        let mut adapt = Adapt::between(FLOOR, FLOOR, DEAREST);
        let mut sleeps = 0;
        while adapt.threshold() < COST {
            adapt.spared(adapt.threshold() + COST);
            sleeps += 1;
        }
        assert!(sleeps <= 6, "{sleeps}");
        adapt.spun(adapt.threshold());
        assert!(adapt.threshold() >= COST, "and a spin leaves it there");
        (0..20).for_each(|_| adapt.slept(u64::MAX, None));
        assert_eq!(adapt.threshold(), FLOOR, "but sleeps that pay do not");
    }

    #[test]
    fn what_a_sleep_costs_counts_and_not_what_it_was_measured_to() {
        // A tenth of what a wake takes.
        let mut adapt = Adapt::between(FLOOR, COST / 10, DEAREST);
        for _ in 0..4 {
            adapt.slept(COST / 2 + COST, Some(COST));
        }
        assert_eq!(adapt.threshold(), COST, "twice what was waited for");
        adapt.slept(3 * COST, Some(COST));
        assert_eq!(adapt.threshold(), COST / 2, "that one has paid");
        // A sleeper that did not get its cpu.
        (0..20).for_each(|_| adapt.slept(30 * DEAREST, Some(20 * DEAREST)));
        assert_eq!(adapt.threshold(), FLOOR);
    }

    #[test]
    fn missed_waits_count_as_long_if_they_were() {
        let mut adapt = Adapt::between(FLOOR, COST, DEAREST);
        adapt.missed(2 * COST - 1);
        assert_eq!(adapt.threshold(), COST);
        adapt.missed(2 * COST);
        assert_eq!(adapt.threshold(), COST / 2);
    }

    #[test]
    fn a_machine_where_sleeping_is_cheap_still_has_a_floor() {
        let adapt = Adapt::between(FLOOR, 100, DEAREST);
        assert_eq!((adapt.threshold(), adapt.bound), (FLOOR, FLOOR));
    }
}
