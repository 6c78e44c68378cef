//! Memory that a call fills.

use std::mem::MaybeUninit;
use std::slice;

/// Memory that a call may write to.
///
/// # Safety
/// The memory that [`spare`](Self::spare) returns must be valid for writes, and
/// exclusive, as long as the buffer is neither moved, nor dropped, nor otherwise touched;
/// [`filled`](Self::filled) must hold the bytes that were written there.
pub unsafe trait BufferMut {
    /// Memory to be written, and its length in bytes.
    fn spare(&mut self) -> (*mut u8, usize);

    /// Records that the first `count` bytes of [`spare`](Self::spare) were written.
    ///
    /// # Safety
    /// They were written, and `count` is at most the length that `spare` returned.
    unsafe fn advance(&mut self, count: usize);

    /// The `count` bytes of the last [`advance`](Self::advance).
    ///
    /// # Safety
    /// The last `advance` had this `count`, and nothing has changed the buffer since.
    unsafe fn filled(&self, count: usize) -> &[u8];
}

/// Appends to the vector within its spare capacity. A vector without spare capacity takes
/// nothing: a read into it returns 0, as at the end of a file.
// SAFETY: the spare capacity belongs to the vector and does not move with it.
unsafe impl BufferMut for Vec<u8> {
    #[inline]
    fn spare(&mut self) -> (*mut u8, usize) {
        let spare = self.spare_capacity_mut();
        (spare.as_mut_ptr().cast(), spare.len())
    }

    #[inline]
    unsafe fn advance(&mut self, count: usize) {
        // SAFETY: the caller vouches that so many bytes of the spare capacity
        // are initialised.
        unsafe { self.set_len(self.len() + count) };
    }

    #[inline]
    unsafe fn filled(&self, count: usize) -> &[u8] {
        &self[self.len() - count..]
    }
}

/// Buffers of a fixed length, filled from their start each time.
macro_rules! fixed {
    ($buffer:ty: [$byte:ty] $(where $n:ident)?) => {
        // SAFETY: the buffer is the bytes.
        unsafe impl $(<const $n: usize>)? BufferMut for $buffer {
            #[inline]
            fn spare(&mut self) -> (*mut u8, usize) {
                let bytes: &mut [$byte] = &mut self[..];
                (bytes.as_mut_ptr().cast(), bytes.len())
            }

            #[inline]
            unsafe fn advance(&mut self, _: usize) {}

            #[inline]
            unsafe fn filled(&self, count: usize) -> &[u8] {
                let bytes: &[$byte] = &self[..count];
                // SAFETY: the caller vouches that the first `count` bytes are
                // initialised; they are borrowed as long as the result.
                unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), count) }
            }
        }
    };
}

fixed!([u8]: [u8]);
fixed!([MaybeUninit<u8>]: [MaybeUninit<u8>]);
fixed!([u8; N]: [u8] where N);
fixed!([MaybeUninit<u8>; N]: [MaybeUninit<u8>] where N);

/// Buffers reached through a pointer.
macro_rules! through {
    ($pointer:ty) => {
        // SAFETY: the buffer behind it, which nobody else can reach.
        unsafe impl<T: BufferMut + ?Sized> BufferMut for $pointer {
            #[inline]
            fn spare(&mut self) -> (*mut u8, usize) {
                (**self).spare()
            }

            #[inline]
            unsafe fn advance(&mut self, count: usize) {
                // SAFETY: the caller vouches for it.
                unsafe { (**self).advance(count) };
            }

            #[inline]
            unsafe fn filled(&self, count: usize) -> &[u8] {
                // SAFETY: the caller vouches for it.
                unsafe { (**self).filled(count) }
            }
        }
    };
}

through!(&mut T);
through!(Box<T>);

/// A buffer that an operation fills, and how much of it the last call has.
#[derive(Debug)]
pub(super) struct Filling<B> {
    buffer: B,
    filled: usize,
}

impl<B> Filling<B> {
    pub(super) const fn new(buffer: B) -> Self {
        Filling { buffer, filled: 0 }
    }

    #[inline]
    pub(super) fn into_inner(self) -> B {
        self.buffer
    }
}

impl<B: BufferMut> Filling<B> {
    /// Memory for the next call, and its length in bytes. What the last one wrote counts no more.
    #[inline]
    pub(super) fn begin(&mut self) -> (u64, usize) {
        self.filled = 0;
        let (pointer, room) = self.buffer.spare();
        (pointer as u64, room)
    }

    /// Takes note of `count` bytes, or as many as there is room for: some calls tell how
    /// much there would have been (recv with MSG_TRUNC) or what is needed (getxattr with
    /// no room).
    ///
    /// # Safety
    /// These are written where [`begin`](Self::begin) told, or were zeros before.
    #[inline]
    pub(super) unsafe fn end(&mut self, count: usize) {
        let (_, room) = self.buffer.spare();
        self.filled = count.min(room);
        // SAFETY: the caller's promise, and no more than there is room for.
        unsafe { self.buffer.advance(self.filled) };
    }

    /// Bytes that the last call wrote.
    #[inline]
    pub(super) fn filled(&self) -> &[u8] {
        // SAFETY: `end` told of that many, and the buffer is not handed out but by value.
        unsafe { self.buffer.filled(self.filled) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(mut buffer: impl BufferMut, data: &[u8]) -> Vec<u8> {
        let (pointer, room) = buffer.spare();
        let count = data.len().min(room);
        // SAFETY: `spare` tells of `room` bytes to write to.
        unsafe { pointer.copy_from_nonoverlapping(data.as_ptr(), count) };
        // SAFETY: written just now.
        unsafe { buffer.advance(count) };
        // SAFETY: nothing has changed it since.
        unsafe { buffer.filled(count) }.to_vec()
    }

    #[test]
    fn every_kind_of_buffer_gives_back_what_was_written() {
        let data = b"request area";
        assert_eq!(fill(Vec::with_capacity(64), data), data);
        assert_eq!(fill([0; 64], data), data);
        assert_eq!(fill([MaybeUninit::uninit(); 64], data), data);
        assert_eq!(fill(Box::new([0; 64]), data), data);
        assert_eq!(fill(Box::new([MaybeUninit::uninit(); 64]), data), data);
        assert_eq!(fill(vec![0; 64].into_boxed_slice(), data), data);
        assert_eq!(fill(Box::<[u8]>::new_uninit_slice(64), data), data);
        assert_eq!(fill(&mut [0; 64], data), data);
        assert_eq!(fill(&mut [0; 64][..], data), data);
        assert_eq!(fill(&mut [MaybeUninit::uninit(); 64][..], data), data);
        assert_eq!(fill(&mut [0; 4][..], data), data[..4]);
        assert_eq!(fill(&mut [0; 0][..], data), b"");
    }

    #[test]
    fn a_vector_grows_behind_what_it_holds() {
        let mut buffer = Vec::with_capacity(16);
        buffer.extend_from_slice(b"head ");
        assert_eq!(fill(&mut buffer, b"tail"), b"tail");
        assert_eq!(buffer, b"head tail");
        buffer.shrink_to_fit();
        let (_, room) = buffer.spare();
        assert_eq!(room, buffer.capacity() - buffer.len());
    }
}
