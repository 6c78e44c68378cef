//! A Rust function behind the C interface may panic; C never sees it.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use kumiki_c::abi::{KUMIKI_SHADOW_INLINE, KUMIKI_SHADOW_SHARE, Options};
use kumiki_c::{
    Shadow, kumiki_shadow_create, kumiki_shadow_destroy, kumiki_shadow_fork, kumiki_shadow_join,
};

extern "C-unwind" fn panics(_: *mut c_void) {
    panic!("from below C");
}

#[test]
fn a_panic_becomes_an_error_and_the_shadow_lives_on() {
    for flags in [KUMIKI_SHADOW_SHARE, KUMIKI_SHADOW_INLINE] {
        let options = Options { flags, ..Options::default() };
        let mut shadow: *mut Shadow = null_mut();
        // SAFETY: both pointers are valid.
        assert_eq!(unsafe { kumiki_shadow_create(&mut shadow, &options) }, 0);
        for _ in 0..3 {
            // SAFETY: a live shadow; the function takes any argument.
            assert_eq!(unsafe { kumiki_shadow_fork(shadow, Some(panics), null_mut()) }, 0);
            // SAFETY: a live shadow.
            assert_eq!(unsafe { kumiki_shadow_join(shadow) }, -libc::EIO);
            // SAFETY: the text ends with a zero and stays until the next failure.
            let text = unsafe { CStr::from_ptr(kumiki_c::kumiki_last_error()) };
            assert_eq!(text.to_str(), Ok("the forked function panicked: from below C"));
        }
        // SAFETY: a live shadow, and its end.
        assert_eq!(unsafe { kumiki_shadow_destroy(shadow) }, 0);
    }
    // SAFETY: null pointers are allowed.
    assert_eq!(unsafe { kumiki_shadow_create(null_mut(), null()) }, -libc::EINVAL);
}
