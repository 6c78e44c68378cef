//! An ordinary program in Rust: does what `ordinary.c` does.

use std::env::args;
use std::ffi::{c_int, c_long};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Words of `struct rusage`.
type Usage = [c_long; 18];

#[repr(C)]
struct Stamp {
    clock: [c_long; 2],
    own: Usage,
    children: Usage,
}

/// Answer as `answer.rs` reads it.
#[repr(C)]
struct Answer {
    done: u64,
    at: i64,
    error: i64,
    start: Stamp,
    end: Stamp,
}

const STAMP: Stamp = Stamp { clock: [0; 2], own: [0; 18], children: [0; 18] };

unsafe extern "C" {
    safe fn fork() -> c_int;
    safe fn _exit(status: c_int) -> !;
    safe fn prctl(option: c_int, ...) -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn clock_gettime(clock: c_int, to: *mut [c_long; 2]) -> c_int;
    fn getrusage(who: c_int, to: *mut Usage) -> c_int;
}

const CLOCK_MONOTONIC_RAW: c_int = 4;
const PR_SET_PDEATHSIG: c_int = 1;
const PR_SET_THP_DISABLE: c_int = 41;
const RUSAGE: [c_int; 2] = [0, -1];
const SIGKILL: c_long = 9;
// System calls, as the kernel numbers them.
const FORK: i64 = 57;
const EXECVE: i64 = 59;
const WAIT4: i64 = 61;
const PRCTL: i64 = 157;

impl Stamp {
    fn take_clock(&mut self) {
        // SAFETY: a `struct timespec` to write to.
        unsafe { clock_gettime(CLOCK_MONOTONIC_RAW, &mut self.clock) };
    }

    fn take_usage(&mut self) {
        for (who, usage) in RUSAGE.into_iter().zip([&mut self.own, &mut self.children]) {
            // SAFETY: a `struct rusage` to write to.
            unsafe { getrusage(who, usage) };
        }
    }

    fn bytes(&mut self) -> &mut [u8; size_of::<Stamp>()] {
        // SAFETY: words without gaps between them, and any bytes are such words.
        unsafe { &mut *(&raw mut *self).cast() }
    }
}

impl Answer {
    fn say(&self) {
        // SAFETY: words without gaps between them.
        let bytes = unsafe { &*(&raw const *self).cast::<[u8; size_of::<Answer>()]>() };
        let mut answers = file(1);
        if answers.write_all(bytes).is_err() {
            _exit(0);
        }
    }

    fn fail(&mut self, call: i64, error: i64) -> ! {
        (self.at, self.error) = (call, error);
        self.say();
        _exit(1)
    }

    fn fail_with_errno(&mut self, call: i64, error: &Error) -> ! {
        self.fail(call, -i64::from(error.raw_os_error().unwrap_or(1)))
    }

    /// Dies with the harness, and has ordinary pages only.
    fn settle(&mut self) {
        let zero: c_long = 0;
        let dies = prctl(PR_SET_PDEATHSIG, SIGKILL);
        if dies < 0 || prctl(PR_SET_THP_DISABLE, 1 as c_long, zero, zero, zero) < 0 {
            self.fail_with_errno(PRCTL, &Error::last_os_error());
        }
    }

    fn fork_and_wait(&mut self) {
        let child = fork();
        if child == 0 {
            _exit(0);
        }
        if child < 0 {
            self.fail_with_errno(FORK, &Error::last_os_error());
        }
        let mut status = 0;
        // SAFETY: an int to write to.
        while unsafe { waitpid(child, &mut status, 0) } < 0 {
            let error = Error::last_os_error();
            if error.kind() != ErrorKind::Interrupted {
                self.fail_with_errno(WAIT4, &error);
            }
        }
        if status != 0 {
            self.fail(WAIT4, status.into());
        }
    }

    fn forking(&mut self) -> ! {
        self.settle();
        loop {
            self.say();
            let mut count = [0; 8];
            hear(&mut count);
            self.done = 0;
            self.start.take_usage();
            self.start.take_clock();
            for _ in 0..u64::from_ne_bytes(count) {
                self.fork_and_wait();
                self.done += 1;
            }
            self.end.take_clock();
            self.end.take_usage();
        }
    }

    fn execing(&mut self, own: &str, counter: &str) -> ! {
        let number = |digits: &str| digits.parse::<u64>().unwrap_or_else(|_| _exit(2));
        let mut left = number(counter);
        while left == 0 {
            self.end.take_clock();
            self.end.take_usage();
            self.settle();
            let notebook = file(2);
            notebook.read_at(self.start.bytes(), 0).unwrap_or_else(|_| _exit(3));
            self.say();
            let mut digits = [0; 10];
            hear(&mut digits);
            self.start.take_usage();
            self.start.take_clock();
            notebook.write_at(self.start.bytes(), 0).unwrap_or_else(|_| _exit(3));
            left = number(std::str::from_utf8(&digits).unwrap_or_default());
        }
        let error = Command::new(own).arg("exec").arg(format!("{:010}", left - 1)).exec();
        self.fail_with_errno(EXECVE, &error)
    }
}

/// A descriptor that stays open.
fn file(fd: c_int) -> ManuallyDrop<File> {
    // SAFETY: the harness gives it, and it is never closed.
    ManuallyDrop::new(unsafe { File::from_raw_fd(fd) })
}

/// Reads a whole command; fewer bytes mean that the harness has gone.
fn hear(to: &mut [u8]) {
    if file(0).read_exact(to).is_err() {
        _exit(0);
    }
}

fn main() {
    let mut answer = Answer { done: 0, at: 0, error: 0, start: STAMP, end: STAMP };
    let arguments: Vec<String> = args().collect();
    match &arguments[..] {
        [_, verb] if verb == "fork" => answer.forking(),
        [own, verb, counter] if verb == "exec" => answer.execing(own, counter),
        _ => {}
    }
}
