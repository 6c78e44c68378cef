//! The functions of `kumiki/parasc.h`, which documents them.

use std::ffi::{CString, c_char, c_int, c_long, c_uint};
use std::os::fd::AsRawFd;
use std::panic::catch_unwind;
use std::ptr::null;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kumiki_parasc::op::Raw;
use kumiki_parasc::tries::{NotMade, attempt};
use kumiki_parasc::{Refusal, Request, refusal, refusals};
use kumiki_sys::syscall::MAX_ARGS;

use crate::failure::{Failure, answer, answer_all};
use crate::identity::Thread;
use crate::parasc_abi::ParascConfig;

/// `struct kumiki_parasc_engine`. C holds one count of an `Arc`, and each of its calls
/// that may take long another: destroying the engine ends such a call, and does
/// not take the engine away from it.
pub struct Engine(kumiki_parasc::Engine);

/// `struct kumiki_parasc_requester`.
pub struct Requester {
    owner: Thread,
    /// True if it makes single calls itself.
    helps: bool,
    requester: kumiki_parasc::Requester,
}

fn null_pointer(what: &str) -> Failure {
    Failure::invalid(format!("the {what} is a null pointer"))
}

/// The engine behind a pointer, for one short call.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed before the
/// reference is gone.
unsafe fn borrow<'a>(engine: *const Engine) -> Result<&'a kumiki_parasc::Engine, Failure> {
    // SAFETY: the caller's promise.
    let this = unsafe { engine.as_ref() }.ok_or_else(|| null_pointer("engine"))?;
    Ok(&this.0)
}

/// Borrows the engine for a call during which it may be destroyed.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed yet.
unsafe fn hold(engine: *const Engine) -> Result<Arc<Engine>, Failure> {
    if engine.is_null() {
        return Err(null_pointer("engine"));
    }
    // SAFETY: `kumiki_parasc_create` got it from an `Arc`, and C's count is there still.
    unsafe { Arc::increment_strong_count(engine) };
    // SAFETY: the count was made just now, for this.
    Ok(unsafe { Arc::from_raw(engine) })
}

