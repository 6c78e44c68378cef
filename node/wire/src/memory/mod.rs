//! Physical memory, mapped: of a node, of an image, or a window that two
//! kernels write.
//!
//! Never a `&[u8]` to it: a reference promises that nobody else writes. Bytes
//! are copied in and out, words are atomics.

pub mod blocks;
pub mod cpu_list;
pub mod numa;

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use kumiki_boot::Piece;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::access::Access;
use crate::{Error, Result};

/// Pieces mapped one after the other.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    access: Access,
}

// SAFETY: the mapping belongs to the process and is unmapped once, on drop.
unsafe impl Send for Memory {}
// SAFETY: through a reference it is reached by atomics and by copies of which
// the other side may make whatever it likes, as another kernel may anyway.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `pieces` of what stands behind `device`, whose offsets are addresses.
    pub fn map(device: BorrowedFd<'_>, pieces: &[Piece], access: Access) -> Result<Self> {
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        let failed = |error| Error::os(format!("mapping {bytes} bytes of physical memory"), error);
        let bytes = usize::try_from(bytes).map_err(|_| failed(rustix::io::Errno::OVERFLOW))?;
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        let at = |place: *mut u8, piece: &Piece, flags| {
            let (length, from) = (piece.bytes as usize, piece.address);
            // SAFETY: where the kernel chooses, or within the range that is reserved below.
            unsafe { mmap(place.cast(), length, protection, flags, device, from) }
        };
        let whole = |start: *mut c_void, bytes| {
            let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::FAULT)?;
            Ok(Memory { start, bytes, access })
        };
        if let [piece] = pieces {
            let start = at(ptr::null_mut(), piece, MapFlags::SHARED);
            return start.and_then(|start| whole(start, bytes)).map_err(failed);
        }
        // SAFETY: a new mapping where the kernel chooses touches nobody's.
        let reserved = unsafe {
            mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE)
        };
        let mut memory = reserved.and_then(|start| whole(start, bytes)).map_err(failed)?;
        let mut used = 0;
        for piece in pieces {
            let place = memory.start.as_ptr().wrapping_add(used);
            let length = piece.bytes as usize;
            if let Err(error) = at(place, piece, MapFlags::SHARED | MapFlags::FIXED) {
                // The kernel had made room for it. What is there by now may be another thread's:
                // only what lies before and behind is unmapped.
                let behind = NonNull::new(place.wrapping_add(length));
                drop(behind.map(|start| Memory { start, bytes: bytes - used - length, access }));
                memory.bytes = used;
                return Err(failed(error));
            }
            used += length;
        }
        Ok(memory)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A pointer to `length` bytes at `offset`.
    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        let end = offset.checked_add(length);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{length} bytes at {offset:#x} leave a mapping of {:#x}",
            self.bytes
        );
        // SAFETY: the offset is within the mapping, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Copies bytes in.
    pub fn write(&self, offset: usize, from: &[u8]) {
        assert!(self.access == Access::Write, "the mapping is read only");
        let to = self.at(offset, from.len());
        // SAFETY: both ranges are valid; ours is private, so they are disjoint.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Fills with zeros.
    pub fn zero(&self, offset: usize, length: usize) {
        assert!(self.access == Access::Write, "the mapping is read only");
        let to = self.at(offset, length);
        // SAFETY: the range is valid and writable.
        unsafe { ptr::write_bytes(to, 0, length) };
    }

    /// Copies from another mapping.
    pub fn copy(&self, offset: usize, from: &Memory, at: usize, length: usize) {
        assert!(self.access == Access::Write, "the mapping is read only");
        let (to, from) = (self.at(offset, length), from.at(at, length));
        // SAFETY: both ranges are valid; different holdings share no memory, and
        // `copy` allows an overlap.
        unsafe { ptr::copy(from, to, length) };
    }

    /// Copies bytes out. Another kernel may write meanwhile: a claim to be checked.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        // SAFETY: both ranges are valid; ours is private, so they are disjoint.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    /// The word at `offset`.
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        let word: *mut u32 = self.at(offset, 4).cast();
        assert!(word.is_aligned());
        // SAFETY: valid for the mapping's life, aligned, and reached by atomics
        // only; a read-only mapping is only loaded from, or the store faults.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// The double word at `offset`.
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        let word: *mut u64 = self.at(offset, 8).cast();
        assert!(word.is_aligned());
        // SAFETY: as for `u32`.
        unsafe { AtomicU64::from_ptr(word) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: this range was mapped for this value, and what borrowed from it is gone.
        let outcome = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(outcome, Ok(()));
    }
}

impl Memory {
    /// Memory that is nobody else's; for tests.
    pub fn zeroed(bytes: u64) -> Self {
        let (bytes, protection) = (bytes as usize, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping where the kernel chooses touches nobody's.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
        let start = NonNull::new(start.expect("there is memory").cast());
        Memory { start: start.expect("no mapping is at 0"), bytes, access: Access::Write }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn pieces_lie_one_after_the_other() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x4000).unwrap();
        let pieces = [0x3000, 0x1000].map(|address| Piece { address, bytes: 0x1000 });
        let memory = Memory::map(file.as_fd(), &pieces, Access::Write).unwrap();
        memory.write(0xffe, b"abcd");
        let whole = [Piece { address: 0, bytes: 0x4000 }];
        let reader = Memory::map(file.as_fd(), &whole, Access::Read).unwrap();
        let mut out = [0; 2];
        reader.read(0x3ffe, &mut out);
        assert_eq!(&out, b"ab");
        reader.read(0x1000, &mut out);
        assert_eq!(&out, b"cd");
        memory.zero(0xfff, 2);
        assert_eq!(reader.u32(0x1000).load(Ordering::Relaxed), u32::from(b'd') << 8);
        memory.copy(0, &reader, 0x3ffe, 1);
        assert_eq!(reader.u64(0x3000).load(Ordering::Relaxed), u64::from(b'a'));
    }

    /// The kernel unmaps what is in the way before it asks whether it may map, and another thread
    /// gets that place: unmapped once more, it is that thread's memory which goes.
    #[test]
    fn a_mapping_that_is_refused_takes_no_others_away() {
        const BYTES: u64 = 0x8000;
        // It refuses as late as a driver does.
        let (refuses, _) = UnixStream::pair().unwrap();
        let good = tempfile::tempfile().unwrap();
        good.set_len(3 * BYTES).unwrap();
        let pieces = [0, 2 * BYTES, BYTES].map(|address| Piece { address, bytes: BYTES });
        for count in [1, 2, 3] {
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !over.load(Ordering::Relaxed) {
                            let one =
                                Memory::map(good.as_fd(), &pieces[..1], Access::Write).unwrap();
                            for _ in 0..20 {
                                one.write(0, b"it is there");
                            }
                        }
                    });
                }
                for _ in 0..20_000 {
                    Memory::map(refuses.as_fd(), &pieces[..count], Access::Write).unwrap_err();
                }
                over.store(true, Ordering::Relaxed);
            });
        }
    }

    #[test]
    #[should_panic(expected = "leave a mapping of 0x1000")]
    fn nobody_reaches_beyond_it() {
        Memory::zeroed(0x1000).write(0xfff, &[1, 2]);
    }
}
