//! This thread's `errno`, which is the program's.

fn place() -> *mut libc::c_int {
    // SAFETY: the call has no conditions; the place is this thread's own.
    unsafe { libc::__errno_location() }
}

pub(crate) fn get() -> libc::c_int {
    // SAFETY: the place is always one that may be read.
    unsafe { place().read() }
}

pub(crate) fn set(number: libc::c_int) {
    // SAFETY: the place is always one that may be written.
    unsafe { place().write(number) };
}
