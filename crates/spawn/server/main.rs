//! The spawn server: makes processes whose parent is not it but the one who asks.
//!
//! It is so small that a child by clone3 costs the least that the kernel can do, however
//! large the process is for which it works. No C library, no heap: a stack, the memory
//! that it shares (`src/wire.rs`), and a message for each request.
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

#[path = "../src/wire.rs"]
#[allow(dead_code, reason = "each side uses a part")]
mod wire;

use wire::{ASKED, BYTES, DATA, DONE, Header, TAKEN};

const CLOSE: usize = 3;
const MMAP: usize = 9;
const SIGPROCMASK: usize = 14;
const SIGACTION: usize = 13;
const DUP2: usize = 33;
const RECVMSG: usize = 47;
const EXECVE: usize = 59;
const EXIT: usize = 60;
const FCNTL: usize = 72;
const CHDIR: usize = 80;
const FCHDIR: usize = 81;
const SETPGID: usize = 109;
const GETPPID: usize = 110;
const GETPGID: usize = 121;
const FUTEX: usize = 202;
const SETAFFINITY: usize = 203;
const PRLIMIT: usize = 302;
const CLONE3: usize = 435;
const CLOSE_RANGE: usize = 436;

const F_DUPFD_CLOEXEC: usize = 1030;
/// Above the standard ones, and what a message brings.
const SOCKET: usize = 10;
const LIMITS: usize = 16;
/// Descriptors of a message: the folder, and the standard ones.
const MOST: usize = 4;
const ENOENT: isize = -2;
const EACCES: isize = -13;
const ENOTDIR: isize = -20;
const E2BIG: isize = -7;

/// Arguments and variables, as pointers. Not more than strings fit beside them.
const POINTERS: usize = 512 << 10;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(70)
}

// `core` names it, and nothing unwinds here.
global_asm!(".globl rust_eh_personality", "rust_eh_personality:", "ud2");

// The stack is aligned by the kernel; a call would see it eight off.
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {main}", "ud2", main = sym main);

/// # Safety
/// As the call that is made.
unsafe fn call(number: usize, args: [usize; 6]) -> isize {
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
        let mut args = [0; 6];
        let given = [$($arg as usize),*];
        let mut at = 0;
        while at < given.len() {
            args[at] = given[at];
            at += 1;
        }
        // SAFETY: numbers, and pointers to memory of this program of the length that the
        // call works with.
        unsafe { call($number, args) }
    }};
}

fn exit(code: i32) -> ! {
    loop {
        sys!(EXIT, code);
    }
}

#[repr(C)]
struct Limit([u64; 2]);

#[repr(C)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

#[repr(C, align(16))]
struct Stack([u8; 32 << 10]);

/// All that a child needs. It runs in this program's memory, which waits meanwhile.
struct Job {
    header: *mut Header,
    fds: [i32; MOST],
    /// The caller's limits where they are others than ours.
    limits: [Option<[u64; 2]>; LIMITS],
    pointers: *mut *const u8,
}

static mut STACK: Stack = Stack([0; 32 << 10]);

extern "C" fn main() -> ! {
    // 0 is the socket, 1 the memory, 2 a null device. What else the caller had open at
    // that time is nothing for its children.
    sys!(CLOSE_RANGE, 3, u32::MAX, 0);
    for fd in 0..2 {
        let kept = sys!(FCNTL, fd, F_DUPFD_CLOEXEC, SOCKET);
        if kept != (SOCKET + fd) as isize {
            exit(71);
        }
        sys!(DUP2, 2, fd);
    }
    let header = map(BYTES, 1, SOCKET + 1).cast::<Header>();
    let pointers = map(POINTERS * 8, 0x22, usize::MAX).cast();
    // Those of the terminal and of the group are meant for the program.
    let all = u64::MAX;
    sys!(SIGPROCMASK, 2, &raw const all, 0, 8);
    let mut own = [const { Limit([0; 2]) }; LIMITS];
    for (number, limit) in own.iter_mut().enumerate() {
        sys!(PRLIMIT, 0, number, 0, limit as *mut Limit);
    }
    loop {
        let mut job = Job { header, fds: [-1; MOST], limits: [None; LIMITS], pointers };
        if !receive(&mut job.fds) {
            exit(0);
        }
        serve(&mut job, &own);
        for fd in job.fds {
            if fd >= 0 {
                sys!(CLOSE, fd);
            }
        }
    }
}

