//! System calls without a C library. Each is a safe function where the kernel reads and writes
//! nothing but what it is given, and answers as the kernel does: below 0 is an error number.

use core::arch::asm;
use core::ffi::CStr;
use core::ptr::{from_ref, null, null_mut};
use core::sync::atomic::AtomicU32;

/// Constants under the C library's names, which the tests compare.
macro_rules! numbers {
    ($(#[$about:meta] $visibility:vis $name:ident: $type:ty = $value:expr, $c:expr;)*) => {
        $(#[$about] $visibility const $name: $type = $value;)*

        #[cfg(test)]
        #[test]
        fn numbers_are_those_of_the_c_library() {
            extern crate std;
            $(std::assert_eq!($name as i64, $c as i64, stringify!($name));)*
        }
    };
}

/// Number on x86-64, and on aarch64, which has the numbers of all later processors.
const fn on(x86_64: usize, aarch64: usize) -> usize {
    if cfg!(target_arch = "x86_64") { x86_64 } else { aarch64 }
}

numbers! {
    /// write(2).
    WRITE: usize = on(1, 64), libc::SYS_write;
    /// close(2).
    CLOSE: usize = on(3, 57), libc::SYS_close;
    /// poll(2), ppoll(2).
    POLL: usize = on(7, 73), {
        #[cfg(target_arch = "x86_64")]
        { libc::SYS_poll }
        #[cfg(not(target_arch = "x86_64"))]
        { libc::SYS_ppoll }
    };
    /// mmap(2).
    pub MMAP: usize = on(9, 222), libc::SYS_mmap;
    /// sigaction(2).
    SIGACTION: usize = on(13, 134), libc::SYS_rt_sigaction;
    /// sigprocmask(2).
    SIGPROCMASK: usize = on(14, 135), libc::SYS_rt_sigprocmask;
    /// ioctl(2).
    IOCTL: usize = on(16, 29), libc::SYS_ioctl;
    /// pread(2).
    PREAD: usize = on(17, 67), libc::SYS_pread64;
    /// dup2(2), dup3(2).
    DUP: usize = on(33, 24), {
        #[cfg(target_arch = "x86_64")]
        { libc::SYS_dup2 }
        #[cfg(not(target_arch = "x86_64"))]
        { libc::SYS_dup3 }
    };
    /// getpid(2).
    GETPID: usize = on(39, 172), libc::SYS_getpid;
    /// recvmsg(2).
    pub RECVMSG: usize = on(47, 212), libc::SYS_recvmsg;
    /// clone(2).
    pub CLONE: usize = on(56, 220), libc::SYS_clone;
    /// execve(2).
    pub EXECVE: usize = on(59, 221), libc::SYS_execve;
    /// exit(2).
    EXIT: usize = on(60, 93), libc::SYS_exit;
    /// fcntl(2).
    FCNTL: usize = on(72, 25), libc::SYS_fcntl;
    /// setpgid(2).
    SETPGID: usize = on(109, 154), libc::SYS_setpgid;
    /// getppid(2).
    GETPPID: usize = on(110, 173), libc::SYS_getppid;
    /// getpgid(2).
    GETPGID: usize = on(121, 155), libc::SYS_getpgid;
    /// getsid(2).
    GETSID: usize = on(124, 156), libc::SYS_getsid;
    /// prctl(2).
    PRCTL: usize = on(157, 167), libc::SYS_prctl;
    /// futex(2).
    FUTEX: usize = on(202, 98), libc::SYS_futex;
    /// sched_setaffinity(2).
    SCHED_SETAFFINITY: usize = on(203, 122), libc::SYS_sched_setaffinity;
    /// sched_getaffinity(2).
    SCHED_GETAFFINITY: usize = on(204, 123), libc::SYS_sched_getaffinity;
    /// getdents(2).
    GETDENTS: usize = on(217, 61), libc::SYS_getdents64;
    /// exit_group(2).
    EXIT_GROUP: usize = on(231, 94), libc::SYS_exit_group;
    /// openat(2).
    pub OPENAT: usize = on(257, 56), libc::SYS_openat;
    /// readlinkat(2).
    READLINKAT: usize = on(267, 78), libc::SYS_readlinkat;
    /// prlimit(2).
    PRLIMIT: usize = on(302, 261), libc::SYS_prlimit64;
    /// kcmp(2).
    KCMP: usize = on(312, 272), libc::SYS_kcmp;
    /// sched_getattr(2).
    SCHED_GETATTR: usize = on(315, 275), libc::SYS_sched_getattr;
    /// execveat(2).
    pub EXECVEAT: usize = on(322, 281), libc::SYS_execveat;
    /// statx(2).
    STATX: usize = on(332, 291), libc::SYS_statx;
    /// clone(2)'s newer form.
    pub CLONE3: usize = 435, libc::SYS_clone3;
    /// close_range(2).
    CLOSE_RANGE: usize = 436, libc::SYS_close_range;
    /// fcntl(2): tells the flags of a descriptor.
    F_GETFD: usize = 1, libc::F_GETFD;
    /// fcntl(2): sets them.
    F_SETFD: usize = 2, libc::F_SETFD;
    /// The only one of these flags.
    FD_CLOEXEC: usize = 1, libc::FD_CLOEXEC;
    /// fcntl(2): makes a copy of at least a number, which exec closes.
    F_DUPFD_CLOEXEC: usize = 1030, libc::F_DUPFD_CLOEXEC;
    /// prctl(2): names the thread.
    PR_SET_NAME: usize = 15, libc::PR_SET_NAME;
    /// ioctl(2): sets a terminal's foreground group.
    TIOCSPGRP: usize = 0x5410, libc::TIOCSPGRP;
    /// futex(2)'s operation.
    FUTEX_WAIT: usize = 0, libc::FUTEX_WAIT;
    /// futex(2)'s operation.
    FUTEX_WAKE: usize = 1, libc::FUTEX_WAKE;
    /// sigprocmask(2): blocks these and no others.
    SIG_SETMASK: usize = 2, libc::SIG_SETMASK;
    /// The calling process's working folder.
    pub AT_FDCWD: i32 = -100, libc::AT_FDCWD;
    /// The descriptor itself.
    pub AT_EMPTY_PATH: usize = 0x1000, libc::AT_EMPTY_PATH;
    /// open(2)'s flag.
    pub O_CLOEXEC: usize = 0x8_0000, libc::O_CLOEXEC;
    /// open(2)'s flag.
    pub O_DIRECTORY: usize = on(0x1_0000, 0x4000), libc::O_DIRECTORY;
    /// open(2)'s flag.
    pub O_PATH: usize = 0x20_0000, libc::O_PATH;
    /// open(2)'s flag.
    pub O_NOFOLLOW: usize = on(0x2_0000, 0x8000), libc::O_NOFOLLOW;
    /// close_range(2): exec closes them.
    pub CLOSE_RANGE_CLOEXEC: usize = 4, libc::CLOSE_RANGE_CLOEXEC;
    /// recvmsg(2): exec closes what is received.
    pub MSG_CMSG_CLOEXEC: usize = 0x4000_0000, libc::MSG_CMSG_CLOEXEC;
    /// recvmsg(2): some could not be received.
    pub MSG_CTRUNC: usize = 8, libc::MSG_CTRUNC;
    /// Processes of a user.
    pub RLIMIT_NPROC: usize = 6, libc::RLIMIT_NPROC;
    /// Numbers of descriptors.
    pub RLIMIT_NOFILE: usize = 7, libc::RLIMIT_NOFILE;
    /// The child begins in its maker's memory.
    pub CLONE_VM: u64 = 0x100, libc::CLONE_VM;
    /// Opens a pidfd.
    pub CLONE_PIDFD: u64 = 0x1000, libc::CLONE_PIDFD;
    /// The maker sleeps until the child has another memory.
    pub CLONE_VFORK: u64 = 0x4000, libc::CLONE_VFORK;
    /// The child is its maker's sibling.
    pub CLONE_PARENT: u64 = 0x8000, libc::CLONE_PARENT;
    /// The kernel writes the child's number.
    pub CLONE_PARENT_SETTID: u64 = 0x10_0000, libc::CLONE_PARENT_SETTID;
    /// The kernel clears a word, and wakes who waits, once the child has another memory.
    pub CLONE_CHILD_CLEARTID: u64 = 0x20_0000, libc::CLONE_CHILD_CLEARTID;
    /// The error, below 0.
    pub EPERM: isize = -1, -libc::EPERM;
    /// The error, below 0.
    pub ENOENT: isize = -2, -libc::ENOENT;
    /// The error, below 0.
    pub ESRCH: isize = -3, -libc::ESRCH;
    /// The error, below 0.
    pub EINTR: isize = -4, -libc::EINTR;
    /// The error, below 0.
    pub EBADF: isize = -9, -libc::EBADF;
    /// The error, below 0.
    pub EAGAIN: isize = -11, -libc::EAGAIN;
    /// The error, below 0.
    pub EACCES: isize = -13, -libc::EACCES;
    /// The error, below 0.
    pub ENOTDIR: isize = -20, -libc::ENOTDIR;
    /// The error, below 0.
    pub EINVAL: isize = -22, -libc::EINVAL;
    /// The error, below 0.
    pub EMFILE: isize = -24, -libc::EMFILE;
    /// The error, below 0.
    pub ENOSYS: isize = -38, -libc::ENOSYS;
    /// The error, below 0.
    pub ETIMEDOUT: isize = -110, -libc::ETIMEDOUT;
}

// The C library's have too few bits for these two.
/// The caller's handlers are not run in the child.
pub const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
/// The child begins in a cgroup.
pub const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Bytes of a signal set.
const SET: usize = 8;

/// # Safety
/// As the call that is made.
pub unsafe fn system_call(number: usize, args: [usize; 6]) -> isize {
    let result;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; the kernel changes these registers.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3],
            in("r8") args[4], in("r9") args[5], lateout("rcx") _, lateout("r11") _,
            options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller's promise; the kernel changes no other register.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") args[0] => result, in("x1") args[1],
            in("x2") args[2], in("x3") args[3], in("x4") args[4], in("x5") args[5],
            options(nostack));
    }
    result
}

