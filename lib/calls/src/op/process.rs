//! This process and others.

use rustix::io::Errno;
use rustix::process::Pid;

use super::buffer::Filling;
use super::output::typed;
use super::ranges::Range;
use super::{BufferMut, Operation};
use crate::request::Request;

operation! {
    /// getppid(2): the parent process; 0 where that is in another pid namespace.
    pub struct Getppid {}
    |_op| Request::new(libc::SYS_getppid, []) => i32
}

/// process_vm_readv(2), one range: reads memory of a process; gives the number of
/// bytes.
#[derive(Debug)]
pub struct ProcessVmReadv<B> {
    pid: Pid,
    remote: Range,
    local: Range,
    buffer: Filling<B>,
}

impl<B: BufferMut> ProcessVmReadv<B> {
    /// The call that fills the buffer from `address` in process `pid` on.
    ///
    /// # Safety
    /// Where the process is this one, nobody writes to the memory meanwhile, and
    /// it is initialised.
    #[inline]
    pub const unsafe fn new(pid: Pid, address: u64, buffer: B) -> Self {
        let remote = Range { address, length: 0 };
        let local = Range { address: 0, length: 0 };
        ProcessVmReadv { pid, remote, local, buffer: Filling::new(buffer) }
    }

    /// Bytes that the last call read.
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

// SAFETY: the kernel writes to the buffer's own memory and reads two struct iovec,
// the fields of that layout; for what it reads from the constructor's caller
// vouches.
unsafe impl<B: BufferMut> Operation for ProcessVmReadv<B> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let (address, room) = self.buffer.begin();
        self.local = Range { address, length: room as u64 };
        self.remote.length = self.local.length;
        Request::new(libc::SYS_process_vm_readv, ranges(self.pid, &self.local, &self.remote))
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: any number is a count.
        let count: usize = unsafe { typed(ret_val) }?;
        // SAFETY: the kernel wrote so many bytes, as many as there is room for.
        unsafe { self.buffer.end(count) };
        Ok(count)
    }
}

/// process_vm_writev(2), one range: writes memory of a process; gives the number
/// of bytes.
#[derive(Debug)]
pub struct ProcessVmWritev<B> {
    pid: Pid,
    remote: Range,
    local: Range,
    data: B,
}

impl<B: AsRef<[u8]>> ProcessVmWritev<B> {
    /// The call that writes the data from `address` in process `pid` on.
    ///
    /// # Safety
    /// Whose memory it is expects that.
    #[inline]
    pub const unsafe fn new(pid: Pid, address: u64, data: B) -> Self {
        let remote = Range { address, length: 0 };
        ProcessVmWritev { pid, remote, local: Range { address: 0, length: 0 }, data }
    }
}

// SAFETY: the kernel reads the data and two struct iovec, the fields of that
// layout; for what it writes to the constructor's caller vouches.
unsafe impl<B: AsRef<[u8]>> Operation for ProcessVmWritev<B> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        self.local = Range::of(&self.data);
        self.remote.length = self.local.length;
        Request::new(libc::SYS_process_vm_writev, ranges(self.pid, &self.local, &self.remote))
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: any number is a count.
        unsafe { typed(ret_val) }
    }
}

/// The arguments of both calls.
#[inline]
fn ranges(pid: Pid, local: &Range, remote: &Range) -> [u64; 6] {
    let pid = pid.as_raw_nonzero().get() as u64;
    [pid, &raw const *local as u64, 1, &raw const *remote as u64, 1, 0]
}
