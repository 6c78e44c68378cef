//! oneTBB: `parallel_invoke` within an arena of two threads.

use std::ffi::{c_int, c_void};

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::lend;

type OnetbbWork = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    fn bench_onetbb_inside(helper: c_int, body: OnetbbWork, data: *mut c_void);
    fn bench_onetbb_both(
        main: OnetbbWork,
        main_data: *mut c_void,
        other: OnetbbWork,
        other_data: *mut c_void,
    );
}

/// Stands for the arena around it.
pub(crate) struct OneTbb(());

/// Runs `body` as the arena's master.
pub(crate) fn inside<R: Send>(pair: Pair, body: impl FnOnce(OneTbb) -> R + Send) -> R {
    let ((), result) = lend(
        || body(OneTbb(())),
        // SAFETY: the arena runs it once and returns afterwards.
        |job| unsafe { bench_onetbb_inside(pair.helper as c_int, job.run, job.data) },
    );
    result
}

impl Fork for OneTbb {
    fn split<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let (((), a), b) = lend(other, |other| {
            lend(main, |main| {
                // SAFETY: it runs each once and returns after both.
                unsafe { bench_onetbb_both(main.run, main.data, other.run, other.data) }
            })
        });
        (a, b)
    }
}
