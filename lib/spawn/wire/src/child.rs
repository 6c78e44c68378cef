//! The child, until it executes its program. It runs in the memory of who makes it, which is
//! the server or the calling thread itself (`lib/spawn/src/itself.rs`): it calls nothing of a C library,
//! whose own state is the maker's.

use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;

use crate::answer;
use crate::places::Places;
use crate::request::{
    self, CALLERS_CPUS, CALLERS_GROUP, CALLERS_LIMITS, CALLERS_MASK, CLOSE_ALL, CLOSE_AT_EXEC,
    COPY, EXECUTE, FOREGROUND, Header, MAPPED, MAY_FAIL, OPEN, PARENT_LIVES, PUT, Step,
};
use crate::sys;
use crate::sys::{
    AT_EMPTY_PATH, AT_FDCWD, EACCES, ENOENT, ENOTDIR, ESRCH, ETIMEDOUT, EXECVE, EXECVEAT, OPENAT,
    exit,
};
use crate::table::close_all;

/// Kinds of limits (RLIM_NLIMITS).
pub const LIMITS: usize = 16;

/// Words of a set of cpus, as many as a kernel may have (NR_CPUS on x86-64).
pub const CPU_WORDS: usize = 8192 / 64;

/// All that a child needs, which its maker leaves alone meanwhile.
#[derive(Debug)]
pub struct Job {
    /// The request.
    pub header: *const Header,
    /// The maker's descriptors by place, below 0 where nothing is. The child changes them.
    pub places: *mut i32,
    /// Number of places.
    pub places_len: usize,
    /// The caller's limits where they are others than the maker's.
    pub limits: [Option<[u64; 2]>; LIMITS],
    /// The caller.
    pub parent: i32,
    /// The caller's process group, where it is another one than the maker's; else 0.
    pub group: i32,
    /// Cpus of the thread that asks, and how many bytes of them there are, or below 0 why they
    /// cannot be told.
    pub cpus: ([u64; CPU_WORDS], isize),
    /// Signals that the thread that asks blocks.
    pub mask: u64,
    /// The child has the maker's handlers, which must not run in its memory.
    pub has_handlers: bool,
}

/// `struct clone_args` of clone3(2).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the manual has them")]
pub struct CloneArgs {
    pub flags: u64,
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
    pub exit_signal: u64,
    pub stack: u64,
    pub stack_size: u64,
    pub tls: u64,
    pub set_tid: u64,
    pub set_tid_size: u64,
    pub cgroup: u64,
}

/// Clones by clone3(2) or clone(2), which have two arguments each for what the other has not; the
/// child's number, or below 0 why there is none.
///
/// # Safety
/// The stack that `args` or `first` name is the child's alone, and `job`, with what it points to,
/// stays as it is until the child has another memory. The flags have CLONE_VFORK.
pub unsafe fn clone(number: usize, first: [usize; 2], args: &CloneArgs, job: *mut Job) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise: the child begins on a stack of its own, calls `child`, which
    // does not return, and this thread sleeps until it has another memory or has ended.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13",
            "ud2", "2:",
            inlateout("rax") number as isize => result, in("rdi") first[0], in("rsi") first[1],
            in("rdx") args.parent_tid, in("r10") args.child_tid, in("r8") 0,
            in("r12") job, in("r13") child, lateout("rcx") _, lateout("r11") _);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same. Here clone(2) has the thread's own memory before the child's word.
    unsafe {
        asm!("svc 0", "cbnz x0, 2f", "mov x29, xzr", "mov x30, xzr", "mov x0, x20", "blr x21",
            "brk #1", "2:",
            in("x8") number, inlateout("x0") first[0] => result, in("x1") first[1],
            in("x2") args.parent_tid, in("x3") 0, in("x4") args.child_tid,
            in("x20") job, in("x21") child);
    }
    result
}

extern "C" fn child(job: *mut Job) -> ! {
    // SAFETY: the maker's, which changes it with the next request.
    let job = unsafe { &*job };
    // SAFETY: the maker's, too.
    let header = unsafe { &*job.header };
    let (failed, why) = become_it(job, header);
    header.failed.store(failed, Relaxed);
    header.errno.store(-why as i32, Relaxed);
    exit(127)
}

/// Carries out the steps and executes the program; returns what of them failed, and why.
fn become_it(job: &Job, header: &Header) -> (u32, isize) {
    // SAFETY: so many, and the child's alone.
    let mut places = unsafe { Places::new(job.places, job.places_len) };
    if job.has_handlers {
        drop_handlers();
    }
    for number in 0..header.steps {
        let step = header.step as *const Step;
        // SAFETY: the library has written so many, and waits.
        let step = unsafe { step.wrapping_add(number as usize).read_volatile() };
        let result = carry_out(job, &mut places, &step);
        if result < 0 && step.flags & MAY_FAIL == 0 {
            return (step.what, result);
        }
    }
    (EXECUTE, execute(header, &places))
}

