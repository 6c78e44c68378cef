//! Texts from C and to it.

use std::ffi::{CStr, CString, c_char};

use serde_json::Value;

use crate::failure::Failure;

/// A text of C's.
///
/// # Safety
/// It is null, or ends with a zero and stays for as long as the reference.
pub(crate) unsafe fn text<'a>(what: &str, from: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { optional(what, from) }?;
    text.ok_or_else(|| Failure::invalid(format!("{what} is null")))
}

/// Reads a text that may be null.
///
/// # Safety
/// As of [`text`].
pub(crate) unsafe fn optional<'a>(
    what: &str,
    from: *const c_char,
) -> Result<Option<&'a str>, Failure> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not null, and the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(from) };
    let text = text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))?;
    Ok(Some(text))
}

/// JSON of C's; nothing is null.
///
/// # Safety
/// As of [`text`].
pub(crate) unsafe fn json(what: &str, from: *const c_char) -> Result<Value, Failure> {
    // SAFETY: the caller's promise.
    let Some(text) = unsafe { optional(what, from) }? else { return Ok(Value::Null) };
    serde_json::from_str(text)
        .map_err(|error| Failure::invalid(format!("{what} {text:?} is not JSON: {error}")))
}

/// Gives a value to C as text, if it wants it.
///
/// # Safety
/// `to` is null or to be written to.
pub(crate) unsafe fn give(value: &Value, to: *mut *mut c_char) -> Result<(), Failure> {
    if to.is_null() {
        return Ok(());
    }
    let text = CString::new(value.to_string())
        .map_err(|_| Failure::new(libc::EIO, "JSON with a zero in it"))?;
    // SAFETY: it is not null, and the rest is the caller's promise.
    unsafe { to.write(text.into_raw()) };
    Ok(())
}

/// Frees a text that a function here gave.
///
/// # Safety
/// It is null, or was given so and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_free(json: *mut c_char) {
    if !json.is_null() {
        // SAFETY: the caller's promise; `give` made it so.
        drop(unsafe { CString::from_raw(json) });
    }
}