/// The request that a caller names.
///
/// # Safety
/// `args` has `args_num` arguments.
unsafe fn request(sysnum: c_long, args_num: c_uint, args: *const u64) -> Result<Request, Failure> {
    let sysnum = u16::try_from(sysnum).map_err(|_| {
        Failure::invalid(format!("{sysnum} is not the number of a system call: take 0 to 65535"))
    })?;
    let count = args_num as usize;
    if count > MAX_ARGS {
        return Err(Failure::invalid(format!(
            "{count} arguments, and a system call takes at most {MAX_ARGS}"
        )));
    }
    if args.is_null() && count > 0 {
        return Err(null_pointer("list of arguments"));
    }
    let mut request = Request { sysnum, args_num: count as u16, ..Request::default() };
    if count > 0 {
        // SAFETY: not null, and so many, the caller says.
        let args = unsafe { std::slice::from_raw_parts(args, count) };
        request.args[..count].copy_from_slice(args);
    }
    Ok(request)
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid, the configuration's too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_create(
    engine: *mut *const Engine,
    config: *const ParascConfig,
) -> c_int {
    answer_all(|| {
        if engine.is_null() {
            return Err(null_pointer("place for the engine"));
        }
        // SAFETY: null or valid, the caller says.
        let config = unsafe { config.as_ref() }.copied().unwrap_or_default();
        // SAFETY: the same holds for the list in it.
        let config = unsafe { config.config() }?;
        let created = Arc::new(Engine(kumiki_parasc::Engine::new(&config)?));
        // SAFETY: not null, so valid, the caller says.
        unsafe { engine.write(Arc::into_raw(created)) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed; no call that
/// uses it begins from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_destroy(engine: *const Engine) -> c_int {
    answer_all(|| {
        if engine.is_null() {
            return Ok(0);
        }
        // SAFETY: it is C's count, and C gives it up.
        let engine = unsafe { Arc::from_raw(engine) };
        // Others may hold it for a while: they are to release it.
        engine.0.shut_down_timeout(Duration::ZERO);
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_terminate(engine: *const Engine) -> c_int {
    answer_all(|| {
        // SAFETY: the caller's promise.
        unsafe { borrow(engine) }?.shut_down_timeout(Duration::ZERO);
        Ok(0)
    })
}

/// See the header. Unlike the others it lets an unwinding through, that of
/// pthread_cancel(3); a panic ends the program.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed before it has
/// been called.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn kumiki_parasc_proc(engine: *const Engine) -> c_int {
    struct NoPanic;
    impl Drop for NoPanic {
        fn drop(&mut self) {
            // A cancellation is no panic.
            if std::thread::panicking() {
                std::process::abort();
            }
        }
    }

    let mut held = None;
    let error = answer(|| {
        // SAFETY: the caller's promise.
        held = Some(unsafe { hold(engine) }?);
        Ok(0)
    });
    let Some(held) = held else { return error };
    let _no_panic = NoPanic;
    held.0.process();
    // It may be the last who has it: that ends the engine.
    answer_all(|| {
        drop(held);
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_wake_up(engine: *const Engine) -> c_int {
    answer_all(|| {
        // SAFETY: the caller's promise.
        unsafe { borrow(engine) }?.wake_up();
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed before it has
/// been called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_wait(
    engine: *const Engine,
    min_complete: usize,
    timeout_ns: u64,
) -> c_int {
    answer_all(|| {
        // SAFETY: the caller's promise.
        let held = unsafe { hold(engine) }?;
        let slots = held.0.open_slots();
        if min_complete > slots {
            return Err(Failure::invalid(format!(
                "a wait for {min_complete} results, and the area has room for {slots}: wait for \
                 fewer, or have more slots (struct kumiki_parasc_config)"
            )));
        }
        let complete = match timeout_ns {
            u64::MAX => held.0.wait(min_complete),
            timeout_ns => held.0.wait_timeout(min_complete, Duration::from_nanos(timeout_ns)),
        };
        // At most twice 4096.
        Ok(c_int::try_from(complete).unwrap_or(c_int::MAX))
    })
}

/// See the header.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed; `args` has
/// `args_num` arguments; `ticket` is null or valid. The call is one that may be
/// made, and what its arguments point to stays until it is collected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_request(
    engine: *const Engine,
    sysnum: c_long,
    args_num: c_uint,
    args: *const u64,
    ticket: *mut u64,
) -> c_int {
    answer_all(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { borrow(engine) }?;
        if ticket.is_null() {
            return Err(null_pointer("place for the ticket"));
        }
        // SAFETY: the caller's promise.
        let request = unsafe { request(sysnum, args_num, args) }?;
        // SAFETY: the caller vouches for the call.
        let placed = unsafe { engine.place(request) }?;
        // SAFETY: not null, so valid, the caller says.
        unsafe { ticket.write(placed.into_number()) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_completion_fd(engine: *const Engine) -> c_int {
    answer_all(|| {
        // SAFETY: the caller's promise.
        Ok(unsafe { borrow(engine) }?.completion_descriptor()?.as_raw_fd())
    })
}

/// See the header.
///
/// # Safety
/// `args` has `args_num` arguments, which are those of the call; `ret_val` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_try(
    sysnum: c_long,
    args_num: c_uint,
    args: *const u64,
    ret_val: *mut i64,
) -> c_int {
    answer(|| {
        if ret_val.is_null() {
            return Err(null_pointer("place for the result"));
        }
        // SAFETY: the caller's promise.
        let request = unsafe { request(sysnum, args_num, args) }?;
        // SAFETY: the caller vouches for the call.
        let mut call = unsafe { Raw::of(request) };
        let made = match attempt(&mut call) {
            Ok(made) => made,
            Err(NotMade::Cannot(cannot)) => {
                return Err(Failure::new(libc::ENOTSUP, cannot));
            }
            Err(_) => return Ok(0),
        };
        // SAFETY: not null, so valid, the caller says.
        unsafe { ret_val.write(made) };
        Ok(1)
    })
}

/// See the header.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed; `ret_val` is
/// null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_collect(
    engine: *const Engine,
    ticket: u64,
    ret_val: *mut i64,
) -> c_int {
    answer_all(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { borrow(engine) }?;
        if ret_val.is_null() {
            return Err(null_pointer("place for the result"));
        }
        let Some(result) = engine.collect_by_number(ticket)? else { return Ok(0) };
        // SAFETY: not null, so valid, the caller says.
        unsafe { ret_val.write(result) };
        Ok(1)
    })
}

/// See the header.
///
/// # Safety
/// `engine` is null, or from [`kumiki_parasc_create`] and not destroyed; `requester`
/// is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_requester_create(
    engine: *const Engine,
    requester: *mut *mut Requester,
) -> c_int {
    answer_all(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { borrow(engine) }?;
        if requester.is_null() {
            return Err(null_pointer("place for the requester"));
        }
        let created = engine.requester()?;
        let (owner, helps) = (Thread::current(), created.helps());
        let created = Requester { owner, helps, requester: created };
        // SAFETY: not null, so valid, the caller says.
        unsafe { requester.write(Box::into_raw(Box::new(created))) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `requester` is null, or from [`kumiki_parasc_requester_create`] and not destroyed;
/// no call of it is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_requester_destroy(requester: *mut Requester) -> c_int {
    answer_all(|| {
        if !requester.is_null() {
            // SAFETY: it was made from a box, and this is its end.
            drop(unsafe { Box::from_raw(requester) });
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `requester` is null, or from [`kumiki_parasc_requester_create`] and not destroyed;
/// `calls` and `ret_vals` have `n` elements each, apart from each other, and
/// the calls may be made in any order, by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_parasc_run(
    requester: *mut Requester,
    calls: *const Request,
    ret_vals: *mut i64,
    n: usize,
) -> c_int {
    // SAFETY: the caller's promise. What is read here, by whichever thread, is never
    // written; only the owner goes on.
    let known = unsafe { requester.as_ref() }.map(|this| (this.owner, this.helps));
    let run = || {
        let (owner, _) = known.ok_or_else(|| null_pointer("requester"))?;
        if owner != Thread::current() {
            return Err(Failure::new(
                libc::EPERM,
                "a requester was used by another thread than the one that created it: create one \
                 in this thread",
            ));
        }
        if n == 0 {
            return Ok(0);
        }
        if calls.is_null() || ret_vals.is_null() {
            return Err(null_pointer(if calls.is_null() { "batch" } else { "place for results" }));
        }
        if n > isize::MAX as usize / size_of::<Request>() {
            return Err(Failure::invalid(format!("{n} calls, more than an address space holds")));
        }
        // SAFETY: not null, and so many, the caller says.
        let calls = unsafe { std::slice::from_raw_parts(calls, n) };
        // SAFETY: as above, and apart from the calls.
        let ret_vals = unsafe { std::slice::from_raw_parts_mut(ret_vals, n) };
        // SAFETY: the owner's calls come one at a time, and run nothing of its own.
        let requester = unsafe { &mut (*requester).requester };
        // SAFETY: the caller vouches for the calls.
        unsafe { requester.run_raw(calls, ret_vals) }?;
        Ok(0)
    };
    // One call is made at once, where nothing could be cancelled half way; unless
    // it is left to others, who may have to be looked for.
    let at_once = n == 1 && known.is_some_and(|(_, helps)| helps);
    if at_once { answer(run) } else { answer_all(run) }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn kumiki_parasc_refusal(sysnum: c_long) -> *const c_char {
    type Text = (&'static Refusal, CString);
    static TEXTS: OnceLock<Vec<Text>> = OnceLock::new();
    let make = || {
        let text = |refusal: &'static Refusal| {
            (refusal, CString::new(refusal.to_string()).unwrap_or_default())
        };
        refusals().map(text).collect()
    };
    catch_unwind(|| {
        let refusal = refusal(u16::try_from(sysnum).ok()?)?;
        let texts = match TEXTS.get() {
            Some(texts) => texts,
            // Made before: a child of fork(2) would wait for ever for a thread that
            // was at it.
            None => TEXTS.get_or_init({
                let texts = make();
                || texts
            }),
        };
        let (_, text) = texts.iter().find(|(of, _)| *of == refusal)?;
        Some(text.as_ptr())
    })
    .ok()
    .flatten()
    .unwrap_or(null())
}