/// Returns why it is none.
fn execute(header: &Header, places: &Places<'_>) -> isize {
    let (argv, envp) = (header.argv, header.envp);
    if header.image > 0 {
        let fd = places.at(u64::from(header.image - 1));
        // SAFETY: the library has written the lists, and waits.
        return unsafe { sys!(EXECVEAT, fd, c"".as_ptr(), argv, envp, AT_EMPTY_PATH) };
    }
    let (mut why, mut last) = (0, ENOENT);
    for at in 0..header.programs {
        let program = header.program as *const usize;
        // SAFETY: as the steps.
        let program = unsafe { program.wrapping_add(at as usize).read_volatile() };
        // SAFETY: as the lists above.
        match unsafe { sys!(EXECVE, program, argv, envp) } {
            absent @ (ENOENT | ENOTDIR) => last = absent,
            // As execvp(3): goes on searching, and tells of one that may not be executed.
            EACCES => why = EACCES,
            other => return other,
        }
    }
    // Where none is there, the last answer.
    if why == 0 { last } else { why }
}

fn carry_out(job: &Job, places: &mut Places<'_>, step: &Step) -> isize {
    let [a, b, c, d] = step.args;
    match step.call {
        PUT => places.put(a, b as i32, c != 0),
        OPEN => open(places, a, [b, c, d]),
        COPY if a == b => keep(a),
        COPY => match places.make_way(b as i32) {
            0 => sys::dup2(a as i32, b as i32),
            refused => refused,
        },
        request::CLOSE => match places.make_way(a as i32) {
            0 => sys::close(a as i32),
            refused => refused,
        },
        CLOSE_ALL => places.close_all(a as u32, b as u32),
        CLOSE_AT_EXEC => close_all(a as u32, b as u32, true),
        FOREGROUND => sys::set_foreground(a as i32, sys::getpgid(0) as i32),
        CALLERS_LIMITS => {
            for (number, limit) in job.limits.iter().enumerate() {
                if let Some(limit) = limit {
                    // What it may not raise stays lower.
                    sys::limit(0, number, Some(limit), None);
                }
            }
            0
        }
        PARENT_LIVES => {
            let lives = parent_lives(job, places, a);
            places.is_used(a.wrapping_sub(1));
            lives
        }
        // SAFETY: the maker's.
        MAPPED => mapped(unsafe { &*job.header }, job.parent),
        CALLERS_GROUP if job.group == 0 => 0,
        CALLERS_GROUP => sys::setpgid(0, job.group),
        CALLERS_CPUS if job.cpus.1 < 0 => job.cpus.1,
        CALLERS_CPUS => sys::take_cpus(&job.cpus.0[..job.cpus.1 as usize / size_of::<u64>()]),
        CALLERS_MASK => sys::block(job.mask, None),
        call => {
            let mut args = step.args;
            let is_place = |at: usize| step.flags & 1 << at != 0;
            for (_, arg) in args.iter_mut().enumerate().filter(|(at, _)| is_place(*at)) {
                *arg = places.at(*arg) as u64;
            }
            // SAFETY: a step of the library's, whose arguments it has written for this call.
            let result = unsafe { sys!(call, args[0], args[1], args[2], args[3]) };
            for (_, place) in step.args.iter().enumerate().filter(|(at, _)| is_place(*at)) {
                places.is_used(*place);
            }
            result
        }
    }
}

/// Checks that the parent lives, whose end from here on is told by a signal: `place`, less 1, has
/// its pidfd. A child of a pid namespace that its parent is not in sees no number of it, neither
/// while it lives nor after; then the pidfd tells.
fn parent_lives(job: &Job, places: &Places<'_>, place: u64) -> isize {
    match sys::getppid() {
        parent if parent == job.parent as isize => 0,
        // A kernel without pidfds.
        0 if place == 0 => 0,
        0 if !sys::is_readable(places.at(place - 1)) => 0,
        _ => ESRCH,
    }
}

/// Opens as POSIX has it of posix_spawn_file_actions_addopen: the former owner of the number is
/// closed first.
fn open(places: &mut Places<'_>, fd: u64, [path, flags, mode]: [u64; 3]) -> isize {
    match places.make_way(fd as i32) {
        0 => sys::close(fd as i32),
        refused => return refused,
    };
    // SAFETY: the library has written the path, and waits.
    let opened = unsafe { sys!(OPENAT, AT_FDCWD, path, flags, mode) };
    if opened < 0 || opened == fd as isize {
        return opened;
    }
    let copied = sys::dup2(opened as i32, fd as i32);
    sys::close(opened as i32);
    copied
}

/// A copy to itself: exec does not close it.
fn keep(fd: u64) -> isize {
    match sys::is_closed_at_exec(fd as i32) {
        1 => sys::close_at_exec(fd as i32, false),
        told => told,
    }
}

/// Gives each signal with a handler its default.
fn drop_handlers() {
    for signal in (1..=64).filter(|signal| sys::has_handler(*signal)) {
        sys::ignore(signal, false);
    }
}

/// Waits until the library has written the maps, as long as its process lives: of a pid
/// namespace of its own the child cannot tell, and waits for a time.
fn mapped(header: &Header, parent: i32) -> isize {
    const SPAN: [u64; 2] = [10, 0];
    let wake = || _ = sys::wake(&header.state);
    let is_mapped = answer::until_mapped(&header.state, wake, |state| {
        let slept = sys::sleep(&header.state, state, SPAN);
        slept != ETIMEDOUT || sys::getppid() == parent as isize
    });
    if !is_mapped {
        return ETIMEDOUT;
    }
    header.mapped.load(Relaxed) as isize
}
