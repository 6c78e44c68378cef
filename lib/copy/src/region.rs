//! A source and a destination of one length, as one value that may be divided
//! and sent to another thread. Each byte belongs to one `Region` at a time, and
//! copying consumes it: so no byte is copied by two threads, nor twice unless it is
//! reborrowed, and what is built of regions needs no `unsafe`.

use std::marker::PhantomData;
use std::ptr;

use crate::error::Error;
use crate::line;
use crate::prefetch::Footprint;
use crate::probe::{self, Probe};

/// `len` readable bytes and as many writable ones, with no byte in common,
/// both borrowed for `'a`.
pub(crate) struct Region<'a> {
    to: *mut u8,
    from: *const u8,
    len: usize,
    borrowed: PhantomData<(&'a mut [u8], &'a [u8])>,
}

// SAFETY: it stands for a `&mut [u8]` and a `&[u8]`, both of which are Send.
unsafe impl Send for Region<'_> {}

impl<'a> Region<'a> {
    /// Checks that both have the same length.
    #[inline]
    pub(crate) fn new(to: &'a mut [u8], from: &'a [u8]) -> Result<Self, Error> {
        if to.len() != from.len() {
            return Err(Error::Length { to: to.len(), from: from.len() });
        }
        let (len, borrowed) = (to.len(), PhantomData);
        Ok(Region { to: to.as_mut_ptr(), from: from.as_ptr(), len, borrowed })
    }

    /// Checks what can be seen of the pointers.
    ///
    /// # Safety
    /// If `len` is not 0: valid for `len` bytes of reads and writes, and
    /// nobody else's, for `'a`.
    pub(crate) unsafe fn from_raw(to: *mut u8, from: *const u8, len: usize) -> Result<Self, Error> {
        if len == 0 {
            return Region::new(&mut [], &[]);
        }
        for (side, start) in [("destination", to.addr()), ("source", from.addr())] {
            if start == 0 {
                return Err(Error::Null { side, len });
            }
            if isize::try_from(len).is_err() || start.checked_add(len).is_none() {
                return Err(Error::TooLong { start, len });
            }
        }
        if to.addr().abs_diff(from.addr()) < len {
            return Err(Error::Overlap { to: to.addr(), from: from.addr(), len });
        }
        Ok(Region { to, from, len, borrowed: PhantomData })
    }

