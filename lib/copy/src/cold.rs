//! [`Method::Cold`](crate::Method::Cold): for a caller who knows that the bytes are in memory.

use kumiki_wait::Deadline;

use crate::costs::ticks_of;
use crate::pair::Pair;
use crate::region::Region;
use crate::{known, share};

/// Two threads gain from so many bytes on. Rows `copy_cold` of `cargo xtask bench shadow`: at 64 KiB
/// they have what one has, at 256 KiB a third more.
const LEAST: usize = 128 << 10;

/// Copies past the caches, with both threads where the helper's part pays for asking it.
/// What is not known is measured meanwhile, as by [`auto`](crate::auto), until the deadline.
pub(crate) fn copy<P: Pair>(pair: &mut P, region: Region<'_>, deadline: &Deadline) {
    if known::is_all() {
        return copied(pair, region);
    }
    let ticks = ticks_of(|| copied(pair, region));
    // What the helper is at would be measured, too.
    if pair.is_free() {
        known::learn(pair, ticks, deadline);
    }
}

fn copied<P: Pair>(pair: &mut P, region: Region<'_>) {
    if region.len() >= shared_from(pair) {
        share::copy(pair, region, Region::stream);
    } else {
        region.stream();
    }
}

fn shared_from<P: Pair>(pair: &P) -> usize {
    if !pair.is_free() {
        return usize::MAX;
    }
    let from = match (known::known(), pair.wake_ticks()) {
        (Some(costs), wake_ticks) => costs.share_from(wake_ticks),
        (None, 0) => LEAST,
        // Nobody knows what pays for waking it.
        (None, _) => return usize::MAX,
    };
    from.max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_thread::OneThread;

    fn forks(len: usize, wake_ticks: u64) -> usize {
        let (mut to, from) = (vec![0; len], vec![3; len]);
        // All is known: nothing else is forked.
        crate::prepare(&mut OneThread::default());
        let mut pair = OneThread { wake_ticks, ..OneThread::default() };
        copy(&mut pair, Region::new(&mut to, &from).unwrap(), &Deadline::NEVER);
        assert!(to == from);
        pair.forks
    }

    #[test]
    fn a_helper_is_asked_for_what_pays() {
        assert_eq!(forks(LEAST - 1, 0), 0);
        assert_eq!(forks(64 << 20, 0), 1);
        assert_eq!(forks(LEAST, u64::MAX / 1024), 0);
    }
}
