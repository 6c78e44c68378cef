//! Starts by aarch64's own instructions.

use std::arch::asm;

use super::{CloneArgs, Words};

/// Flags of clone(2) that make of it what vfork(2) is elsewhere.
const LIKE_VFORK: usize = (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as usize;

/// clone(2) as vfork(2), and execve(2) in the child. Answers as the system call does.
///
/// # Safety
/// The words are a path and two arrays of such pointers that end with null; all of it lives on.
pub(in crate::process) unsafe fn vfork(words: &Words) -> isize {
    let answer: isize;
    // SAFETY: the child shares the caller's stack, and so must not return from here or write to
    // it: all that it executes is inside this block, in registers, and ends in execve or
    // exit_group. For the parent the block is one system call, which changes x0 alone; x9, x10
    // and x11 keep their values over it, in the child too. The pointers are to a C string and
    // null-terminated arrays that live on.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x0, x9",
            "mov x1, x10",
            "mov x2, x11",
            "mov x8, #{execve}",
            "svc #0",
            "mov x0, #127",
            "mov x8, #{exit_group}",
            "svc #0",
            "brk #1",
            "2:",
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            inlateout("x0") LIKE_VFORK as isize => answer,
            in("x1") 0_usize,
            in("x2") 0_usize,
            in("x3") 0_usize,
            in("x4") 0_usize,
            in("x8") libc::SYS_clone,
            in("x9") words.path,
            in("x10") words.argv,
            in("x11") words.environment,
        );
    }
    answer
}

/// clone3(2), and execve(2) in the child. Answers as the system call does.
///
/// # Safety
/// As for [`vfork`]; the stack in `args` is nobody else's until the child has execed or ended.
pub(in crate::process) unsafe fn clone3(args: &CloneArgs, words: &Words) -> isize {
    let answer: isize;
    // SAFETY: as for vfork, but that the child's stack is its own, which lives until the child
    // has execed, because CLONE_VFORK holds the parent until then. `args` has the layout and
    // size that the kernel reads.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x0, x9",
            "mov x1, x10",
            "mov x2, x11",
            "mov x8, #{execve}",
            "svc #0",
            "mov x0, #127",
            "mov x8, #{exit_group}",
            "svc #0",
            "brk #1",
            "2:",
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            inlateout("x0") std::ptr::from_ref(args) as isize => answer,
            in("x1") size_of::<CloneArgs>(),
            in("x8") libc::SYS_clone3,
            in("x9") words.path,
            in("x10") words.argv,
            in("x11") words.environment,
        );
    }
    answer
}
