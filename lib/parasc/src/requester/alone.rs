//! Batches that a requesting thread makes alone where the kernel module is loaded: by one entry
//! into the kernel, or call by call. Which takes less time is learnt, by call and size.

use kumiki_calls::Request;
use kumiki_wait::Ticks;

use super::passes::KINDS;
use crate::backend::Inside;
use crate::execute;

/// One batch in so many is made in the other way. Row `kumiki/kernel_alone` of
/// `cargo xtask bench lab`: what that loses is beyond its median.
const TRIED: u32 = 32;
/// Batches of each way before one of them is taken.
const FIRST: u32 = 4;
/// Weight of a new sample in a mean.
const WEIGHT: f32 = 1.0 / 8.0;
/// Longer than so many times the mean is an accident.
const ACCIDENT: f32 = 4.0;

/// Costs of the last few kinds of batches.
#[derive(Debug, Default)]
pub(super) struct Alone([Known; KINDS]);

/// Likeness of batches at a glance: their first call, and the logarithm of their length to the
/// base of four.
type Likeness = (u16, u32);

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    like: Likeness,
    batches: u32,
    /// Mean ticks of a call: call by call, and by one entry. 0 before the first.
    ticks: [f32; 2],
}

impl Alone {
    /// Makes the calls.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`](crate::Requester::run_raw).
    #[inline(never)]
    pub(super) unsafe fn make(
        &mut self,
        inside: &Inside,
        ticks: Ticks,
        requests: &[Request],
        results: &mut [i64],
    ) {
        if inside.is_refused() {
            // SAFETY: the caller vouches for the calls.
            return unsafe { execute::plain(requests, results) };
        }
        let known = self.of(requests);
        let by_entry = known.is_by_entry();
        let start = ticks.now();
        match by_entry {
            // SAFETY: as above.
            true => unsafe { inside.make(requests, results) },
            // SAFETY: as above.
            false => unsafe { execute::plain(requests, results) },
        }
        let spent = ticks.now().wrapping_sub(start);
        known.learn(by_entry, spent as f32 / requests.len().max(1) as f32);
    }

    fn of(&mut self, requests: &[Request]) -> &mut Known {
        let call = requests.first().map_or(0, |request| request.sysnum);
        let like = (call, requests.len().max(1).ilog2() / 2);
        let known = &mut self.0[(usize::from(call) ^ like.1 as usize) % KINDS];
        if known.like != like {
            *known = Known { like, ..Known::default() };
        }
        known
    }
}

impl Known {
    fn is_by_entry(self) -> bool {
        let Known { batches, ticks: [plain, entry], .. } = self;
        if batches < 2 * FIRST {
            return batches % 2 == 0;
        }
        (entry < plain) != (batches % TRIED == 0)
    }

    fn learn(&mut self, by_entry: bool, ticks: f32) {
        self.batches = self.batches.wrapping_add(1);
        let mean = &mut self.ticks[usize::from(by_entry)];
        if *mean == 0.0 {
            *mean = ticks;
        }
        *mean += (ticks.min(*mean * ACCIDENT) - *mean) * WEIGHT;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Batches by one entry, of so many that take these ticks a call, plainly and by one entry.
    fn entries(known: &mut Known, batches: u32, ticks: [f32; 2]) -> u32 {
        let mut entries = 0;
        for _ in 0..batches {
            let by_entry = known.is_by_entry();
            entries += u32::from(by_entry);
            known.learn(by_entry, ticks[usize::from(by_entry)]);
        }
        entries
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_tried_at_times() {
        let (mut fast, mut slow) = (Known::default(), Known::default());
        entries(&mut fast, 2 * FIRST, [300.0, 200.0]);
        entries(&mut slow, 2 * FIRST, [300.0, 310.0]);
        assert_eq!(entries(&mut fast, 320, [300.0, 200.0]), 310);
        assert_eq!(entries(&mut slow, 320, [300.0, 310.0]), 10);
    }

    #[test]
    fn what_has_become_slower_is_left_and_one_accident_is_not() {
        let mut known = Known::default();
        entries(&mut known, 100, [300.0, 200.0]);
        known.learn(true, 1e9);
        assert!(entries(&mut known, 32, [300.0, 200.0]) >= 28);
        entries(&mut known, 64, [300.0, 900.0]);
        assert!(entries(&mut known, 320, [300.0, 900.0]) <= 12);
        entries(&mut known, 3200, [300.0, 100.0]);
        assert!(entries(&mut known, 320, [300.0, 100.0]) >= 300);
    }

    #[test]
    fn batches_of_other_calls_and_sizes_are_learnt_apart() {
        let mut alone = Alone::default();
        let batch = |call, count| vec![Request::new(call, []); count];
        alone.of(&batch(libc::SYS_getppid, 300)).learn(true, 7.0);
        assert_eq!(alone.of(&batch(libc::SYS_getppid, 300)).ticks[1], 7.0);
        assert_eq!(alone.of(&batch(libc::SYS_getppid, 2)).ticks[1], 0.0);
        assert_eq!(alone.of(&batch(libc::SYS_getuid, 300)).ticks[1], 0.0);
    }
}
