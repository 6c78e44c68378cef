//! The functions of `kumiki/shadow.h`, which documents them.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kumiki_copy as copy;

use crate::abi::{Info, Options, method_of};
use crate::failure::{Failure, answer};
use crate::identity::{Thread, inside, is_inside};

/// `struct kumiki_shadow`: a shadow and what C's calls are checked against.
pub struct Shadow {
    owner: Thread,
    /// State, as the owner has seen it last.
    info: Mutex<Info>,
    /// The owner's, while none of its calls is under way.
    shadow: UnsafeCell<kumiki_shadow::Shadow>,
}

impl Shadow {
    fn create(options: &Options, timeout: Duration) -> Result<Shadow, Failure> {
        let shadow = match options.builder()? {
            Some(builder) => builder.create_timeout(timeout)?,
            None => kumiki_shadow::Shadow::inline(),
        };
        let info = Mutex::new(Info::of(shadow.info().as_ref()));
        Ok(Shadow { owner: Thread::current(), info, shadow: UnsafeCell::new(shadow) })
    }
}

fn null(what: &str) -> Failure {
    Failure::invalid(format!("the {what} is a null pointer"))
}

/// The Rust shadow behind a pointer, for one call.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed. The
/// reference is gone before the call returns.
unsafe fn open<'a>(shadow: *mut Shadow) -> Result<&'a mut kumiki_shadow::Shadow, Failure> {
    // SAFETY: the caller's promise. Only `UnsafeCell`'s inside is ever written.
    let this = unsafe { shadow.as_ref() }.ok_or_else(|| null("shadow"))?;
    if is_inside(shadow.addr()) {
        return Err(Failure::new(
            libc::EDEADLK,
            "a function that was forked on a shadow used that same shadow, which is busy with \
             it: use it in the main thread, after the join",
        ));
    }
    if this.owner != Thread::current() {
        return Err(Failure::new(
            libc::EPERM,
            "a shadow was used by another thread than the one that created it: create one in \
             this thread",
        ));
    }
    // SAFETY: calls that pass are the owner's, so one at a time; and one that
    // is under way runs nothing of the caller's that would pass: a forked
    // function is stopped above.
    Ok(unsafe { &mut *this.shadow.get() })
}

/// A pointer that C hands on to its own function in another thread.
struct ForkArgument(*mut c_void);

// SAFETY: it is only handed on. What may be done with it there is for those to
// know who wrote the function, as with pthread_create(3).
unsafe impl Send for ForkArgument {}

/// A function that C may fork. A Rust function of this kind may panic.
pub type Function = unsafe extern "C-unwind" fn(*mut c_void);

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_create(
    shadow: *mut *mut Shadow,
    options: *const Options,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| unsafe { create(shadow, options, Duration::MAX) })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_create_timeout(
    shadow: *mut *mut Shadow,
    options: *const Options,
    timeout_ns: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| unsafe { create(shadow, options, Duration::from_nanos(timeout_ns)) })
}

/// # Safety
/// Pointers are null or valid.
unsafe fn create(
    shadow: *mut *mut Shadow,
    options: *const Options,
    timeout: Duration,
) -> Result<c_int, Failure> {
    if shadow.is_null() {
        return Err(null("place for the shadow"));
    }
    // SAFETY: null or valid, the caller says.
    let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
    let created = Box::into_raw(Box::new(Shadow::create(&options, timeout)?));
    // SAFETY: not null, so valid, the caller says.
    unsafe { shadow.write(created) };
    Ok(0)
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed. `function`
/// may be called with `argument` once, in another thread, until it is joined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_fork(
    shadow: *mut Shadow,
    function: Option<Function>,
    argument: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(shadow) }?;
        let function = function.ok_or_else(|| null("function"))?;
        let (address, argument) = (shadow.addr(), ForkArgument(argument));
        this.fork(move || {
            let ForkArgument(argument) = { argument };
            // SAFETY: the caller of `kumiki_shadow_fork` says so.
            inside(address, || unsafe { function(argument) });
        })?;
        Ok(0)
    })
}

