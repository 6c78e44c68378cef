//! pthread_cancel(3) held off: its unwinding must not go through Rust that is half way.

use std::ffi::c_int;
use std::marker::PhantomData;

unsafe extern "C-unwind" {
    /// The C library's, declared as what it is: it may unwind the thread.
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, former: *mut c_int) -> c_int;
}

const DISABLE: c_int = 1;

/// Guard that holds a cancellation of its thread off.
///
/// ```
/// use kumiki_sys::cancellation::Held;
///
/// let held = Held::new();
/// // What must come to its end.
/// held.point();
/// ```
#[derive(Debug)]
#[must_use = "dropped, it lets the thread be cancelled again"]
pub struct Held {
    former: c_int,
    _of_this_thread: PhantomData<*mut ()>,
}

impl Held {
    /// Holds off what comes from now on.
    #[expect(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> Self {
        Held { former: set(DISABLE), _of_this_thread: PhantomData }
    }

    /// Lets a cancellation in that has come, unless the thread forbade them before: where
    /// whatever is dropped on the way out is in order.
    pub fn point(&self) {
        set(self.former);
        // SAFETY: if it unwinds the thread, what this one holds is in order.
        unsafe { pthread_testcancel() };
        set(DISABLE);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        set(self.former);
    }
}

fn set(state: c_int) -> c_int {
    let mut former = 0;
    // SAFETY: a state that the C library has given, or its own `DISABLE`.
    unsafe { pthread_setcancelstate(state, &raw mut former) };
    former
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_before_comes_back_however_often_it_is_held() {
        let state = || {
            let state = set(DISABLE);
            set(state);
            state
        };
        let before = state();
        let held = Held::new();
        let second = Held::new();
        second.point();
        assert_eq!((state(), before != DISABLE), (DISABLE, true));
        drop(second);
        assert_eq!(state(), DISABLE);
        drop(held);
        assert_eq!(state(), before);
    }
}
