//! Where the program begins, and what the compiler expects of one without a C library. Here alone
//! it matters that `build.rs` of kumiki-spawn makes a program of this crate (`cfg(freestanding)`):
//! cargo cannot, as one without the standard library may not unwind.

#[cfg(freestanding)]
mod alone {
    use core::arch::global_asm;
    use core::panic::PanicInfo;

    use kumiki_spawn_wire::sys::exit;

    use crate::serve;

    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        exit(70)
    }

    // `core` names it, and nothing unwinds here.
    #[cfg(target_arch = "x86_64")]
    global_asm!(".globl rust_eh_personality", "rust_eh_personality:", "ud2");
    #[cfg(target_arch = "aarch64")]
    global_asm!(".globl rust_eh_personality", "rust_eh_personality:", "brk #1");

    // The stack is aligned by the kernel; a call would see it eight off.
    #[cfg(target_arch = "x86_64")]
    global_asm!(
        ".globl _start",
        "_start:",
        "xor ebp, ebp",
        "and rsp, -16",
        "call {main}",
        "ud2",
        main = sym main
    );

    #[cfg(target_arch = "aarch64")]
    global_asm!(
        ".globl _start",
        "_start:",
        "mov x29, xzr",
        "mov x30, xzr",
        "bl {main}",
        "brk #1",
        main = sym main
    );

    // Atomics that choose by what the processor has ask the C library: it is told of nothing, and takes those
    // that each has.
    #[cfg(target_arch = "aarch64")]
    #[unsafe(no_mangle)]
    extern "C" fn getauxval(_: u64) -> u64 {
        0
    }

    extern "C" fn main() -> ! {
        // SAFETY: the program's beginning, and all that it does.
        unsafe { serve() }
    }
}
