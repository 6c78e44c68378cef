//! Starts of a program without the C library, by each processor's own instructions.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{clone3, vfork};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{clone3, vfork};

/// Words for execve(2).
pub(super) struct Words {
    pub(super) path: *const libc::c_char,
    pub(super) argv: *const *const libc::c_char,
    pub(super) environment: *const *const libc::c_char,
}

/// `struct clone_args` of linux/sched.h, its first version.
#[repr(C)]
pub(super) struct CloneArgs {
    pub(super) flags: u64,
    pub(super) pidfd: u64,
    pub(super) child_tid: u64,
    pub(super) parent_tid: u64,
    pub(super) exit_signal: u64,
    pub(super) stack: u64,
    pub(super) stack_size: u64,
    pub(super) tls: u64,
}