fn map(bytes: usize, flags: usize, fd: usize) -> *mut u8 {
    let at = sys!(MMAP, 0, bytes, 3, flags, fd, 0);
    if at < 0 && at > -4096 {
        exit(72);
    }
    at as *mut u8
}

/// Waits for a message; `false` if nobody is left to send one.
fn receive(fds: &mut [i32; MOST]) -> bool {
    #[repr(C, align(8))]
    struct Control {
        len: usize,
        level: i32,
        kind: i32,
        fds: [i32; MOST],
    }
    #[repr(C)]
    struct Message {
        name: usize,
        name_len: usize,
        parts: *mut [usize; 2],
        parts_len: usize,
        control: *mut Control,
        control_len: usize,
        flags: usize,
    }
    const CMSG_CLOEXEC: usize = 0x4000_0000;
    let mut byte = 0u8;
    let mut part = [&raw mut byte as usize, 1];
    let mut control = Control { len: 0, level: 0, kind: 0, fds: [-1; MOST] };
    let mut message = Message {
        name: 0,
        name_len: 0,
        parts: &raw mut part,
        parts_len: 1,
        control: &raw mut control,
        control_len: size_of::<Control>(),
        flags: 0,
    };
    if sys!(RECVMSG, SOCKET, &raw mut message, CMSG_CLOEXEC) != 1 {
        return false;
    }
    // 16 bytes before the descriptors.
    let got = control.len.saturating_sub(16) / 4;
    for (at, fd) in fds.iter_mut().enumerate().take(got) {
        *fd = control.fds[at];
    }
    true
}

fn serve(job: &mut Job, own: &[Limit; LIMITS]) {
    // SAFETY: mapped for as long as this runs; the other side waits.
    let header = unsafe { &*job.header };
    if header.state.compare_exchange(ASKED, TAKEN, Acquire, Relaxed).is_err() {
        return;
    }
    let parent = sys!(GETPPID);
    for (number, own) in own.iter().enumerate() {
        let mut its = Limit([0; 2]);
        if sys!(PRLIMIT, parent, number, 0, &raw mut its) == 0 && its.0 != own.0 {
            job.limits[number] = Some(its.0);
        }
    }
    let failed = match fill(header, job.pointers) {
        true => start(job),
        false => E2BIG,
    };
    if failed < 0 {
        header.errno.store(-failed as i32, Relaxed);
    }
    header.state.store(DONE, Release);
    sys!(FUTEX, &raw const header.state, 1, 1);
}

/// Where each string begins: programs, arguments, a null, variables, a null, the folder.
fn fill(header: &Header, pointers: *mut *const u8) -> bool {
    let strings = header.programs as usize + header.args as usize + header.env as usize;
    if strings + 3 > POINTERS {
        return false;
    }
    let (end, base) = (DATA + header.bytes as usize, ptr::from_ref(header).cast::<u8>());
    let (mut at, mut slot) = (DATA, 0);
    let put = |slot: &mut usize, pointer: *const u8| {
        // SAFETY: fewer than POINTERS, as counted above.
        unsafe { pointers.add(*slot).write(pointer) };
        *slot += 1;
    };
    let after_args = (header.programs + header.args) as usize;
    for number in 0..strings + header.has_folder as usize {
        if number == after_args {
            put(&mut slot, ptr::null());
        }
        if number == strings {
            put(&mut slot, ptr::null());
        }
        if at >= end {
            return false;
        }
        put(&mut slot, base.wrapping_add(at));
        // SAFETY: within the mapping: each string ends before `end`, which the library
        // has kept within it.
        while unsafe { base.add(at).read_volatile() } != 0 {
            at += 1;
        }
        at += 1;
    }
    if strings == after_args {
        put(&mut slot, ptr::null());
    }
    if header.has_folder == 0 {
        put(&mut slot, ptr::null());
    }
    true
}

