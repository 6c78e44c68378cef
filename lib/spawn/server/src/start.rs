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
    global_asm!(".globl rust_eh_personality", "rust_eh_personality:", "ud2");

    // The stack is aligned by the kernel; a call would see it eight off.
    global_asm!(
        ".globl _start",
        "_start:",
        "xor ebp, ebp",
        "and rsp, -16",
        "call {main}",
        "ud2",
        main = sym main
    );

    extern "C" fn main() -> ! {
        // SAFETY: the program's beginning, and all that it does.
        unsafe { serve() }
    }
}