/// Turns a function's end into a join's answer.
fn ended(outcome: std::thread::Result<()>) -> Result<c_int, Failure> {
    outcome.map(|()| 0).map_err(|panic| Failure::panicked("the forked function", &*panic))
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_join(shadow: *mut Shadow) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| ended(unsafe { open(shadow) }?.join()?))
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_join_timeout(shadow: *mut Shadow, timeout_ns: u64) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(shadow) }?;
        match this.join_timeout(Duration::from_nanos(timeout_ns))? {
            Some(outcome) => ended(outcome),
            None => Err(Failure::new(
                libc::ETIMEDOUT,
                format!("the forked function has not ended within {timeout_ns} ns; join it again"),
            )),
        }
    })
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_is_finished(shadow: *mut Shadow) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| Ok(unsafe { open(shadow) }?.is_done().into()))
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed. After a 0 it
/// is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_destroy(shadow: *mut Shadow) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| unsafe { destroy(shadow, Duration::MAX) })
}

/// See the header.
///
/// # Safety
/// As [`kumiki_shadow_destroy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_destroy_timeout(
    shadow: *mut Shadow,
    timeout_ns: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| unsafe { destroy(shadow, Duration::from_nanos(timeout_ns)) })
}

/// # Safety
/// As [`kumiki_shadow_destroy`].
unsafe fn destroy(shadow: *mut Shadow, timeout: Duration) -> Result<c_int, Failure> {
    if shadow.is_null() {
        return Ok(0);
    }
    // SAFETY: the caller's promise.
    if unsafe { open(shadow) }?.is_busy() {
        let text = "a shadow with a function that was not joined: join it, then destroy";
        return Err(Failure::new(libc::EBUSY, text));
    }
    // SAFETY: `kumiki_shadow_create` made it from a box, and this is its last call.
    let this = unsafe { Box::from_raw(shadow) };
    // It hands back a shadow with a job only, and there is none.
    let _ = this.shadow.into_inner().destroy_timeout(timeout);
    Ok(0)
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed; `info` is
/// null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_info(shadow: *const Shadow, info: *mut Info) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise; what is read here never changes, or is locked.
        let this = unsafe { shadow.as_ref() }.ok_or_else(|| null("shadow"))?;
        if info.is_null() {
            return Err(null("place for the information"));
        }
        let mut last = this.info.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise. Only the owner gets it, outside of its functions.
        if let Ok(open) = unsafe { open(shadow.cast_mut()) } {
            *last = Info::of(open.info().as_ref());
        }
        // SAFETY: not null, so valid, the caller says.
        unsafe { info.write(*last) };
        Ok(0)
    })
}

/// A shadow whose helper is at nothing.
fn free(shadow: &kumiki_shadow::Shadow) -> Result<(), Failure> {
    match shadow.is_busy() {
        true => Err(kumiki_shadow::Error::Busy.into()),
        false => Ok(()),
    }
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_copy_prepare(shadow: *mut Shadow) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(shadow) }?;
        free(this)?;
        copy::prepare(this);
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_copy_prepare_timeout(
    shadow: *mut Shadow,
    timeout_ns: u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(shadow) }?;
        free(this)?;
        copy::prepare_timeout(this, Duration::from_nanos(timeout_ns))?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `shadow` is null, or from [`kumiki_shadow_create`] and not destroyed. The memory is
/// as for `memcpy`, except that null pointers and overlaps are noticed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_copy(
    shadow: *mut Shadow,
    to: *mut c_void,
    from: *const c_void,
    length: usize,
    method: c_uint,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(shadow) }?;
        let method = method_of(method)?;
        free(this)?;
        // SAFETY: the caller's promise.
        unsafe { copy::copy_raw(this, to.cast(), from.cast(), length, method) }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// As for [`kumiki_shadow_copy`]; `copied` is null, or a number can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_shadow_copy_timeout(
    shadow: *mut Shadow,
    to: *mut c_void,
    from: *const c_void,
    length: usize,
    method: c_uint,
    timeout_ns: u64,
    copied: *mut usize,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(shadow) }?;
        let method = method_of(method)?;
        free(this)?;
        let timeout = Duration::from_nanos(timeout_ns);
        let (to, from) = (to.cast(), from.cast());
        // SAFETY: the caller's promise.
        let result = unsafe { copy::copy_raw_timeout(this, to, from, length, method, timeout) };
        let done = match &result {
            Ok(()) => Some(length),
            Err(copy::Error::TimedOut { done, .. }) => Some(*done),
            Err(_) => None,
        };
        // SAFETY: the caller's promise.
        if let (Some(copied), Some(done)) = (unsafe { copied.as_mut() }, done) {
            *copied = done;
        }
        result?;
        Ok(0)
    })
}
