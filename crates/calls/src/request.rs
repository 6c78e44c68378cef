//! One system call as data.

use kumiki_sys::syscall::{self, MAX_ARGS};

/// What a call contends on in the kernel: two calls on one place wait for each other
/// there (reads through one open file description for its position, changes in one
/// directory for its lock), and running them in parallel makes them slower, not faster.
///
/// Any number that differs between places; equal numbers mean one place. It affects speed
/// only, never what is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Place(pub u64);

impl Place {
    /// No place is known.
    pub const NONE: Place = Place(0);
}

/// One system call: its number, its arguments, what it contends on.
///
/// Has the layout of C's `struct parasc_call`, so that the C interface passes it on
/// without a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Request {
    /// Number of the system call, of x86-64's table.
    pub sysnum: u16,
    /// How many arguments are given, 0 to 6.
    pub args_num: u16,
    /// The arguments; those from `args_num` on must be 0, as [`new`](Self::new) sets
    /// them.
    pub args: [u64; MAX_ARGS],
    /// What the call contends on.
    pub place: Place,
}

impl Request {
    /// Call `sysnum` with `args`; more than six do not compile.
    pub fn new<const N: usize>(sysnum: libc::c_long, args: [u64; N]) -> Self {
        const { assert!(N <= MAX_ARGS, "a system call takes at most six arguments") };
        let mut all = [0; MAX_ARGS];
        all[..N].copy_from_slice(&args);
        Request { sysnum: sysnum as u16, args_num: N as u16, args: all, place: Place::NONE }
    }

    /// The call's number and its number of arguments in one word, for comparing.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        u64::from(self.sysnum) | u64::from(self.args_num) << 16
    }

    /// The same call, declared to contend on `place`.
    #[must_use]
    pub fn at(self, place: Place) -> Self {
        Request { place, ..self }
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
