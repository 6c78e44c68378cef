//! Program parts that are bound once, and then called without a look at a name.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use kumiki_places::NamedBinding;

use crate::calls::{Call, name, start};
use crate::client::{Places, Shared};
use crate::failure::{Failure, run};
use crate::text::{give, json, text};

/// `struct kumiki_places_bound`.
pub struct Bound {
    shared: Arc<Shared>,
    binding: Arc<NamedBinding>,
}

impl Bound {
    /// # Safety
    /// It is null, or what [`kumiki_places_bind`] gave and was not ended.
    unsafe fn of<'a>(bound: *const Bound) -> Result<&'a Bound, Failure> {
        // SAFETY: the caller's promise.
        unsafe { bound.as_ref() }.ok_or_else(|| Failure::invalid("what is bound is null"))
    }
}

/// Binds a program part of a resource.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_bind(
    places: *mut Places,
    of: *const c_char,
    part: *const c_char,
    timeout_ms: u64,
    bound: *mut *mut Bound,
) -> c_int {
    run("kumiki_places_bind", || {
        // SAFETY: the caller's promise.
        let shared = unsafe { Places::of(places) }?;
        // SAFETY: the caller's promise.
        let of = name(unsafe { text("the name", of) }?)?;
        // SAFETY: the caller's promise.
        let part = unsafe { text("the program part", part) }?;
        if bound.is_null() {
            return Err(Failure::invalid("where what is bound is to be written is null"));
        }
        let client = shared.client(timeout_ms);
        let binding = shared.runtime().block_on(client.bind_named(&of, part))?;
        let made = Bound { shared: Arc::clone(shared), binding: Arc::new(binding) };
        // SAFETY: it is not null, and the rest is the caller's promise.
        unsafe { bound.write(Box::into_raw(Box::new(made))) };
        Ok(0)
    })
}

/// Calls what is bound, and waits for what it gives.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_bound_call(
    bound: *mut Bound,
    input: *const c_char,
    timeout_ms: u64,
    json_to: *mut *mut c_char,
) -> c_int {
    run("kumiki_places_bound_call", || {
        // SAFETY: the caller's promise.
        let Bound { shared, binding } = unsafe { Bound::of(bound) }?;
        // SAFETY: the caller's promise.
        let input = unsafe { json("the input", input) }?;
        let client = shared.client(timeout_ms);
        let given = shared.runtime().block_on(binding.call(&client, &input))?;
        // SAFETY: the caller's promise.
        unsafe { give(&given, json_to) }?;
        Ok(0)
    })
}

/// Starts a call of what is bound.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_start_bound(
    bound: *mut Bound,
    input: *const c_char,
    timeout_ms: u64,
    call: *mut *mut Call,
) -> c_int {
    run("kumiki_places_start_bound", || {
        // SAFETY: the caller's promise.
        let Bound { shared, binding } = unsafe { Bound::of(bound) }?;
        // SAFETY: the caller's promise.
        let input = unsafe { json("the input", input) }?;
        let (client, binding) = (shared.client(timeout_ms), Arc::clone(binding));
        let work = async move { binding.call(&client, &input).await };
        // SAFETY: the caller's promise.
        unsafe { start(shared, call, work) }
    })
}

/// Gives up what is bound.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_bound_end(bound: *mut Bound) {
    run("kumiki_places_bound_end", || {
        if !bound.is_null() {
            // SAFETY: the caller's promise; it was made so.
            drop(unsafe { Box::from_raw(bound) });
        }
        Ok(0)
    });
}
