//! System calls without a C library.

use core::arch::asm;

pub(crate) const WRITE: usize = 1;
pub(crate) const CLOSE: usize = 3;
pub(crate) const MMAP: usize = 9;
pub(crate) const SIGACTION: usize = 13;
pub(crate) const SIGPROCMASK: usize = 14;
pub(crate) const IOCTL: usize = 16;
pub(crate) const PREAD: usize = 17;
pub(crate) const DUP2: usize = 33;
pub(crate) const GETPID: usize = 39;
pub(crate) const RECVMSG: usize = 47;
pub(crate) const CLONE: usize = 56;
pub(crate) const EXECVE: usize = 59;
pub(crate) const EXIT: usize = 60;
pub(crate) const FCNTL: usize = 72;
pub(crate) const SETPGID: usize = 109;
pub(crate) const GETPPID: usize = 110;
pub(crate) const GETPGID: usize = 121;
pub(crate) const GETSID: usize = 124;
pub(crate) const PRCTL: usize = 157;
pub(crate) const FUTEX: usize = 202;
pub(crate) const SCHED_SETAFFINITY: usize = 203;
pub(crate) const SCHED_GETAFFINITY: usize = 204;
pub(crate) const GETDENTS: usize = 217;
pub(crate) const OPENAT: usize = 257;
pub(crate) const READLINKAT: usize = 267;
pub(crate) const EXIT_GROUP: usize = 231;
pub(crate) const PRLIMIT: usize = 302;
pub(crate) const KCMP: usize = 312;
pub(crate) const SCHED_GETATTR: usize = 315;
pub(crate) const EXECVEAT: usize = 322;
pub(crate) const STATX: usize = 332;
pub(crate) const CLONE3: usize = 435;
pub(crate) const CLOSE_RANGE: usize = 436;

pub(crate) const F_GETFD: usize = 1;
pub(crate) const F_SETFD: usize = 2;
pub(crate) const F_DUPFD_CLOEXEC: usize = 1030;
/// Of the calling process's working folder (AT_FDCWD).
pub(crate) const HERE: isize = -100;
pub(crate) const O_CLOEXEC: usize = 0x8_0000;
pub(crate) const EPERM: isize = -1;
pub(crate) const ENOENT: isize = -2;
pub(crate) const ESRCH: isize = -3;
pub(crate) const EINTR: isize = -4;
pub(crate) const EBADF: isize = -9;
pub(crate) const EAGAIN: isize = -11;
pub(crate) const EACCES: isize = -13;
pub(crate) const ENOTDIR: isize = -20;
pub(crate) const EINVAL: isize = -22;
pub(crate) const EMFILE: isize = -24;
pub(crate) const ENOSYS: isize = -38;
pub(crate) const ETIMEDOUT: isize = -110;

/// # Safety
/// As the call that is made.
pub(crate) unsafe fn system_call(number: usize, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller's promise; the kernel changes these registers.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3],
            in("r8") args[4], in("r9") args[5], lateout("rcx") _, lateout("r11") _,
            options(nostack));
    }
    result
}

macro_rules! sys {
    ($number:expr $(, $arg:expr)*) => {{
        #[allow(unused_mut, reason = "calls without arguments")]
        let mut args = [0usize; 6];
        let given: &[usize] = &[$($arg as usize),*];
        args[..given.len()].copy_from_slice(given);
        // SAFETY: numbers, and pointers to memory of this program of the length that the
        // call works with.
        unsafe { system_call($number as usize, args) }
    }};
}
pub(crate) use sys;

pub(crate) fn exit(code: i32) -> ! {
    // Each may be refused, but not the fault.
    sys!(EXIT, code);
    sys!(EXIT_GROUP, code);
    // SAFETY: it does not go on.
    unsafe { asm!("ud2", options(noreturn)) }
}
