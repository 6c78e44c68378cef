//! Pages of 4 KiB for any thread.

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use kumiki_resource::page;

use crate::failure::{Failure, answer};

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn kumiki_resource_page_allocate() -> *mut c_void {
    match page::allocate() {
        Ok(page) => page.as_ptr().cast(),
        Err(error) => failed(error),
    }
}

#[cold]
fn failed(error: kumiki_resource::Error) -> *mut c_void {
    let _: c_int = answer(|| Err(Failure::from(error)));
    null_mut()
}

/// See the header.
///
/// # Safety
/// `page` is null, or from [`kumiki_resource_page_allocate`] and used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_page_free(page: *mut c_void) {
    if let Some(page) = NonNull::new(page) {
        // SAFETY: the caller's promise.
        unsafe { page::free(page.cast()) };
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn kumiki_resource_page_flush() {
    page::flush();
}
