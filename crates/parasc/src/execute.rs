//! Making the call that a slot asks for.

use kumiki_sys::syscall::{self, MAX_ARGS};

use crate::allow::AllowList;
use crate::callset::{CallSet, NUMBERS};
use crate::refusal::{Refusal, RefusalKind, is_suspect, refusal_of};
use crate::request::Request;
use crate::slot::Slot;

/// Which calls may be made at all.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Calls that may be made with whatever arguments: nearly all.
    free: CallSet,
    allow: Option<AllowList>,
    wrong_thread_answers: bool,
}

/// Why a call may not be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Denied {
    Refused(&'static Refusal),
    NotAllowed,
    TooManyArguments,
}

impl Denied {
    /// What a slot with such a call is answered.
    fn errno(self) -> i32 {
        match self {
            Denied::Refused(_) | Denied::NotAllowed => libc::EPERM,
            Denied::TooManyArguments => libc::EINVAL,
        }
    }
}

impl Rules {
    pub(crate) fn new(allow: Option<AllowList>, wrong_thread_answers: bool) -> Self {
        let mut free = CallSet::EMPTY;
        for sysnum in 0..NUMBERS as u16 {
            if !is_suspect(sysnum) && allow.is_none_or(|list| list.contains(sysnum)) {
                free = free.with(sysnum);
            }
        }
        Rules { free, allow, wrong_thread_answers }
    }

    /// Whether the call may be made.
    #[inline(always)]
    pub(crate) fn check(&self, request: &Request) -> Result<(), Denied> {
        if self.is_free(request) { Ok(()) } else { self.look_closer(request) }
    }

    /// Whether the call may be made, whatever its arguments.
    #[inline(always)]
    pub(crate) fn is_free(&self, request: &Request) -> bool {
        let free = self.free.get(request.sysnum) == Some(true);
        free && usize::from(request.args_num) <= MAX_ARGS
    }

    /// Judges all arguments: all are passed, and one that should not count may.
    #[cold]
    fn look_closer(&self, request: &Request) -> Result<(), Denied> {
        if usize::from(request.args_num) > MAX_ARGS {
            return Err(Denied::TooManyArguments);
        }
        if let Some(refusal) = refusal_of(request.sysnum, MAX_ARGS as u16, &request.args)
            && !(self.wrong_thread_answers && refusal.kind == RefusalKind::AnswersForWrongThread)
        {
            return Err(Denied::Refused(refusal));
        }
        match &self.allow {
            Some(list) if !list.contains(request.sysnum) => Err(Denied::NotAllowed),
            _ => Ok(()),
        }
    }
}

/// What a request that may not be made is answered.
pub(crate) fn answer(denied: Denied) -> i64 {
    -i64::from(denied.errno())
}

/// Makes the call of `slot`, which the caller has taken, and gives its result.
///
/// The rules are checked on what has been read from the slot, not on the slot:
/// nobody changes it in between.
///
/// # Safety
/// Who published the request vouches for the call: see
/// [`kumiki_sys::syscall::raw`].
#[inline(always)]
pub(crate) unsafe fn execute(slot: &Slot, rules: &Rules) {
    let request = slot.taken();
    let ret_val = match rules.check(&request) {
        // SAFETY: the caller passes on the promise of who published it.
        Ok(()) => unsafe { call(&request) },
        Err(denied) => answer(denied),
    };
    slot.finish(ret_val);
}

/// Makes the call and returns its result or `-errno`.
///
/// # Safety
/// As for [`kumiki_sys::syscall::raw`].
#[inline(always)]
pub(crate) unsafe fn call(request: &Request) -> i64 {
    // SAFETY: the caller vouches for this very call.
    unsafe { syscall::raw(usize::from(request.sysnum), request.args) }
}

/// Makes the calls, one after the other.
///
/// A function of its own, so that all of the loop is in registers: a call that empties
/// the TLB, as munmap does, makes each page that is used between two calls be looked up
/// anew, and where the stack was one of them a mapping took a tenth longer in a guest.
///
/// # Safety
/// As for [`Requester::run_raw`](crate::Requester::run_raw).
#[inline(never)]
pub(crate) unsafe fn plain(requests: &[Request], results: &mut [i64]) {
    for (request, result) in requests.iter().zip(results) {
        // SAFETY: the caller vouches for the call.
        *result = unsafe { call(request) };
    }
}