    /// Bytes on each side.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All of it, for as long as it is borrowed, to be copied once more afterwards.
    pub(crate) fn reborrow(&mut self) -> Region<'_> {
        // SAFETY: `self` is not used while the result is.
        unsafe { self.part(0, self.len) }
    }

    /// The first `at` bytes, and the others; all and nothing if there are
    /// fewer.
    #[inline]
    pub(crate) fn split_at(self, at: usize) -> (Region<'a>, Region<'a>) {
        let at = at.min(self.len);
        // SAFETY: `self` is gone, and the two parts have no byte in common.
        let first = unsafe { self.part(0, at) };
        // SAFETY: as above.
        let second = unsafe { self.part(at, self.len - at) };
        (first, second)
    }

    /// The first half and the second.
    pub(crate) fn halves(self) -> (Region<'a>, Region<'a>) {
        let half = self.len / 2;
        self.split_at(half)
    }

    /// Every second block of `bytes`, from the first and from the second one;
    /// the last block may be shorter.
    pub(crate) fn interleave(self, bytes: usize) -> (Blocks<'a>, Blocks<'a>) {
        // SAFETY: the two iterators hand out different blocks of what was
        // `self`.
        let twin = unsafe { self.part(0, self.len) };
        (Blocks { region: self, next: 0, bytes }, Blocks { region: twin, next: bytes, bytes })
    }

    /// A part of it.
    ///
    /// # Safety
    /// No other region that is in use has a byte of this part.
    #[inline]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> Region<'a> {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: start ≤ self.len, so it stays within the region.
        let to = unsafe { self.to.add(start) };
        // SAFETY: as above.
        let from = unsafe { self.from.add(start) };
        Region { to, from, len, borrowed: PhantomData }
    }

    /// Copies it with the C library's `memcpy`.
    #[inline]
    pub(crate) fn copy(self) {
        // SAFETY: a region is valid for its length on both sides, which have
        // no byte in common.
        unsafe { ptr::copy_nonoverlapping(self.from, self.to, self.len) }
    }

    /// Copies it past the caches. When this returns the bytes are visible to
    /// whoever synchronises with this thread.
    pub(crate) fn stream(self) {
        // SAFETY: as for `copy`.
        unsafe { line::stream(self.to, self.from, self.len) }
    }

    /// Some lines of its source.
    #[inline(always)]
    pub(crate) fn probe<const N: usize>(&self, eighths: [usize; N]) -> Probe<'a, N> {
        // SAFETY: the source of a region is a `&'a [u8]`.
        unsafe { Probe::new(self.from.cast(), self.len, eighths) }
    }

    /// Some of the middle of its destination.
    ///
    /// # Safety
    /// Nobody writes there while the result is in use.
    pub(crate) unsafe fn middle_to(&self) -> Probe<'a, 2> {
        // SAFETY: the destination of a region is a `&'a mut [u8]`; for the rest see above.
        unsafe { Probe::new(self.to.cast(), self.len, probe::MIDDLE) }
    }

    /// Addresses of the region, without a right to touch it.
    pub(crate) fn footprint(&self) -> Footprint {
        Footprint { to: self.to.addr(), from: self.from.addr(), len: self.len }
    }
}

/// Every second block of a region.
pub(crate) struct Blocks<'a> {
    region: Region<'a>,
    next: usize,
    bytes: usize,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Region<'a>;

    fn next(&mut self) -> Option<Region<'a>> {
        let start = self.next;
        let left = self.region.len.checked_sub(start).filter(|&left| left > 0)?;
        self.next = start.saturating_add(self.bytes.saturating_mul(2));
        // SAFETY: `next` only grows, by two blocks, and the twin began one
        // block later or earlier: nobody else is given this block.
        Some(unsafe { self.region.part(start, left.min(self.bytes)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_region_is_checked() {
        let mut bytes = [0_u8; 64];
        let start = bytes.as_mut_ptr();
        let check = |to: usize, from: usize, len| {
            // SAFETY: nothing is copied, the region is only made.
            let made =
                unsafe { Region::from_raw(start.wrapping_add(to), start.wrapping_add(from), len) };
            made.map(|region| region.len())
        };
        assert_eq!(check(32, 0, 32), Ok(32));
        assert_eq!(check(0, 32, 32), Ok(32));
        assert!(matches!(check(31, 0, 32), Err(Error::Overlap { len: 32, .. })));
        assert!(matches!(check(0, 31, 32), Err(Error::Overlap { len: 32, .. })));
        assert!(matches!(check(0, 0, 1), Err(Error::Overlap { .. })));
        assert!(matches!(check(0, 0, usize::MAX), Err(Error::TooLong { .. })));
        assert_eq!(check(0, 0, 0), Ok(0));
    }

    #[test]
    fn every_byte_is_in_one_block() {
        for (len, bytes) in [(0, 1), (1, 1), (10, 3), (12, 3), (13, 3), (5, 100), (100, usize::MAX)]
        {
            let (mut to, from) = (vec![0_u8; len], vec![0_u8; len]);
            let start = to.as_ptr().addr();
            let (ours, theirs) = Region::new(&mut to, &from).unwrap().interleave(bytes);
            let mut seen: Vec<_> = ours
                .chain(theirs)
                .flat_map(|block| {
                    let at = block.to.addr() - start;
                    at..at + block.len
                })
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..len).collect::<Vec<_>>(), "{len} by {bytes}");
        }
    }
}
