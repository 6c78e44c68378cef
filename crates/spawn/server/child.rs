//! The child, until it executes its program. It runs in the memory of who makes it, which is
//! the server or the calling thread itself (`src/itself.rs`): it calls nothing of a C library,
//! whose own state is the maker's.

use core::arch::asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::sys::*;
use super::wire::{
    CALLERS_CPUS, CALLERS_GROUP, CALLERS_LIMITS, EXECUTE, FOLDER, Header, MAPPED, MAPS, MAY_FAIL,
    OWN, PARENT_LIVES, Step,
};

pub(crate) const LIMITS: usize = 16;
/// Descriptors of a message, and what the server takes itself.
pub(crate) const PLACES: usize = OWN + FOLDER + 1;

/// Of cpus, as many as a kernel may have (NR_CPUS on x86-64).
pub(crate) const CPU_WORDS: usize = 8192 / 64;

/// All that a child needs, which its maker leaves alone meanwhile.
pub(crate) struct Job {
    pub(crate) header: *const Header,
    /// Below 0 where nothing is.
    pub(crate) fds: [i32; PLACES],
    /// How many of the message.
    pub(crate) got: usize,
    /// The caller's limits where they are others than the maker's.
    pub(crate) limits: [Option<[u64; 2]>; LIMITS],
    pub(crate) parent: isize,
    /// Of the caller, where it is another one than the maker's; else 0.
    pub(crate) group: isize,
    /// Of the thread that asks, and how many bytes of them there are, or below 0 why they
    /// cannot be told.
    pub(crate) cpus: ([u64; CPU_WORDS], isize),
}

/// Of clone3(2).
#[repr(C)]
pub(crate) struct CloneArgs {
    pub(crate) flags: u64,
    pub(crate) pidfd: u64,
    pub(crate) child_tid: u64,
    pub(crate) parent_tid: u64,
    pub(crate) exit_signal: u64,
    pub(crate) stack: u64,
    pub(crate) stack_size: u64,
    pub(crate) tls: u64,
    pub(crate) set_tid: u64,
    pub(crate) set_tid_size: u64,
    pub(crate) cgroup: u64,
}

/// By clone3(2) or clone(2), which have two arguments each for what the other has not; the
/// child's number, or below 0 why there is none.
pub(crate) fn clone(number: usize, first: [usize; 2], args: &CloneArgs, job: *mut Job) -> isize {
    let result: isize;
    // SAFETY: the child begins on a stack of its own, calls `child`, which does not
    // return, and this thread sleeps until it has another memory or has ended.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13",
            "ud2", "2:",
            inlateout("rax") number as isize => result, in("rdi") first[0], in("rsi") first[1],
            in("rdx") args.parent_tid, in("r10") args.child_tid, in("r8") 0,
            in("r12") job, in("r13") child, lateout("rcx") _, lateout("r11") _);
    }
    result
}

extern "C" fn child(job: *mut Job) -> ! {
    // SAFETY: the maker's, which changes it with the next request.
    let job = unsafe { &*job };
    // SAFETY: the maker's, too.
    let header = unsafe { &*job.header };
    // The maker has still to close those that were sent.
    let mut fds = job.fds;
    let (failed, why) = become_it(job, &mut fds, header);
    header.failed.store(failed, Relaxed);
    header.errno.store(-why as i32, Relaxed);
    exit(127)
}

/// Makes the steps and executes the program; returns which of them failed, and why.
fn become_it(job: &Job, fds: &mut [i32; PLACES], header: &Header) -> (u32, isize) {
    if header.above > 0 {
        for fd in fds.iter_mut().filter(|fd| (0..header.above as i32).contains(*fd)) {
            let moved = sys!(FCNTL, *fd, F_DUPFD_CLOEXEC, header.above);
            if moved < 0 {
                return (DUP2 as u32, moved);
            }
            // The old number is one that was asked for, or else not open in the program.
            *fd = moved as i32;
        }
    }
    for number in 0..header.steps {
        let step = header.step as *const Step;
        // SAFETY: the library has written so many, and waits.
        let step = unsafe { step.wrapping_add(number as usize).read_volatile() };
        let result = make(job, fds, &step);
        if result < 0 && step.flags & MAY_FAIL == 0 {
            return (step.call, result);
        }
    }
    let (argv, envp) = (header.argv, header.envp);
    if header.image > 0 {
        const EMPTY_PATH: usize = 0x1000;
        let fd = fds[(header.image - 1) as usize % PLACES];
        return (EXECUTE, sys!(EXECVEAT, fd, c"".as_ptr(), argv, envp, EMPTY_PATH));
    }
    let mut why = ENOENT;
    for at in 0..header.programs {
        let program = header.program as *const usize;
        // SAFETY: as the steps.
        match sys!(EXECVE, unsafe { program.wrapping_add(at as usize).read_volatile() }, argv, envp)
        {
            // As execvp(3): goes on searching, and tells of one that may not be executed.
            EACCES => why = EACCES,
            ENOENT | ENOTDIR => {}
            other => return (EXECUTE, other),
        }
    }
    (EXECUTE, why)
}

fn make(job: &Job, fds: &[i32; PLACES], step: &Step) -> isize {
    match step.call {
        CALLERS_LIMITS => {
            for (number, limit) in job.limits.iter().enumerate() {
                if let Some(limit) = limit {
                    // What it may not raise stays lower.
                    sys!(PRLIMIT, 0, number, limit.as_ptr(), 0);
                }
            }
            0
        }
        PARENT_LIVES if sys!(GETPPID) != job.parent => ESRCH,
        PARENT_LIVES => 0,
        // SAFETY: the maker's.
        MAPPED => mapped(unsafe { &*job.header }, job.parent),
        CALLERS_GROUP if job.group == 0 => 0,
        CALLERS_GROUP => sys!(SETPGID, 0, job.group),
        CALLERS_CPUS if job.cpus.1 < 0 => job.cpus.1,
        CALLERS_CPUS => sys!(SCHED_SETAFFINITY, 0, job.cpus.1, job.cpus.0.as_ptr()),
        call => {
            let mut args = step.args;
            for (at, arg) in args.iter_mut().enumerate() {
                if step.flags & 1 << at != 0 {
                    *arg = fds[*arg as usize % PLACES] as u64;
                }
            }
            let [a, b, c, d, e] = args;
            sys!(call, a, b, c, d, e)
        }
    }
}

/// Waits until the library has written the maps, as long as its process lives: of a pid
/// namespace of its own the child cannot tell, and waits for a time.
fn mapped(header: &Header, parent: isize) -> isize {
    const SPAN: [u64; 2] = [10, 0];
    // Release and acquire: partners are the library's.
    header.state.store(MAPS, Release);
    sys!(FUTEX, &raw const header.state, 1, 1);
    while header.state.load(Acquire) == MAPS {
        let slept = sys!(FUTEX, &raw const header.state, 0, MAPS, SPAN.as_ptr());
        if slept == ETIMEDOUT && sys!(GETPPID) != parent {
            return ETIMEDOUT;
        }
    }
    header.mapped.load(Relaxed) as isize
}
