//! The child, until it executes its program. It runs in the server's memory.

use core::sync::atomic::Ordering::Relaxed;

use crate::{Job, PLACES};
use crate::sys::*;
use crate::wire::{CALLERS_LIMITS, EXECUTE, Header, MAY_FAIL, PARENT_LIVES, Step};

pub(crate) extern "C" fn child(job: *mut Job) -> ! {
    // SAFETY: the server's, which changes it with the next request.
    let job = unsafe { &*job };
    // SAFETY: as in `serve`.
    let header = unsafe { &*job.header };
    // The server has still to close those that were sent.
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
        let step = unsafe { step.add(number as usize).read_volatile() };
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
        match sys!(EXECVE, unsafe { program.add(at as usize).read_volatile() }, argv, envp) {
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
