//! Starts by x86-64's own instructions.

use std::arch::asm;

use super::{CloneArgs, Words};

/// vfork(2), and execve(2) in the child. Answers as the system call does.
///
/// # Safety
/// The words are a path and two arrays of such pointers that end with null; all of it lives on.
pub(in crate::process) unsafe fn vfork(words: &Words) -> isize {
    let answer: isize;
    // SAFETY: the child shares the caller's stack, and so must not return from
    // here or write to it: all that it executes is inside this block, in
    // registers, and ends in execve or exit_group. A signal handler that runs
    // in it meanwhile writes below the red zone only and returns. For the
    // parent the block is one system call, which changes rax, rcx and r11. The
    // pointers are to a C string and null-terminated arrays that live on.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov eax, {execve}",
            "syscall",
            "mov edi, 127",
            "mov eax, {exit_group}",
            "syscall",
            "ud2",
            "2:",
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            inlateout("rax") libc::SYS_vfork as isize => answer,
            in("rdi") words.path,
            in("rsi") words.argv,
            in("rdx") words.environment,
            lateout("rcx") _,
            lateout("r11") _,
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
    // has execed, because CLONE_VFORK holds the parent until then. r8, r9 and r10 keep their
    // values over the system call, in the child too. `args` has the layout and size that the
    // kernel reads.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r8",
            "mov rsi, r9",
            "mov rdx, r10",
            "mov eax, {execve}",
            "syscall",
            "mov edi, 127",
            "mov eax, {exit_group}",
            "syscall",
            "ud2",
            "2:",
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            inlateout("rax") libc::SYS_clone3 as isize => answer,
            in("rdi") args,
            in("rsi") size_of::<CloneArgs>(),
            in("r8") words.path,
            in("r9") words.argv,
            in("r10") words.environment,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    answer
}
