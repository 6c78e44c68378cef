//! Which calls may be made for another thread: refusals and an allow-list as one check.

use kumiki_sys::syscall::MAX_ARGS;

use crate::allow::AllowList;
use crate::callset::{CallSet, NUMBERS};
use crate::reason::{Refusal, RefusalKind};
use crate::refusal::{is_suspect, refusal_of};
use crate::request::Request;

/// The rules by which a call may be made.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Calls that may be made with any arguments: nearly all.
    free: CallSet,
    allow: Option<AllowList>,
    wrong_thread_answers: bool,
}

/// Reason for which a call may not be made.
#[derive(Clone, Copy, Debug)]
pub enum Denied {
    /// Another thread must not make it.
    Refused(&'static Refusal),
    /// The allow-list lacks it.
    NotAllowed,
    /// The request has more arguments than a system call can have.
    TooManyArguments,
}

impl Denied {
    /// Value that a denied call returns in the kernel's place: `-errno`.
    pub fn ret_val(self) -> i64 {
        let errno = match self {
            Denied::Refused(_) | Denied::NotAllowed => libc::EPERM,
            Denied::TooManyArguments => libc::EINVAL,
        };
        -i64::from(errno)
    }
}

impl Rules {
    /// The calls of `allow`, or all, without those that another thread must not make.
    /// With `wrong_thread_answers` calls of [`RefusalKind::AnswersForWrongThread`] are
    /// made all the same.
    pub fn new(allow: Option<AllowList>, wrong_thread_answers: bool) -> Self {
        let mut free = CallSet::EMPTY;
        for sysnum in 0..NUMBERS as u16 {
            if !is_suspect(sysnum) && allow.is_none_or(|list| list.contains(sysnum)) {
                free = free.with(sysnum);
            }
        }
        Rules { free, allow, wrong_thread_answers }
    }

    /// Checks that the call may be made.
    ///
    /// # Errors
    /// Why it may not.
    #[inline(always)]
    pub fn check(&self, request: &Request) -> Result<(), Denied> {
        if self.is_free(request) { Ok(()) } else { self.look_closer(request) }
    }

    /// True if the call may be made, whatever its arguments.
    #[inline(always)]
    pub fn is_free(&self, request: &Request) -> bool {
        let free = self.free.get(request.sysnum) == Some(true);
        free && usize::from(request.args_num) <= MAX_ARGS
    }

    /// Judges all six arguments, since all six are passed, also those beyond `args_num`.
    #[cold]
    fn look_closer(&self, request: &Request) -> Result<(), Denied> {
        if usize::from(request.args_num) > MAX_ARGS {
            return Err(Denied::TooManyArguments);
        }
        if let Some(refusal) = refusal_of(request.sysnum, MAX_ARGS as u16, &request.args) {
            if !(self.wrong_thread_answers && refusal.kind == RefusalKind::AnswersForWrongThread) {
                return Err(Denied::Refused(refusal));
            }
        }
        match &self.allow {
            Some(list) if !list.contains(request.sysnum) => Err(Denied::NotAllowed),
            _ => Ok(()),
        }
    }
}
