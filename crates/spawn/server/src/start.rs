//! The spawn server as a program without a C library: where it begins, and what the compiler
//! expects of one.
#![no_std]
#![no_main]

use core::arch::global_asm;
use core::panic::PanicInfo;

use kumiki_spawn_wire::sys::exit;

mod mem;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(70)
}

// `core` names it, and nothing unwinds here.
global_asm!(".globl rust_eh_personality", "rust_eh_personality:", "ud2");

// The stack is aligned by the kernel; a call would see it eight off.
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {main}", "ud2", main = sym main);

extern "C" fn main() -> ! {
    kumiki_spawn_server::serve()
}
