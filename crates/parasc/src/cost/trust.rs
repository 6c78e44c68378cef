//! Whether processing threads come to a batch that is shared.
//!
//! Sharing needs one that is awake *and* on a cpu. A batch of which nobody else has made a
//! single call says nothing about sharing, and is not counted as a sample of it. It says that
//! nobody is there: when that has cost as much as a wake, the thread is taken for asleep, and
//! each further wake must be worth twice the one before, until somebody helps again.

use super::Sample;

/// How much dearer a wake gets if nobody comes, at most.
const DEAREST: f32 = 64.0;
/// Wakes are in vain if nobody has come in so many times what one takes.
const IN_VAIN: f32 = 16.0;

#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    /// Ticks that waking a processing thread would have saved so far.
    missed: f32,
    /// Ticks lost by sharing with nobody.
    lost: f32,
    /// Since when wakes have been in vain, by the time spent.
    in_vain: Option<u64>,
    /// Somebody was woken and has not helped yet.
    arriving: bool,
    /// The last that helped was arriving.
    arrived: bool,
    /// 0: a thread that seems awake is. Above: nobody came, and a wake must have been worth
    /// so many times its price. Below: that wake has been made.
    distrust: f32,
}

impl Trust {
    /// The same, of batches of another key.
    pub(super) fn anew(&self) -> Trust {
        Trust { distrust: self.distrust, ..Trust::default() }
    }

    /// Whether nobody is expected to come unless woken.
    pub(super) fn is_gone(&self) -> bool {
        self.distrust > 0.0
    }

    /// Whether wakes have become worth their price, now that one more batch would have saved
    /// so many ticks. If so, it is to be made.
    pub(super) fn is_worth_a_wake(&mut self, saved: f32, wake: f32) -> bool {
        self.missed += saved;
        if self.missed < wake * self.distrust.max(1.0) {
            return false;
        }
        (self.missed, self.lost) = (0.0, 0.0);
        self.distrust = -self.distrust.abs();
        true
    }

    /// What was lost before a trial of sharing says nothing about who comes to it, and its
    /// wakes have been waited for.
    pub(super) fn begin_trial(&mut self) {
        (self.lost, self.in_vain) = (0.0, None);
        self.distrust = -self.distrust.abs();
    }

    /// Notes how a shared batch went that took `more` ticks than plain calls would have, and
    /// returns whether it says something about sharing. The batch that `begins` a trial with
    /// a wake does not: who was called is on the way.
    pub(super) fn record(
        &mut self,
        sample: Sample,
        begins: bool,
        more: f32,
        spent: u64,
        wake: f32,
    ) -> bool {
        let alone = sample.helped == 0;
        if !alone {
            // Who comes from sleep takes several times as long for its first calls. Where
            // it always does, that is what sharing takes.
            let arrives = std::mem::take(&mut self.arriving) && !self.arrived;
            self.arrived = arrives;
            (self.lost, self.distrust, self.in_vain) = (0.0, 0.0, None);
            return !(begins || arrives);
        }
        self.arriving |= sample.woke;
        if sample.woke {
            // What a wake takes is known.
            let since = *self.in_vain.get_or_insert(spent);
            if (spent - since) as f32 > wake * IN_VAIN {
                self.lost = self.lost.max(wake);
            }
        } else {
            self.lost += more.max(sample.calls as f32);
        }
        if self.lost >= wake {
            (self.lost, self.in_vain) = (0.0, None);
            self.distrust = (self.distrust.abs() * 2.0).clamp(1.0, DEAREST);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAKE: f32 = 1000.0;

    fn batch(helped: usize, woke: bool) -> Sample {
        Sample { calls: 10, ticks: 2000, helped, kept: 0, woke, away: 0 }
    }

    #[test]
    fn who_does_not_come_is_woken_when_that_is_worth_it_and_then_twice_that() {
        let mut trust = Trust::default();
        let mut spent = 0;
        let mut share = |trust: &mut Trust, helped, woke| {
            spent += 2000;
            trust.record(batch(helped, woke), false, 600.0, spent, WAKE)
        };
        assert!(share(&mut trust, 5, false) && !trust.is_gone());
        assert!(!share(&mut trust, 0, false) && !trust.is_gone());
        assert!(!share(&mut trust, 0, false) && trust.is_gone());
        let mut saved = 0.0;
        for price in [1.0, 2.0, 4.0] {
            while !trust.is_worth_a_wake(100.0, WAKE) {
                saved += 100.0;
            }
            assert!(!trust.is_gone() && (price * WAKE - saved - 100.0).abs() < 1.0);
            saved = 0.0;
            // It may be on the way for a while.
            let batches = (1..).take_while(|_| !share(&mut trust, 0, true) && !trust.is_gone());
            assert_eq!(batches.count(), (IN_VAIN * WAKE / 2000.0) as usize + 1);
        }
        assert!(!trust.is_worth_a_wake(7.0 * WAKE, WAKE));
        // It comes: not at full speed at first.
        assert!(!share(&mut trust, 5, false) && !trust.is_gone());
        assert!(share(&mut trust, 5, false));
        assert!(trust.is_worth_a_wake(0.0, WAKE));
    }

    #[test]
    fn the_wake_that_begins_a_trial_shows_nothing() {
        let mut trust = Trust::default();
        assert!(!trust.record(batch(5, true), true, 0.0, 0, WAKE));
        assert!(trust.record(batch(5, true), false, 0.0, 0, WAKE));
    }

    #[test]
    fn another_key_begins_with_the_same_belief() {
        let mut trust = Trust::default();
        trust.record(batch(0, false), false, 2000.0, 0, WAKE);
        assert!(trust.is_gone() && trust.anew().is_gone());
        assert!(!trust.anew().is_worth_a_wake(0.9 * WAKE, WAKE));
    }
}
