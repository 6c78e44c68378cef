//! Highway's `ThreadPool`, of two threads. Where Debian's package has it (from 13 on).

use std::ffi::{c_int, c_void};

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::lend;

type HighwayWork = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    fn bench_highway_new(helper: c_int) -> *mut c_void;
    fn bench_highway_free(pool: *mut c_void);
    fn bench_highway_both(
        pool: *mut c_void,
        main: HighwayWork,
        main_data: *mut c_void,
        other: HighwayWork,
        other_data: *mut c_void,
    );
}

pub(crate) struct Highway(*mut c_void);

impl Highway {
    pub(crate) fn new(pair: Pair) -> Self {
        // SAFETY: starts a thread that is bound to this cpu, and nothing else.
        Highway(unsafe { bench_highway_new(pair.helper as c_int) })
    }
}

impl Drop for Highway {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nothing runs in it.
        unsafe { bench_highway_free(self.0) };
    }
}

impl Fork for Highway {
    fn split<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let (((), a), b) = lend(other, |other| {
            lend(main, |main| {
                // SAFETY: the pool is there; it runs each once and returns after both.
                unsafe { bench_highway_both(self.0, main.run, main.data, other.run, other.data) }
            })
        });
        (a, b)
    }
}
