//! The figures of Nakamura's paper on parallel system calls (2018), section 5:
//! Table 3 with Figure 6, and Figure 7; then other calls in the same way, and all by threads
//! inside the kernel, by an engine and as the paper has them.

mod alone;
mod bare;
mod batch;
mod calls;
mod errors;
mod files;
mod inside;
mod kernel;
mod requests;
mod running;
mod steps;
mod unchecked;
mod unlinks;

use kumiki_measure::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = steps::cases();
    cases.extend(requests::cases());
    cases.extend(calls::cases());
    cases.extend(inside::cases());
    cases.extend(kernel::cases());
    cases
}
