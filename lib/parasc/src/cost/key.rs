//! What batches have in common whose cost is alike.

use crate::differences::Differences;
use kumiki_calls::Request;
use kumiki_calls::{Contends, kind, may_sleep};

/// Knowledge of a call before it has been measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Prior {
    /// Several at once are expected to take less time.
    #[default]
    Scales,
    /// Calls that change the address space: the kernel makes them one after the other.
    Serial,
    /// Calls that mostly sleep.
    Sleeps,
}

/// Batches that cost alike per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CostKey {
    /// The call, or [`MIXED`].
    sysnum: u16,
    /// Logarithm of the number of calls, to the base of four.
    size: u8,
    around: Around,
}

/// Circumstances in which a batch is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Around {
    /// The requesting thread has something to do meanwhile.
    pub(crate) beside: bool,
    /// Threads of the program serve, too: another rival, of which nobody knows on which cpus
    /// it runs, nor how many take part.
    pub(crate) own: bool,
}

/// Stands for batches of several different calls.
const MIXED: u16 = u16::MAX;

impl CostKey {
    /// The call that all of the batch are, if they are one.
    #[inline]
    pub(crate) fn sysnum(self) -> Option<u16> {
        (self.sysnum != MIXED).then_some(self.sysnum)
    }

    /// True if the requesting thread has something to do meanwhile.
    #[inline]
    pub(crate) fn is_beside(self) -> bool {
        self.around.beside
    }

    /// Distance of another key of the same call; `None` if it is of another.
    pub(super) fn distance(self, other: CostKey) -> Option<u8> {
        let (one, two) = (self.around, other.around);
        let differ = u8::from(one.beside != two.beside) + u8::from(one.own != two.own);
        let far = 2 * self.size.abs_diff(other.size) + differ;
        (self.sysnum == other.sysnum).then_some(far)
    }
}

/// The key of a batch, and what to expect of it. `requests` has one at least.
#[inline]
pub(crate) fn survey(
    requests: &[Request],
    differ: Differences,
    around: Around,
) -> (CostKey, Prior) {
    let first = &requests[0];
    let sysnum = if differ.in_call() { MIXED } else { first.sysnum };
    let prior = match kind(first.sysnum).contends {
        _ if sysnum == MIXED => Prior::Scales,
        Contends::AddressSpace => Prior::Serial,
        _ if may_sleep(first) => Prior::Sleeps,
        _ => Prior::Scales,
    };
    (CostKey { sysnum, size: (requests.len().ilog2() / 2) as u8, around }, prior)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call: i64, count: usize, beside: bool) -> (CostKey, Prior) {
        let requests = vec![Request::new(call, [0]); count];
        survey(&requests, Differences::of(&requests), Around { beside, own: false })
    }

    #[test]
    fn batches_of_a_call_are_told_apart_by_their_size_in_steps_of_four() {
        let size = |count| key(libc::SYS_read, count, false).0;
        assert_eq!([4, 5, 15].map(size), [size(4); 3]);
        assert!(size(3) != size(4) && size(15) != size(16));
        assert_eq!(size(300).distance(size(10)), Some(6));
        assert_eq!(size(10).distance(key(libc::SYS_read, 10, true).0), Some(1));
        let own = Around { beside: false, own: true };
        let requests = [Request::new(libc::SYS_read, [0]); 10];
        let own = survey(&requests, Differences::of(&requests), own).0;
        assert_eq!((own == size(10), size(10).distance(own)), (false, Some(1)));
        assert_eq!(size(10).distance(key(libc::SYS_pread64, 10, false).0), None);
    }

    #[test]
    fn what_a_call_is_says_what_to_expect() {
        for (call, expected) in [
            (libc::SYS_munmap, Prior::Serial),
            (libc::SYS_fsync, Prior::Sleeps),
            (libc::SYS_unlinkat, Prior::Scales),
        ] {
            assert_eq!(key(call, 2, false).1, expected, "{call}");
        }
        let mixed = [Request::new(libc::SYS_munmap, [0]), Request::new(libc::SYS_read, [0])];
        let (key, prior) = survey(&mixed, Differences::of(&mixed), Around::default());
        assert_eq!((key.sysnum(), prior), (None, Prior::Scales));
    }
}
