//! Whether a seccomp filter looks at system calls.

use rustix::io::Errno;
use rustix::thread::{SecureComputingMode, secure_computing_mode};

/// Returns true if a seccomp filter looks at the system calls of the calling thread, which has
/// filters of its own; `None` if one forbids the question. `PR_GET_SECCOMP`, prctl(2): some 100 ns.
pub fn is_filtered() -> Option<bool> {
    match secure_computing_mode() {
        Ok(mode) => Some(mode != SecureComputingMode::Disabled),
        // The kernel has no seccomp.
        Err(Errno::INVAL) => Some(false),
        Err(_) => None,
    }
}
