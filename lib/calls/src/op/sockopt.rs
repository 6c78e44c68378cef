//! Options of sockets, as bytes.

use std::os::fd::AsFd;

use kumiki_sys::syscall;
use rustix::io::Errno;

use super::buffer::Filling;
use super::output::descriptor;
use super::{BufferMut, Operation};
use crate::request::Request;

operation! {
    /// setsockopt(2): sets an option; `level` and `option` are `libc::SOL_*` and
    /// `libc::SO_*` or their like.
    pub struct Setsockopt<F: AsFd, B: AsRef<[u8]>> {
        socket: F,
        level: i32,
        option: i32,
        value: B,
    }
    |op| {
        let value = op.value.as_ref();
        Request::new(
            libc::SYS_setsockopt,
            [
                descriptor(&op.socket),
                op.level as u64,
                op.option as u64,
                value.as_ptr() as u64,
                value.len() as u64,
            ],
        )
    } => ();
    /// # Safety
    /// If the value of this option holds addresses (`SO_ATTACH_FILTER`), they are
    /// valid for what the kernel does with them until the call is complete.
    unsafe
}

/// getsockopt(2): an option's value; gives its length in bytes.
#[derive(Debug)]
pub struct Getsockopt<F, B> {
    socket: F,
    level: i32,
    option: i32,
    buffer: Filling<B>,
    length: u32,
}

impl<F: AsFd, B: BufferMut> Getsockopt<F, B> {
    /// The call with these arguments, to be made; `level` and `option` as for
    /// [`Setsockopt`].
    ///
    /// # Safety
    /// If the kernel reads addresses from the buffer for this option
    /// (`TCP_ZEROCOPY_RECEIVE`), they are valid for what it does with them until
    /// the call is complete. It writes as many bytes as it tells, and never more
    /// than the length it was given: `SO_GET_FILTER` takes that for a number of
    /// instructions, eight bytes each, and writes beyond the buffer.
    #[inline]
    pub const unsafe fn new(socket: F, level: i32, option: i32, buffer: B) -> Self {
        Getsockopt { socket, level, option, buffer: Filling::new(buffer), length: 0 }
    }

    /// Bytes that the last call wrote.
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

// SAFETY: the kernel writes to the buffer's own memory and to the field with its
// length; for the rest the constructor's caller vouches.
unsafe impl<F: AsFd, B: BufferMut> Operation for Getsockopt<F, B> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let (pointer, room) = self.buffer.begin();
        self.length = room.try_into().unwrap_or(i32::MAX as u32);
        Request::new(
            libc::SYS_getsockopt,
            [
                descriptor(&self.socket),
                self.level as u64,
                self.option as u64,
                pointer,
                &raw mut self.length as u64,
            ],
        )
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        syscall::result(ret_val)?;
        // SAFETY: the kernel wrote so many bytes, as many as there is room for
        // (the constructor's caller vouches for it).
        unsafe { self.buffer.end(self.length as usize) };
        Ok(self.length as usize)
    }
}
