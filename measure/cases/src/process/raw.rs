//! Starts of a program without the C library, by each processor's own instructions.

#[cfg_attr(target_arch = "aarch64", path = "raw/aarch64.rs")]
#[cfg_attr(not(target_arch = "aarch64"), path = "raw/x86_64.rs")]
mod processor;

pub(super) use processor::{clone3, vfork};

/// What execve(2) is given.
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
