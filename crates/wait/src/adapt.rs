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
//!             ÷2 ◄── a wait beyond the bound
//!                    a sleep that ended within it ──► ×2
//!        a spin that took more than half of it ──► +⅛ of the bound
//!        a sleep that did not come about ────────► ×2, to twice that wait
//! ```
//!
//! Why the bound is twice the cost: a sleep's own cost is part of the time that
//! passed until the sleeper runs again. A wait that has taken less than twice
//! the cost, the sleep included, would have taken less than the cost without.
//!
//! Why beyond the bound for a sleep that did not come about, as its reason had come
//! while it was prepared: what a sleep costs may have been measured when it was cheap
//! (the other cpu awake), and preparing it then takes longer than the bound. Such a wait
//! would count as long, the next would prepare its sleep sooner still, and each ring
//! meanwhile costs the waker a system call, for ever.

/// Ticks to spin, and how they change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adapt {
    threshold: u64,
    step: u64,
    floor: u64,
    bound: u64,
}

impl Adapt {
    /// Always `ticks`; `u64::MAX` for never to sleep. All the arithmetic below
    /// then leaves it alone, without asking.
    pub(crate) fn fixed(ticks: u64) -> Self {
        Adapt { threshold: ticks, step: 0, floor: ticks, bound: ticks }
    }

    /// Between `floor` and twice `cost` ticks, at first `cost`.
    pub(crate) fn between(floor: u64, cost: u64) -> Self {
        let bound = cost.saturating_mul(2).max(floor);
        Adapt { threshold: cost.max(floor), step: bound / 8, floor, bound }
    }

    #[inline(always)]
    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// What was waited for came after `spent` ticks of spinning.
    #[inline(always)]
    pub(crate) fn spun(&mut self, spent: u64) {
        // A spin that was over long before the threshold says nothing about it.
        if spent > self.threshold / 2 {
            let raised = self.threshold.saturating_add(self.step).min(self.bound);
            self.threshold = raised.max(self.threshold);
        }
    }

    /// It came `total` ticks after the wait began, after a doze or a sleep.
    pub(crate) fn slept(&mut self, total: u64) {
        self.threshold = if total < self.bound {
            self.threshold.saturating_mul(2).min(self.bound)
        } else {
            (self.threshold / 2).max(self.floor)
        };
    }

    /// It came while a sleep was prepared, `total` ticks after the wait began.
    pub(crate) fn spared(&mut self, total: u64) {
        if self.step > 0 {
            let most = self.bound.max(total.saturating_mul(2));
            self.threshold = self.threshold.saturating_mul(2).min(most);
        }
    }

    /// It had not come `total` ticks after the wait began, when time was up.
    pub(crate) fn missed(&mut self, total: u64) {
        // Of a wait that was given less time than the bound nothing is known.
        if total >= self.bound {
            self.slept(total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: u64 = 5_000;
    const COST: u64 = 150_000;

    #[test]
    fn fixed_stays() {
        for ticks in [0, 1, 5_000, u64::MAX] {
            let mut adapt = Adapt::fixed(ticks);
            for total in [0, 1, u64::MAX / 2, u64::MAX] {
                adapt.spun(total);
                adapt.slept(total);
                adapt.spared(total);
                assert_eq!(adapt.threshold(), ticks);
            }
        }
    }

    #[test]
    fn long_waits_lead_to_the_floor_and_no_further() {
        let mut adapt = Adapt::between(FLOOR, COST);
        assert_eq!(adapt.threshold(), COST);
        for _ in 0..20 {
            adapt.slept(10 * COST);
        }
        assert_eq!(adapt.threshold(), FLOOR);
    }

    #[test]
    fn sleeps_that_did_not_pay_lead_back_within_few_waits() {
        let mut adapt = Adapt::between(FLOOR, COST);
        (0..20).for_each(|_| adapt.slept(u64::MAX));
        // What comes after a third of the cost is spun for after these sleeps.
        let mut sleeps = 0;
        while adapt.threshold() < COST / 3 {
            adapt.slept(COST / 3 + COST);
            sleeps += 1;
        }
        assert!(sleeps <= 4, "{sleeps}");
    }

    #[test]
    fn never_more_than_twice_the_cost() {
        let mut adapt = Adapt::between(FLOOR, COST);
        for _ in 0..100 {
            adapt.spun(adapt.threshold());
            adapt.slept(0);
            assert!(adapt.threshold() <= 2 * COST);
        }
        assert_eq!(adapt.threshold(), 2 * COST);
    }

    #[test]
    fn short_spins_change_nothing() {
        let mut adapt = Adapt::between(FLOOR, COST);
        (0..100).for_each(|_| adapt.spun(COST / 2));
        assert_eq!(adapt.threshold(), COST);
        adapt.spun(COST / 2 + 1);
        assert!(adapt.threshold() > COST);
    }

    #[test]
    fn sleeps_that_take_long_to_prepare_are_spared() {
        // A thirtieth of what it takes to prepare them.
        let mut adapt = Adapt::between(FLOOR, FLOOR);
        let mut sleeps = 0;
        while adapt.threshold() < COST {
            adapt.spared(adapt.threshold() + COST);
            sleeps += 1;
        }
        assert!(sleeps <= 6, "{sleeps}");
        adapt.spun(adapt.threshold());
        assert!(adapt.threshold() >= COST, "and a spin leaves it there");
        (0..20).for_each(|_| adapt.slept(u64::MAX));
        assert_eq!(adapt.threshold(), FLOOR, "but sleeps that pay do not");
    }

    #[test]
    fn missed_waits_count_as_long_if_they_were() {
        let mut adapt = Adapt::between(FLOOR, COST);
        adapt.missed(2 * COST - 1);
        assert_eq!(adapt.threshold(), COST);
        adapt.missed(2 * COST);
        assert_eq!(adapt.threshold(), COST / 2);
    }

    #[test]
    fn a_machine_where_sleeping_is_cheap_still_has_a_floor() {
        let adapt = Adapt::between(FLOOR, 100);
        assert_eq!((adapt.threshold(), adapt.bound), (FLOOR, FLOOR));
    }
}
