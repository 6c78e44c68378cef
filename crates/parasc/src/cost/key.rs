//! What batches have in common whose cost is alike.

use crate::differences::Differences;
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
    /// Which place all are on, of [`PLACES`] kinds: two open files, or directories,
    /// may contend differently. 0: on several, or on none.
    place: u8,
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

    /// The same of batches twice as long, and half, and then of all places together.
    pub(super) fn neighbours(self) -> impl Iterator<Item = Key> {
        let sizes = [self.size.checked_add(1), self.size.checked_sub(1)];
        let sizes = sizes.into_iter().flatten().map(move |size| Key { size, ..self });
        sizes.chain(self.anywhere())
    }

    /// The same of whichever place, if it is of one.
    pub(super) fn anywhere(self) -> Option<Key> {
        (self.place != 0).then_some(Key { place: ANYWHERE, ..self })
    }
}

/// Places are told apart by so many numbers: what is kept is not to grow with every
/// file that a program opens. Two of one number are taken for one.
const PLACES: u64 = 63;
/// Stands for all of them together.
const ANYWHERE: u8 = PLACES as u8 + 1;

/// The number of a place: the high bits of a product, which know all of its factor's.
fn number(place: Place) -> u8 {
    let mixed = place.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * PLACES) >> 32) as u8 + 1
}

/// Stands for batches of several different calls.
const MIXED: u16 = u16::MAX;

/// The key of a batch, beside which the caller has something to do or not, and
/// what to expect of it. `requests` has one at least.
#[inline]
pub(crate) fn survey(requests: &[Request], differ: Differences, beside: bool) -> (Key, Prior) {
    let first = &requests[0];
    let is_named = first.place != Place::NONE || differ.in_place();
    // Mostly the first look is enough.
    let one_place = if !is_named && !differ.in_call() && !has_place(first.sysnum) {
        None
    } else if !is_named || differ.in_place() {
        let first = place(first);
        let all = || requests.iter().all(|request| place(request) == first);
        (first != Place::NONE && all()).then_some(first)
    } else {
        Some(first.place)
    };
    let sysnum = if differ.in_call() { MIXED } else { first.sysnum };
    let size = requests.len().ilog2() as u8;
    let key = Key { sysnum, place: one_place.map_or(0, number), size, beside };
    (key, prior(first, differ.in_call(), one_place.is_some()))
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
