//! Lists of strings as C has them.

use std::ffi::{CStr, c_char};

/// # Safety
/// `list` is null, or ends with a null pointer, and so long as `'a` neither it nor its
/// strings change.
pub(super) unsafe fn strings<'a>(list: *const *mut c_char) -> Vec<&'a CStr> {
    let mut all = Vec::new();
    // As the kernel's execve(2).
    if list.is_null() {
        return all;
    }
    loop {
        // SAFETY: not beyond the null pointer at the end.
        let at = unsafe { list.add(all.len()) };
        // SAFETY: as above.
        let string = unsafe { at.read() };
        if string.is_null() {
            return all;
        }
        // SAFETY: the caller's promise.
        all.push(unsafe { CStr::from_ptr(string) });
    }
}
