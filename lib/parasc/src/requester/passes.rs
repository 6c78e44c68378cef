//! Batches that are plain without a question.

use kumiki_calls::Request;

/// Kinds of calls and batches that are kept at hand: programs mostly alternate between some,
/// what opens, what reads, what closes.
pub(super) const KINDS: usize = 8;

/// Number of the next batches, by their kind, that need not ask.
#[derive(Debug)]
pub(super) struct Passes([Pass; KINDS]);

#[derive(Clone, Copy, Debug)]
struct Pass {
    like: Like,
    left: u32,
}

/// Likeness of batches at a glance: their first call and their length.
type Like = (u16, usize);

impl Passes {
    pub(super) const NONE: Passes = Passes([Pass { like: (0, 0), left: 0 }; KINDS]);

    /// True if a batch need not ask, of which that is one fewer then.
    #[inline(always)]
    pub(super) fn take(&mut self, requests: &[Request]) -> bool {
        let (at, like) = kind(requests);
        let pass = &mut self.0[at];
        let may = pass.left > 0 && pass.like == like;
        pass.left -= u32::from(may);
        may
    }

    /// Lets so many batches like this one pass.
    pub(super) fn give(&mut self, requests: &[Request], left: u32) {
        let (at, like) = kind(requests);
        self.0[at] = Pass { like, left };
    }
}

#[inline(always)]
fn kind(requests: &[Request]) -> (usize, Like) {
    let first = &requests[0];
    let at = (usize::from(first.sysnum) ^ requests.len()) % KINDS;
    (at, (first.sysnum, requests.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_in_turns_keep_their_passes() {
        let mut passes = Passes::NONE;
        let opens = [Request::new(libc::SYS_openat, []); 5];
        let closes = [Request::new(libc::SYS_close, []); 5];
        assert!(!passes.take(&opens) && !passes.take(&closes));
        passes.give(&opens, 2);
        passes.give(&closes, 1);
        assert!(passes.take(&opens) && passes.take(&closes));
        assert!(passes.take(&opens) && !passes.take(&closes));
        assert!(!passes.take(&opens));
    }

    #[test]
    fn what_differs_asks() {
        let mut passes = Passes::NONE;
        let reads = [Request::new(libc::SYS_read, []); 16];
        passes.give(&reads, 9);
        assert!(!passes.take(&reads[..8]));
        assert!(passes.take(&reads));
        // One of the same number and kind takes its place.
        passes.give(&[Request::new(libc::SYS_pread64, []); 16 ^ 17], 1);
        passes.give(&reads, 0);
        assert!(!passes.take(&reads));
    }
}
