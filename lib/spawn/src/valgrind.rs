//! Whether the program runs in valgrind.

use std::arch::asm;
use std::sync::OnceLock;

/// True if this process runs in valgrind. There a child never begins in the memory of who makes it:
/// valgrind makes all children by fork(2), and what a child writes to tell why it is none is lost.
pub(crate) fn runs_in_it() -> bool {
    static RUNS: OnceLock<bool> = OnceLock::new();
    *RUNS.get_or_init(asked)
}

/// Asks as valgrind.h does (RUNNING_ON_VALGRIND), whose instructions do nothing elsewhere.
fn asked() -> bool {
    const RUNNING_ON_VALGRIND: u64 = 0x1001;
    let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let answer: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: turns a register by 128 bits, which is not at all, and exchanges one with itself.
    // Valgrind, which knows these instructions, reads the request and writes rdx.
    unsafe {
        asm!("rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            inout("rdi") 0u64 => _, in("rax") request.as_ptr(), inout("rdx") 0u64 => answer,
            options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same, of other registers.
    unsafe {
        asm!("ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61",
            "orr x10, x10, x10", inout("x3") 0u64 => answer, in("x4") request.as_ptr(),
            options(nostack));
    }
    answer != 0
}
