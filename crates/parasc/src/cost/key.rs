//! What batches have in common whose cost is alike.

use crate::kind::{Contends, default_place, has_place, kind, may_sleep};
use crate::request::{Place, Request};

/// What is known of a call before it has been measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Prior {
    /// Calls of this kind don't wait for each other in the kernel.
    #[default]
    Scales,
    /// They do, on the one open file they all use, if not for long.
    OneFile,
    /// They do, on the one directory they all change.
    OneDirectory,
    /// They do, whatever their arguments: they change the address space.
    Serial,
    /// They mostly sleep.
    Sleeps,
}

/// Batches that cost alike per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The call, or [`MIXED`].
    sysnum: u16,
    /// All on one known place.
    one_place: bool,
    /// Binary logarithm of the number of calls.
    size: u8,
    /// The caller has something to do meanwhile.
    beside: bool,
}

impl Key {
    /// The call that all of the batch are, if they are one.
    #[inline]
    pub(crate) fn sysnum(self) -> Option<u16> {
        (self.sysnum != MIXED).then_some(self.sysnum)
    }

    /// The same of batches twice as long, and half.
    pub(super) fn neighbours(self) -> impl Iterator<Item = Key> {
        let sizes = [self.size.checked_add(1), self.size.checked_sub(1)];
        sizes.into_iter().flatten().map(move |size| Key { size, ..self })
    }
}

/// Stands for batches of several different calls.
const MIXED: u16 = u16::MAX;

/// The key of a batch, beside which the caller has something to do or not, and
/// what to expect of it. `requests` has one at least.
#[inline]
pub(crate) fn survey(requests: &[Request], beside: bool) -> (Key, Prior) {
    let first = &requests[0];
    let (mut other_call, mut other_place, mut named) = (0, 0, 0);
    for request in requests {
        other_call |= request.sysnum ^ first.sysnum;
        other_place |= request.place.0 ^ first.place.0;
        named |= request.place.0;
    }
    // Mostly the first look is enough.
    let one_place = if named == 0 && other_call == 0 && !has_place(first.sysnum) {
        false
    } else if named == 0 || other_place != 0 {
        let first = place(first);
        first != Place::NONE && requests.iter().all(|request| place(request) == first)
    } else {
        true
    };
    let sysnum = if other_call == 0 { first.sysnum } else { MIXED };
    let key = Key { sysnum, one_place, size: requests.len().ilog2() as u8, beside };
    (key, prior(first, other_call != 0, one_place))
}

#[inline(always)]
fn place(request: &Request) -> Place {
    if request.place == Place::NONE { default_place(request) } else { request.place }
}

fn prior(request: &Request, mixed: bool, one_place: bool) -> Prior {
    if mixed {
        return Prior::Scales;
    }
    match kind(request.sysnum).contends {
        Contends::AddressSpace => Prior::Serial,
        _ if may_sleep(request) => Prior::Sleeps,
        Contends::Descriptor(_) if one_place => Prior::OneFile,
        Contends::Directory(_) if one_place => Prior::OneDirectory,
        _ => Prior::Scales,
    }
}
