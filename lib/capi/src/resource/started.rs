//! Calls on objects that are waited for a while, or later, or not at all.

use std::ffi::{c_int, c_void};

use kumiki_resource::desk::Error as Request;
use kumiki_resource::{Answer, Error};

use super::handle::Resource;
use super::manager::limit;
use super::object::{Argument, Called, Object};
use super::{ResourceInterface, hand_out, null, open};
use crate::failure::{Failure, answer};

/// `struct kumiki_resource_answer`.
pub struct ResourceAnswer(Answer<()>);

/// A call of C's function by the owner of the object.
///
/// # Safety
/// `function` may be called once by the owner with the object and `argument`, whenever that is.
unsafe fn work(
    function: Option<Called>,
    argument: *mut c_void,
) -> Result<impl FnOnce(&mut Object, &mut ()) + Send + 'static, Failure> {
    let function = function.ok_or_else(|| null("function"))?;
    let argument = Argument(argument);
    Ok(move |object: &mut Object, (): &mut ()| {
        let (Argument(argument), object) = ({ argument }, object.object);
        // SAFETY: the caller's promise.
        unsafe { function(object, argument) };
    })
}

/// See the header.
///
/// # Safety
/// As of `kumiki_resource_call`; if it goes on, until it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_call_timed(
    interface: *const ResourceInterface,
    resource: *const Resource,
    function: Option<Called>,
    argument: *mut c_void,
    timeout_ns: u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<Object>()?;
        // SAFETY: the caller's promise.
        let work = unsafe { work(function, argument) }?;
        match this.with_timeout(handle, limit(timeout_ns), work) {
            Ok(()) => Ok(0),
            Err(error) if goes_on(&error) => Err(Failure::new(libc::EINPROGRESS, error)),
            Err(error) => Err(error.into()),
        }
    })
}

fn goes_on(error: &Error) -> bool {
    matches!(error, Error::Manager { source: Request::TimedOut { begun: true }, .. })
}

/// See the header.
///
/// # Safety
/// As of `kumiki_resource_call`, until it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_start(
    interface: *const ResourceInterface,
    resource: *const Resource,
    function: Option<Called>,
    argument: *mut c_void,
    started: *mut *mut ResourceAnswer,
) -> c_int {
    answer(|| {
        if started.is_null() {
            return Err(null("place for the answer"));
        }
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<Object>()?;
        // SAFETY: the caller's promise.
        let work = unsafe { work(function, argument) }?;
        let begun = this.start(handle, work)?;
        // SAFETY: not null, so valid, the caller says.
        Ok(unsafe { hand_out(started, ResourceAnswer(begun)) })
    })
}

/// # Safety
/// `started` is null, or from [`kumiki_resource_start`], and this is its last use.
unsafe fn taken(started: *mut ResourceAnswer) -> Result<Answer<()>, Failure> {
    if started.is_null() {
        return Err(null("answer"));
    }
    // SAFETY: the caller's promise; it was made so.
    Ok(unsafe { Box::from_raw(started) }.0)
}

/// See the header.
///
/// # Safety
/// `started` is null, or from [`kumiki_resource_start`] and not taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_answer_is_done(started: *const ResourceAnswer) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let started = unsafe { started.as_ref() }.ok_or_else(|| null("answer"))?;
        Ok(started.0.is_done().into())
    })
}

/// See the header.
///
/// # Safety
/// `started` is null, or from [`kumiki_resource_start`] and not taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_answer_wait(started: *mut ResourceAnswer) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        unsafe { taken(started) }?.wait()?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `started` is null, or from [`kumiki_resource_start`] and not taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_answer_cancel(started: *mut ResourceAnswer) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| Ok(unsafe { taken(started) }?.cancel().is_ok().into()))
}

/// See the header.
///
/// # Safety
/// `started` is null, or from [`kumiki_resource_start`] and not taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_answer_detach(started: *mut ResourceAnswer) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        unsafe { taken(started) }?.detach();
        Ok(0)
    })
}
