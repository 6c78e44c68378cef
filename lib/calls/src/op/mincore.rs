//! Which pages are in memory.

use kumiki_sys::syscall;
use rustix::io::Errno;

use super::buffer::Filling;
use super::{BufferMut, Operation};
use crate::request::Request;

/// Page size of x86-64, whose kernels have no other.
const PAGE_BYTES: usize = 4096;

/// mincore(2): tells which pages are in memory, for each a byte whose lowest bit
/// says it; gives the number of pages. `ENOMEM` where nothing is mapped.
///
/// All pages of a file that the process neither owns nor may write to are told to
/// be in memory.
#[derive(Debug)]
pub struct Mincore<B> {
    address: usize,
    length: usize,
    buffer: Filling<B>,
    pages: usize,
}

impl<B: BufferMut> Mincore<B> {
    /// The call for `length` bytes from the start of a page, as far as the buffer
    /// has room for their pages.
    #[inline]
    pub const fn new(address: usize, length: usize, buffer: B) -> Self {
        Mincore { address, length, buffer: Filling::new(buffer), pages: 0 }
    }

    /// A byte for each page of the last call.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        self.buffer.filled()
    }

    /// The buffer.
    #[inline]
    pub fn into_buffer(self) -> B {
        self.buffer.into_inner()
    }
}

// SAFETY: the kernel writes a byte for each page to the buffer's own memory, no
// more than it has room for.
unsafe impl<B: BufferMut> Operation for Mincore<B> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let (pointer, room) = self.buffer.begin();
        self.pages = room.min(self.length.div_ceil(PAGE_BYTES));
        let length = self.length.min(self.pages.saturating_mul(PAGE_BYTES));
        Request::new(libc::SYS_mincore, [self.address as u64, length as u64, pointer])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        syscall::result(ret_val)?;
        // SAFETY: the kernel wrote all of them, as many as there is room for.
        unsafe { self.buffer.end(self.pages) };
        Ok(self.pages)
    }
}
