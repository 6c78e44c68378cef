//! Any system call, by number or by name.
//!
//! The thin floor under request areas and probes: what has a safe wrapper in
//! `rustix` should be called through that.

use std::arch::asm;

use rustix::io::Errno;
use syscalls::Sysno;

/// Arguments that one system call takes at most.
pub const MAX_ARGS: usize = 6;

/// Runs system call `number` and returns what the kernel left in the register for it:
/// a result, or `-errno`. Arguments that the call does not take are ignored.
///
/// Uses neither the C library nor its `errno`.
///
/// # Safety
/// The call may do whatever system calls do: the arguments must be what call
/// `number` expects, every pointer among them must be valid for what the
/// kernel reads or writes through it, and the effect (unmapping memory, closing
/// descriptors, ending the thread, …) must not break what other code relies on.
#[inline]
pub unsafe fn raw(number: usize, args: [u64; MAX_ARGS]) -> i64 {
    let [a, b, c, d, e, f] = args;
    let result;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for this very call; the instruction itself
    // changes rcx and r11 alone, and pads with instructions that do nothing.
    unsafe {
        asm!(
            // The program goes on two bytes later, in the same line of code: near
            // a line's end that takes 2 % of a short call more.
            ".balign 64",
            "syscall",
            inlateout("rax") number as u64 => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller vouches for this very call; the kernel gives back every
    // register but x0 as it was. (Not the upper parts of SVE's, which no program for
    // this target holds anything in: Documentation/arch/arm64/sve.rst.)
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
            options(nostack, preserves_flags),
        );
    }
    result
}

/// Runs system call `number`; see [`raw`].
///
/// ```
/// use kumiki_sys::syscall;
///
/// let getpid = syscall::number("getpid").unwrap();
/// // SAFETY: getpid takes no argument and has no effect.
/// let pid = unsafe { syscall::call(getpid, [0; 6]) };
/// assert_eq!(pid, Ok(u64::from(std::process::id())));
/// ```
///
/// # Errors
/// The kernel's error number, `ENOSYS` for a call that it does not have.
///
/// # Safety
/// As for [`raw`].
#[inline]
pub unsafe fn call(number: usize, args: [u64; MAX_ARGS]) -> Result<u64, Errno> {
    // SAFETY: the caller vouches for this very call.
    result(unsafe { raw(number, args) })
}

/// Tells a result from an error: `-4095..=-1` are error numbers (`MAX_ERRNO`,
/// include/linux/err.h), everything else is a result, also a high address.
#[inline]
pub fn result(returned: i64) -> Result<u64, Errno> {
    match returned {
        -4095..=-1 => Err(Errno::from_raw_os_error(-returned as i32)),
        value => Ok(value as u64),
    }
}

/// sync_file_range(2), which libc's constants have for some processors only.
pub const SYNC_FILE_RANGE: libc::c_long = if cfg!(target_arch = "x86_64") { 277 } else { 84 };

/// Calls that the table of names lacks, which is of Linux 6.9: newer ones of it ask for more than Rust
/// 1.85. From 424 on a number is the same for all processors.
const NEWER: &[(usize, &str)] = &[
    // Called fstatat and sync_file_range2 there, as they are called elsewhere.
    #[cfg(target_arch = "aarch64")]
    (79, "newfstatat"),
    #[cfg(target_arch = "aarch64")]
    (84, "sync_file_range"),
    #[cfg(target_arch = "x86_64")]
    (335, "uretprobe"),
    #[cfg(target_arch = "x86_64")]
    (336, "uprobe"),
    (462, "mseal"),
    (463, "setxattrat"),
    (464, "getxattrat"),
    (465, "listxattrat"),
    (466, "removexattrat"),
    (467, "open_tree_attr"),
    (468, "file_getattr"),
    (469, "file_setattr"),
];

/// Numbers of the table of names that no kernel for 64-bit processors has: forms of calls with times of 64
/// bits, for those of 32 (include/uapi/asm-generic/unistd.h).
fn is_of_32_bits(number: usize) -> bool {
    cfg!(target_arch = "aarch64") && (403..=423).contains(&number)
}

/// Name of a system call of this processor's table, of x86-64 the kernel's
/// arch/x86/entry/syscalls/syscall_64.tbl; `None` for an unknown number.
pub fn name(number: usize) -> Option<&'static str> {
    let newer = NEWER.iter().find(|(newer, _)| *newer == number).map(|(_, name)| *name);
    let known = || Sysno::new(number).filter(|_| !is_of_32_bits(number));
    newer.or_else(|| known().map(|call| call.name()))
}

/// Number of a system call of this processor's table; `None` for an unknown name.
pub fn number(name: &str) -> Option<usize> {
    let newer = || NEWER.iter().find(|(_, newer)| *newer == name).map(|(number, _)| *number);
    let known = name.parse::<Sysno>().ok().map(|call| call.id() as usize);
    known.filter(|number| !is_of_32_bits(*number)).or_else(newer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_six_arguments_arrive() {
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mmap = |fd: i32, offset: u64| {
            let args = [0, 4096, libc::PROT_READ as u64, anonymous as u64, fd as u64, offset];
            // SAFETY: a new private mapping at an address of the kernel's choice.
            unsafe { call(libc::SYS_mmap as usize, args) }
        };
        // The sixth argument is looked at: an offset within a page is refused.
        assert_eq!(mmap(-1, 1), Err(Errno::INVAL));
        let address = mmap(-1, 0).unwrap();
        // SAFETY: the mapping made above, of which nobody else knows.
        let gone = unsafe { call(libc::SYS_munmap as usize, [address, 4096, 0, 0, 0, 0]) };
        assert_eq!(gone, Ok(0));
    }

    #[test]
    fn errors_and_results_are_told_apart() {
        // SAFETY: closing a descriptor that cannot be open.
        let closed = unsafe { raw(libc::SYS_close as usize, [u64::MAX, 0, 0, 0, 0, 0]) };
        assert_eq!(result(closed), Err(Errno::BADF));
        // SAFETY: no call has this number.
        let unknown = unsafe { call(100_000, [0; 6]) };
        assert_eq!(unknown, Err(Errno::NOSYS));
        assert_eq!(result(-4096), Ok(-4096i64 as u64));
        assert_eq!(result(-4095).unwrap_err().raw_os_error(), 4095);
    }

    #[test]
    fn names_and_numbers_agree_with_the_c_library() {
        for (nr, text) in [
            (libc::SYS_read, "read"),
            (libc::SYS_io_uring_setup, "io_uring_setup"),
            (libc::SYS_futex, "futex"),
            (libc::SYS_mseal, "mseal"),
        ] {
            assert_eq!(name(nr as usize), Some(text));
            assert_eq!(number(text), Some(nr as usize));
        }
        assert_eq!(name(100_000), None);
        assert_eq!(number("opne"), None);
    }
}
