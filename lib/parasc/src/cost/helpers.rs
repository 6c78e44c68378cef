//! What a requesting thread knows of its helpers, whatever the calls: whether somebody
//! comes, when a wake has paid for itself, and whether sharing costs more than it saves.

use super::{Means, PART, SLEEPS, Sample};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Helpers {
    /// The last shared batch had help.
    pub(super) helped: bool,
    /// Ticks of shared batches in a row that nobody helped with. From a wake's price on
    /// nobody is taken to be there, whatever it looks like.
    alone: f32,
    /// Somebody has helped this requesting thread before.
    known: bool,
    /// The last batch that began with a wake is the last one that was shared, …
    pub(super) woken: bool,
    /// … and so was the one before: who was woken has served no other batch.
    pub(super) in_vain: bool,
    /// Ticks of plain calls that a helper would have saved, since the last wake.
    pub(super) missed: f32,
    /// Account of what others saved less what they cost, ticks; 0 at most, so that a good time before
    /// hides no bad one.
    account: f32,
    /// Ticks that they have saved since the last pause.
    saved: f32,
    /// Nothing is shared until then …
    until: Option<u64>,
    /// Length of the last pause.
    pause: f32,
}

impl Helpers {
    /// True if nothing is to be shared at the moment.
    #[inline]
    pub(super) fn paused(&mut self, now: impl Fn() -> u64) -> bool {
        self.until = self.until.filter(|until| (until.wrapping_sub(now()) as i64) > 0);
        self.until.is_some()
    }

    /// True if all but one of so many threads, which spin, are expected to come.
    #[inline]
    pub(super) fn come(&self, means: Means, threads: usize) -> bool {
        means.hot + 1 >= threads && self.alone < means.wake()
    }

    /// True if a wake is worth its price by now; it is to be made then.
    pub(super) fn wakes(&mut self, means: Means) -> bool {
        let price = if means.alone && !self.known { SLEEPS * means.sleep } else { means.wake() };
        let wakes = self.missed >= price;
        if wakes {
            (self.missed, self.alone) = (0.0, 0.0);
            // Who was called and comes too late has cost as much.
            self.account -= means.wake();
        }
        wakes
    }

    /// Notes how a shared batch ended, of which a plain call takes `plain` and which has saved `most`
    /// at most; returns how many ticks were lost if that is many.
    #[inline]
    pub(super) fn shared(
        &mut self,
        end: Sample,
        (plain, most): (f32, f32),
        means: Means,
    ) -> Option<f32> {
        // Calls take longer where two threads make them: what others made is not all saved.
        let saved = (plain * end.helped as f32).min(most);
        self.helped = end.helped > 0;
        self.in_vain = end.woke && self.woken && self.known;
        self.woken = end.woke;
        self.known |= self.helped;
        self.saved += saved;
        self.account = (self.account + saved - end.waited as f32).min(0.0);
        if self.helped {
            self.alone = 0.0;
        } else if !end.woke {
            self.alone += plain * end.calls as f32;
        }
        let lost = -self.account;
        (lost > SLEEPS * means.sleep).then_some(lost)
    }

    /// Takes a loss off the account. Where less was saved since the last one, nothing is shared for a
    /// while, unless what has lost is shared by `fewer` from now on.
    pub(super) fn loses(&mut self, lost: f32, fewer: bool, now: u64) {
        self.pause = match !fewer && self.saved < lost {
            true => (2.0 * self.pause).clamp(lost, PART as f32 * lost),
            false => 0.0,
        };
        self.until = Some(now.wrapping_add(self.pause as u64));
        (self.account, self.saved) = (0.0, 0.0);
    }
}
