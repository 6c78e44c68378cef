//! Memory as the kernel is told of it, one piece or several.

use std::ptr::with_exposed_provenance_mut;

use rustix::io::Errno;

use super::BufferMut;
use super::output::typed;

/// `struct iovec`, as numbers, so that an operation may go from thread to thread.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Range {
    pub(super) address: u64,
    pub(super) length: u64,
}

const _: () = assert!(size_of::<Range>() == size_of::<libc::iovec>());
const _: () = assert!(
    std::mem::offset_of!(Range, length) == std::mem::offset_of!(libc::iovec, iov_len),
    "the kernel would take an address for a length"
);

impl Range {
    /// The bytes of `data`, to be read.
    #[inline]
    pub(super) fn of(data: &impl AsRef<[u8]>) -> Range {
        let data = data.as_ref();
        Range { address: data.as_ptr() as u64, length: data.len() as u64 }
    }

    /// Range of the bytes in `buffer` that may be written.
    #[inline]
    pub(super) fn spare(buffer: &mut impl BufferMut) -> Range {
        let (pointer, room) = buffer.spare();
        Range { address: pointer as u64, length: room as u64 }
    }

    /// Makes zeros of it, for a call that may tell of more bytes than it writes.
    ///
    /// # Safety
    /// It is a buffer's room, and nobody has touched the buffer since it told.
    pub(super) unsafe fn clear(self) {
        let pointer = with_exposed_provenance_mut::<u8>(self.address as usize);
        // SAFETY: a buffer's room is valid for writes and nobody else's.
        unsafe { pointer.write_bytes(0, self.length as usize) };
    }
}

/// Buffers that one call reads, in order.
#[derive(Debug)]
pub(super) struct Gather<B> {
    buffers: Vec<B>,
    ranges: Vec<Range>,
}

impl<B: AsRef<[u8]>> Gather<B> {
    pub(super) fn new(buffers: Vec<B>) -> Self {
        let ranges = vec![Range::default(); buffers.len()];
        Gather { buffers, ranges }
    }

    /// Address and length of the array of ranges, as they are now.
    #[inline]
    pub(super) fn arguments(&mut self) -> (u64, u64) {
        for (range, buffer) in self.ranges.iter_mut().zip(&self.buffers) {
            *range = Range::of(buffer);
        }
        (self.ranges.as_ptr() as u64, self.ranges.len() as u64)
    }

    /// Number of bytes that the kernel read.
    ///
    /// # Safety
    /// As for [`Scatter::complete`].
    #[inline]
    pub(super) unsafe fn complete(&mut self, ret_val: i64) -> Result<usize, Errno> {
        // SAFETY: any number is a count.
        unsafe { typed(ret_val) }
    }

    #[inline]
    pub(super) fn into_buffers(self) -> Vec<B> {
        self.buffers
    }
}

/// Buffers that one call fills, one after the other.
#[derive(Debug)]
pub(super) struct Scatter<B> {
    buffers: Vec<B>,
    ranges: Vec<Range>,
    filled: usize,
}

impl<B: BufferMut> Scatter<B> {
    pub(super) fn new(buffers: Vec<B>) -> Self {
        let ranges = vec![Range::default(); buffers.len()];
        Scatter { buffers, ranges, filled: 0 }
    }

    /// Address and length of the array of ranges, as they are now.
    #[inline]
    pub(super) fn arguments(&mut self) -> (u64, u64) {
        self.filled = 0;
        for (range, buffer) in self.ranges.iter_mut().zip(&mut self.buffers) {
            *range = Range::spare(buffer);
        }
        (self.ranges.as_ptr() as u64, self.ranges.len() as u64)
    }

    /// Makes zeros of all the room.
    ///
    /// # Safety
    /// Nobody has touched the buffers since the last [`arguments`](Self::arguments).
    pub(super) unsafe fn clear(&mut self) {
        for range in &self.ranges {
            // SAFETY: a buffer's room, as it was told for the arguments.
            unsafe { range.clear() };
        }
    }

    /// Tells each buffer of its part of what was written.
    ///
    /// # Safety
    /// The kernel returned it for a call that got the last
    /// [`arguments`](Self::arguments), and this is the only call with it.
    #[inline]
    pub(super) unsafe fn complete(&mut self, ret_val: i64) -> Result<usize, Errno> {
        // SAFETY: any number is a count.
        self.filled = unsafe { typed(ret_val) }?;
        for (part, buffer) in parts(&self.ranges, self.filled).zip(&mut self.buffers) {
            // SAFETY: the kernel fills a range before it begins the next, so it
            // wrote so many bytes here, as many as there is room for; what it may
            // have left out is zeros (`clear`).
            unsafe { buffer.advance(part) };
        }
        Ok(self.filled)
    }

    /// Bytes that the last call wrote to each buffer.
    #[inline]
    pub(super) fn filled(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        parts(&self.ranges, self.filled).zip(&self.buffers).map(|(part, buffer)| {
            // SAFETY: `complete` told of that many, and buffers are not handed
            // out but by value.
            unsafe { buffer.filled(part) }
        })
    }

    #[inline]
    pub(super) fn into_buffers(self) -> Vec<B> {
        self.buffers
    }
}

/// Number of bytes of `count` that each range got. More than there is room for is told where
/// something was cut off (recvmsg with `MSG_TRUNC`).
#[inline]
fn parts(ranges: &[Range], mut count: usize) -> impl ExactSizeIterator<Item = usize> {
    ranges.iter().map(move |range| {
        let part = count.min(range.length as usize);
        count -= part;
        part
    })
}
