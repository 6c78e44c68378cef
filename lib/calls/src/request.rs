//! One system call as data.

use kumiki_sys::syscall::{self, MAX_ARGS};

/// One system call: its number and its arguments.
///
/// Has the layout of C's `struct parasc_call`, so that the C interface passes it on
/// without a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Request {
    /// Number of the system call, of x86-64's table.
    pub sysnum: u16,
    /// Number of arguments that are given, 0 to 6.
    pub args_num: u16,
    /// The arguments; those from `args_num` on must be 0, as [`new`](Self::new) sets
    /// them.
    pub args: [u64; MAX_ARGS],
}

impl Request {
    /// Call `sysnum` with `args`; more than six do not compile.
    pub fn new<const N: usize>(sysnum: libc::c_long, args: [u64; N]) -> Self {
        const { assert!(N <= MAX_ARGS, "a system call takes at most six arguments") };
        let mut all = [0; MAX_ARGS];
        all[..N].copy_from_slice(&args);
        Request { sysnum: sysnum as u16, args_num: N as u16, args: all }
    }

    /// The call's number and its number of arguments in one word, for comparing.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        u64::from(self.sysnum) | u64::from(self.args_num) << 16
    }
}

/// Makes the call and returns its result or `-errno`.
///
/// # Safety
/// As for [`kumiki_sys::syscall::raw`].
#[inline(always)]
pub unsafe fn call(request: &Request) -> i64 {
    // SAFETY: the caller vouches for this very call.
    unsafe { syscall::raw(usize::from(request.sysnum), request.args) }
}
