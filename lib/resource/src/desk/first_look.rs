//! When a caller looks for its answer first, and a server for a further request.
//!
//! A look that comes too early is not free: it takes the line away from the server, which
//! has to fetch it again to write the answer. Where a line's way from cpu to cpu takes 100 ns,
//! a call whose caller looks all the time takes 300, and one whose caller looks when the
//! answer is there 210.
//!
//! A server whose callers have several requests under way finds most of them before it has
//! to look twice; where it is quicker than they are, it takes the line from a caller that
//! is about to write the next request.
//!
//! So either waits a little before it looks, and learns for how long: less after each
//! answer or request that was there at the first look, more after each that came soon after
//! it. What comes much later says nothing.

use kumiki_wait::Ticks;

/// Looks in which an answer comes soon, about the way of a line.
const SOON: u32 = 256;
/// Ticks less after an answer that was there.
const LESS: u64 = 2;
/// Ticks more after one that was not: one in five is missed then.
const MORE: u64 = 4 * LESS;
/// No more ticks than this, some tenths of a microsecond: it is in vain where answers take
/// now as long and now as long.
const MOST: u64 = 1024;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstLook {
    ticks: Ticks,
    after: u64,
}

impl FirstLook {
    /// Waits until it is time for the first look, or who looks `has_work` of its own.
    #[inline(always)]
    pub(crate) fn wait(self, has_work: impl Fn() -> bool) {
        if self.after == 0 {
            return;
        }
        let start = self.ticks.now();
        while self.ticks.now().wrapping_sub(start) < self.after && !has_work() {}
    }

    /// The answer, or a request, was there at this look, of which the first is 1.
    #[inline(always)]
    pub(crate) fn found(&mut self, look: u32) {
        self.after = match look {
            1 => self.after.saturating_sub(LESS),
            2..SOON => MOST.min(self.after + MORE),
            _ => self.after,
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_comes_about_when_answers_do() {
        let mut first_look = FirstLook::default();
        // Answers that come after so many ticks, now and then after very many.
        let mut missed = 0;
        for call in 0..10_000 {
            let soon = first_look.after < 300 + call % 16;
            missed += u32::from(call >= 1000 && soon);
            let look = if call % 100 == 0 { SOON } else { 1 + u32::from(soon) };
            first_look.found(look);
        }
        assert!((300..350).contains(&first_look.after), "{first_look:?}");
        assert!((1500..2100).contains(&missed), "one in five of 9000: {missed}");
    }

    #[test]
    fn it_waits_neither_less_than_nothing_nor_long() {
        let mut first_look = FirstLook::default();
        first_look.found(1);
        assert_eq!(first_look.after, 0);
        (0..1000).for_each(|_| first_look.found(SOON - 1));
        assert_eq!(first_look.after, MOST);
    }
}
