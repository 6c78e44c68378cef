//! Any system call, by number.

use super::Operation;
use crate::request::Request;

/// A system call with any arguments, made by [`raw`]; gives what the kernel
/// returned, a result or `-errno`.
#[derive(Clone, Debug)]
pub struct Raw {
    request: Request,
}

/// System call `sysnum` with these arguments; more than six do not compile.
///
/// ```
/// use kumiki_calls::op::{self, Operation};
///
/// // SAFETY: umask has no pointers; the process shares its mask anyway.
/// let mut umask = unsafe { op::raw(libc::SYS_umask as u16, [0o022]) };
/// assert_eq!(umask.request().args_num, 1);
/// ```
///
/// # Safety
/// The arguments are what the call expects; every pointer among them stays valid
/// for what the kernel reads and writes through it until the call is complete,
/// wherever the operation is by then; and the call does no harm that safe code
/// could not do, on whichever thread it is made.
#[inline]
pub unsafe fn raw<const N: usize>(sysnum: u16, args: [u64; N]) -> Raw {
    Raw { request: Request::new(sysnum as libc::c_long, args) }
}

impl Raw {
    /// The call of `request`.
    ///
    /// # Safety
    /// As for [`raw`].
    #[inline]
    pub const unsafe fn of(request: Request) -> Raw {
        Raw { request }
    }
}

// SAFETY: whoever made it vouched for it.
unsafe impl Operation for Raw {
    type Output = i64;

    #[inline]
    fn request(&mut self) -> Request {
        self.request
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> i64 {
        ret_val
    }
}
