//! OpenMP of gcc: a parallel region of two threads. How it waits and where its
//! threads run is said by the environment that the process was started with.

use std::ffi::c_void;

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::lend;

type OpenmpWork = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    fn bench_openmp_both(
        main: OpenmpWork,
        main_data: *mut c_void,
        other: OpenmpWork,
        other_data: *mut c_void,
    );
}

/// What a process needs in its environment before it starts.
pub(crate) fn environment(pair: Pair, wait_policy: &'static str) -> Vec<(&'static str, String)> {
    vec![
        ("OMP_WAIT_POLICY", wait_policy.to_owned()),
        ("OMP_PLACES", format!("{{{}}},{{{}}}", pair.main, pair.helper)),
        ("OMP_PROC_BIND", "close".to_owned()),
        ("OMP_DYNAMIC", "false".to_owned()),
    ]
}

/// The runtime makes its thread in the first region.
pub(crate) struct OpenMp;

impl Fork for OpenMp {
    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let (((), a), b) = lend(other, |other| {
            lend(main, |main| {
                // SAFETY: the region runs each once and ends after both.
                unsafe { bench_openmp_both(main.run, main.data, other.run, other.data) }
            })
        });
        (a, b)
    }
}