/// Makes the child; its error number below 0 if there is none.
fn start(job: &mut Job) -> isize {
    const VM: u64 = 0x100;
    const VFORK: u64 = 0x4000;
    const PARENT: u64 = 0x8000;
    const PARENT_SETTID: u64 = 0x0010_0000;
    // SAFETY: as in `serve`.
    let header = unsafe { &*job.header };
    // With CLONE_PARENT the signal at its end is ours: SIGCHLD.
    let args = CloneArgs {
        flags: VM | VFORK | PARENT | PARENT_SETTID,
        pidfd: 0,
        child_tid: 0,
        parent_tid: &raw const header.pid as u64,
        exit_signal: 0,
        stack: &raw mut STACK as u64,
        stack_size: size_of::<Stack>() as u64,
        tls: 0,
    };
    let result: isize;
    // SAFETY: the child begins on a stack of its own, calls `child`, which does not
    // return, and this thread sleeps until it has another memory or has ended.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13",
            "ud2", "2:",
            inlateout("rax") CLONE3 as isize => result, in("rdi") &raw const args,
            in("rsi") size_of::<CloneArgs>(), in("r12") ptr::from_mut(job), in("r13") child,
            lateout("rcx") _, lateout("r11") _);
    }
    result.min(0)
}

extern "C" fn child(job: *mut Job) -> ! {
    // SAFETY: the server's, which waits.
    let job = unsafe { &*job };
    // SAFETY: as in `serve`.
    let header = unsafe { &*job.header };
    let failed = become_it(job, header);
    header.errno.store(-failed as i32, Relaxed);
    exit(127)
}

/// Puts itself in order and executes the program; returns why that failed.
fn become_it(job: &Job, header: &Header) -> isize {
    let mut next = 1;
    for fd in 0..3 {
        if header.standard & 1 << fd == 0 {
            sys!(CLOSE, fd);
        } else {
            // The copy stays open at exec, what the message has brought does not. Those
            // are above 2, where the server has something all the time.
            let done = sys!(DUP2, job.fds[next], fd);
            if done < 0 {
                return done;
            }
            next += 1;
        }
    }
    // SAFETY: filled by `fill`: programs, arguments, null, variables, null, folder.
    let pointer = |at: usize| unsafe { job.pointers.add(at) };
    let (programs, args, env) =
        (header.programs as usize, header.args as usize, header.env as usize);
    let folder = pointer(programs + args + env + 2);
    let here = sys!(FCHDIR, job.fds[0]);
    if here < 0 {
        return here;
    }
    if header.has_folder != 0 {
        // SAFETY: the last pointer.
        let there = sys!(CHDIR, unsafe { folder.read() });
        if there < 0 {
            return there;
        }
    }
    if header.group_is_asked != 0 || header.group != sys!(GETPGID, 0) as i32 {
        let joined = sys!(SETPGID, 0, header.group);
        if joined < 0 && header.group_is_asked != 0 {
            return joined;
        }
    }
    for (number, limit) in job.limits.iter().enumerate() {
        if let Some(limit) = limit {
            // What it may not raise stays lower.
            sys!(PRLIMIT, 0, number, limit.as_ptr(), 0);
        }
    }
    if header.cpu_words > 0 {
        sys!(SETAFFINITY, 0, header.cpu_words * 8, header.cpus.as_ptr());
    }
    // As the standard library does: no signal blocked, and SIGPIPE ends it.
    let default = [0u64; 4];
    sys!(SIGACTION, 13, default.as_ptr(), 0, 8);
    let none = 0u64;
    sys!(SIGPROCMASK, 2, &raw const none, 0, 8);
    let (argv, envp) = (pointer(programs), pointer(programs + args + 1));
    let mut why = ENOENT;
    for at in 0..programs {
        // SAFETY: one of the programs.
        match sys!(EXECVE, unsafe { pointer(at).read() }, argv, envp) {
            // As execvp(3): goes on searching, and tells of one that may not be executed.
            EACCES => why = EACCES,
            ENOENT | ENOTDIR => {}
            other => return other,
        }
    }
    why
}

/// # Safety
/// As memcpy(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As memset(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As memcmp(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for at in 0..len {
        // SAFETY: the caller's promise.
        let (a, b) = (unsafe { a.add(at).read_volatile() }, unsafe { b.add(at).read_volatile() });
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}
