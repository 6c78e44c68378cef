//! Memory for files that are read and written past the cache.

use std::collections::TryReserveError;
use std::mem::MaybeUninit;
use std::slice;

use super::BufferMut;

/// Alignment that devices of today ask of addresses at most: a page.
const ALIGNMENT: usize = 4096;

/// A buffer that begins at a multiple of 4096 bytes, as a file with `O_DIRECT` wants it: its
/// device writes there itself. A call fills it from its start.
#[derive(Debug)]
pub struct Aligned {
    /// Never grown, so that it stays where it is: up to the first multiple nothing, then the
    /// bytes.
    memory: Vec<MaybeUninit<u8>>,
    skip: usize,
    room: usize,
    filled: usize,
}

impl Aligned {
    /// Room for so many bytes. How many a file with `O_DIRECT` takes is for the caller to know:
    /// mostly a multiple of 512 or 4096.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn try_with_capacity(room: usize) -> Result<Aligned, TryReserveError> {
        let mut memory: Vec<MaybeUninit<u8>> = Vec::new();
        memory.try_reserve_exact(room.saturating_add(ALIGNMENT - 1))?;
        // SAFETY: reserved, and bytes of this type may be anything.
        unsafe { memory.set_len(room + ALIGNMENT - 1) };
        let skip = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        Ok(Aligned { memory, skip, room, filled: 0 })
    }

    /// A copy of these bytes.
    ///
    /// # Errors
    /// As [`try_with_capacity`](Self::try_with_capacity).
    pub fn copy_of(bytes: &[u8]) -> Result<Aligned, TryReserveError> {
        let mut copy = Aligned::try_with_capacity(bytes.len())?;
        for (to, byte) in copy.memory[copy.skip..][..bytes.len()].iter_mut().zip(bytes) {
            to.write(*byte);
        }
        copy.filled = bytes.len();
        Ok(copy)
    }
}

/// The bytes that it was filled with.
impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        let filled = &self.memory[self.skip..][..self.filled];
        // SAFETY: whoever told of so many bytes vouched that they were written.
        unsafe { slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) }
    }
}

// SAFETY: memory of a vector that is never grown, `room` bytes of it behind what is skipped.
unsafe impl BufferMut for Aligned {
    fn spare(&mut self) -> (*mut u8, usize) {
        let spare = &mut self.memory[self.skip..][..self.room];
        (spare.as_mut_ptr().cast(), spare.len())
    }

    unsafe fn advance(&mut self, count: usize) {
        self.filled = count;
    }

    unsafe fn filled(&self, count: usize) -> &[u8] {
        &self.as_ref()[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_a_page_and_is_filled_anew() {
        for room in [0, 1, 512, 4096, 100_000] {
            let mut buffer = Aligned::try_with_capacity(room).unwrap();
            for byte in [7, 9] {
                let (at, spare) = buffer.spare();
                assert!((at as usize) % ALIGNMENT == 0 && spare == room);
                // SAFETY: so many bytes to write to.
                unsafe { at.write_bytes(byte, room) };
                // SAFETY: written just now.
                unsafe { buffer.advance(room) };
                assert!(buffer.as_ref() == vec![byte; room]);
            }
        }
        let copy = Aligned::copy_of(b"some bytes").unwrap();
        assert!((copy.as_ref().as_ptr() as usize) % ALIGNMENT == 0);
        assert_eq!(copy.as_ref(), b"some bytes");
        assert!(Aligned::try_with_capacity(usize::MAX).is_err());
        assert!(Aligned::try_with_capacity(1 << 60).is_err());
    }
}