/// A call with up to six arguments, each of which `as usize` takes; unsafe as [`system_call`].
#[macro_export]
macro_rules! sys {
    ($number:expr $(, $arg:expr)*) => {{
        let mut args = [0usize; 6];
        let given: &[usize] = &[$($arg as usize),*];
        args[..given.len()].copy_from_slice(given);
        $crate::sys::system_call($number as usize, args)
    }};
}

/// Calls of numbers alone, by which no memory is read or written.
macro_rules! of_numbers {
    ($($(#[$about:meta])* $name:ident($($arg:ident: $type:ty),*) = $($call:expr),+;)*) => {
        $($(#[$about])*
        pub fn $name($($arg: $type),*) -> isize {
            // SAFETY: as said above.
            unsafe { sys!($($call),+) }
        })*
    };
}

of_numbers! {
    /// close(2).
    close(fd: i32) = CLOSE, fd;
    /// close_range(2).
    close_range(first: u32, last: u32, flags: usize) = CLOSE_RANGE, first, last, flags;
    /// dup2(2), of two numbers that differ: else dup3(2), its form without flags, refuses it.
    dup2(fd: i32, number: i32) = DUP, fd, number, 0;
    /// Asks if exec closes it: 1 or 0 (F_GETFD).
    is_closed_at_exec(fd: i32) = FCNTL, fd, F_GETFD;
    /// Says whether exec closes it (F_SETFD).
    close_at_exec(fd: i32, does: bool) = FCNTL, fd, F_SETFD, if does { FD_CLOEXEC } else { 0 };
    /// A copy, of this number or a higher one, which exec closes (F_DUPFD_CLOEXEC).
    copy_above(fd: i32, least: i32) = FCNTL, fd, F_DUPFD_CLOEXEC, least;
    /// getpid(2).
    getpid() = GETPID;
    /// getppid(2).
    getppid() = GETPPID;
    /// getpgid(2).
    getpgid(process: i32) = GETPGID, process;
    /// setpgid(2).
    setpgid(process: i32, group: i32) = SETPGID, process, group;
    /// getsid(2).
    getsid(process: i32) = GETSID, process;
    /// Asks if two descriptors of two processes are one open file: then 0 (kcmp(2), KCMP_FILE).
    same_file(one: (i32, i32), other: (i32, i32)) = KCMP, one.0, other.0, 0, one.1, other.1;
}

/// openat(2) of what is there.
pub fn open(folder: i32, path: &CStr, flags: usize) -> isize {
    // SAFETY: the kernel reads the path to its end.
    unsafe { sys!(OPENAT, folder, path.as_ptr(), flags) }
}

/// Reads from the file's beginning (pread(2)).
pub fn read(fd: i32, to: &mut [u8]) -> isize {
    // SAFETY: the kernel writes within `to`.
    unsafe { sys!(PREAD, fd, to.as_mut_ptr(), to.len(), 0) }
}

/// True if there is something to read at once, as of a pidfd whose process has ended (poll(2)).
pub fn is_readable(fd: i32) -> bool {
    const POLLIN: i16 = 1;
    /// `struct pollfd`.
    #[repr(C)]
    struct Poll {
        fd: i32,
        events: i16,
        seen: i16,
    }
    let mut poll = Poll { fd, events: POLLIN, seen: 0 };
    // Of ppoll(2) the place of a time, in which it writes what is left of it.
    let mut limit = [0u64; 2];
    let limit = if cfg!(target_arch = "x86_64") { null_mut() } else { limit.as_mut_ptr() };
    // SAFETY: the kernel reads and writes one of them, and does not wait.
    let ready = unsafe { sys!(POLL, &raw mut poll, 1, limit, 0, SET) };
    ready > 0 && poll.seen & POLLIN != 0
}

/// write(2).
pub fn write(fd: i32, bytes: &[u8]) -> isize {
    // SAFETY: the kernel reads within `bytes`.
    unsafe { sys!(WRITE, fd, bytes.as_ptr(), bytes.len()) }
}

/// readlinkat(2).
pub fn read_link(folder: i32, path: &CStr, to: &mut [u8]) -> isize {
    // SAFETY: the kernel reads the path to its end, and writes within `to`.
    unsafe { sys!(READLINKAT, folder, path.as_ptr(), to.as_mut_ptr(), to.len()) }
}

/// Entries of a folder, whole ones (getdents(2)).
pub fn entries(folder: i32, to: &mut [u64]) -> isize {
    // SAFETY: the kernel writes within `to`.
    unsafe { sys!(GETDENTS, folder, to.as_mut_ptr(), size_of_val(to)) }
}

/// statx(2), whose struct has 256 bytes.
pub fn statx(folder: i32, path: &CStr, mask: usize, to: &mut [u64; 32]) -> isize {
    // SAFETY: the kernel reads the path to its end, and writes `to`.
    unsafe { sys!(STATX, folder, path.as_ptr(), 0, mask, to.as_mut_ptr()) }
}

/// prlimit(2): sets a limit, or tells it, or both.
pub fn limit(
    process: i32,
    which: usize,
    new: Option<&[u64; 2]>,
    old: Option<&mut [u64; 2]>,
) -> isize {
    let (new, old) = (new.map_or(null(), from_ref), old.map_or(null_mut(), |old| old));
    // SAFETY: the kernel reads the one and writes the other where they are.
    unsafe { sys!(PRLIMIT, process, which, new, old) }
}

/// sched_getattr(2).
pub fn scheduling(thread: i32, to: &mut [u8]) -> isize {
    // SAFETY: the kernel writes within `to`.
    unsafe { sys!(SCHED_GETATTR, thread, to.as_mut_ptr(), to.len(), 0) }
}

/// The cpus of a thread; answers how many bytes there are (sched_getaffinity(2)).
pub fn cpus(thread: i32, to: &mut [u64]) -> isize {
    // SAFETY: the kernel writes within `to`.
    unsafe { sys!(SCHED_GETAFFINITY, thread, size_of_val(to), to.as_mut_ptr()) }
}

/// Sets those of the calling thread (sched_setaffinity(2)).
pub fn take_cpus(cpus: &[u64]) -> isize {
    // SAFETY: the kernel reads within `cpus`.
    unsafe { sys!(SCHED_SETAFFINITY, 0, size_of_val(cpus), cpus.as_ptr()) }
}

/// Blocks these signals and no others; the former ones go to `before`.
pub fn block(signals: u64, before: Option<&mut u64>) -> isize {
    let before = before.map_or(null_mut(), |before| before);
    // SAFETY: the kernel reads the one and writes the other where it is.
    unsafe { sys!(SIGPROCMASK, SIG_SETMASK, &raw const signals, before, SET) }
}

/// Ignores a signal, or lets it do what it does by default.
pub fn ignore(signal: u64, is_ignored: bool) -> isize {
    // SIG_DFL is 0, SIG_IGN is 1.
    let action = [u64::from(is_ignored), 0, 0, 0];
    // SAFETY: the kernel reads the action; neither of the two is an address.
    unsafe { sys!(SIGACTION, signal, action.as_ptr(), 0, SET) }
}

/// True if a function handles a signal.
pub fn has_handler(signal: u64) -> bool {
    let mut action = [0u64; 4];
    // SAFETY: the kernel writes the action.
    let told = unsafe { sys!(SIGACTION, signal, 0, action.as_mut_ptr(), SET) };
    told == 0 && action[0] > 1
}

/// Wakes one that sleeps at the word.
pub fn wake(word: &AtomicU32) -> isize {
    // SAFETY: the kernel takes its address.
    unsafe { sys!(FUTEX, word.as_ptr(), FUTEX_WAKE, 1) }
}

/// Sleeps while the word is this, for so many seconds and nanoseconds at most.
pub fn sleep(word: &AtomicU32, value: u32, span: [u64; 2]) -> isize {
    // SAFETY: the kernel reads the word and the span.
    unsafe { sys!(FUTEX, word.as_ptr(), FUTEX_WAIT, value, span.as_ptr()) }
}

/// Names the calling thread.
pub fn set_name(name: &CStr) -> isize {
    // SAFETY: the kernel reads the name to its end, or 16 bytes.
    unsafe { sys!(PRCTL, PR_SET_NAME, name.as_ptr()) }
}

/// Makes a group the foreground one of a terminal.
pub fn set_foreground(terminal: i32, group: i32) -> isize {
    // SAFETY: the kernel reads the group.
    unsafe { sys!(IOCTL, terminal, TIOCSPGRP, &raw const group) }
}

/// Ends the process.
pub fn exit(code: i32) -> ! {
    // Each may be refused, but not the fault.
    // SAFETY: nothing of this thread is used afterwards.
    unsafe { sys!(EXIT, code) };
    // SAFETY: nothing of this process is used afterwards.
    unsafe { sys!(EXIT_GROUP, code) };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it does not go on.
    unsafe {
        asm!("ud2", options(noreturn))
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same.
    unsafe {
        asm!("brk #1", options(noreturn))
    }
}
