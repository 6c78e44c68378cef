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

mod asker;
#[path = "../src/bell.rs"]
#[allow(dead_code, reason = "the library rings")]
mod bell;
mod child;
mod held;
mod mem;
mod sys;
#[path = "../src/wire.rs"]
#[allow(dead_code, reason = "each side uses a part")]
mod wire;

use asker::{Asker, Record};
use bell::Hand;
use child::{CPU_WORDS, CloneArgs, Job, LIMITS, PLACES};
use held::Held;
use sys::*;
use wire::{
    ANOTHER, ASKED, AT_BELL, BASE, BYTES, DONE, FDS, Header, MAKE, READY, SEND, TAKEN,
};

/// Above the standard ones.
const SOCKET: usize = 10;
const NPROC: usize = 6;
const NOFILE: usize = 7;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(70)
}

// `core` names it, and nothing unwinds here.
global_asm!(".globl rust_eh_personality", "rust_eh_personality:", "ud2");

// The stack is aligned by the kernel; a call would see it eight off.
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {main}", "ud2", main = sym main);

#[repr(C, align(16))]
struct Stack([u8; 32 << 10]);

/// Who may ask.
struct Askers {
    /// The folder of the parent's threads.
    tasks: isize,
    first: Asker,
    /// Another one that has asked, with what is open of it.
    other: Option<Asker>,
    /// What the first one was at the start, and has to be.
    right: Record,
    now: Record,
    secure_bits: i32,
    /// The next request needs no look.
    at_once: bool,
    /// What this program ignores itself, so that its children do.
    ignored: u64,
}

static mut STACK: Stack = Stack([0; 32 << 10]);

extern "C" fn main() -> ! {
    // 0 is the socket, 1 the memory, 2 a null device. What else the caller had open at
    // that time is nothing for its children.
    sys!(CLOSE_RANGE, 3, u32::MAX, 0);
    let mut own = [[0u64; 2]; LIMITS];
    for (number, limit) in own.iter_mut().enumerate() {
        sys!(PRLIMIT, 0, number, 0, limit.as_mut_ptr());
    }
    // A child may want a descriptor beyond the caller's limit of now, as the two below are.
    own[NOFILE][0] = own[NOFILE][1];
    sys!(PRLIMIT, 0, NOFILE, own[NOFILE].as_ptr(), 0);
    for fd in 0..2 {
        let kept = sys!(FCNTL, fd, F_DUPFD_CLOEXEC, SOCKET);
        if kept != (SOCKET + fd) as isize {
            exit(71);
        }
        sys!(DUP2, 2, fd);
    }
    let at = map(SOCKET + 1);
    // SAFETY: mapped for as long as this runs; beside atomics only the library writes, and
    // waits once it has asked.
    let header = unsafe { &*at };
    // Those of the terminal and of the group are meant for the program.
    let all = u64::MAX;
    sys!(SIGPROCMASK, 2, &raw const all, 0, 8);
    let parent = sys!(GETPPID);
    let mut askers = Askers::new(parent, header);
    // Release: partner is the library's load. From here on its thread may change.
    header.state.store(READY, Release);
    sys!(FUTEX, &raw const header.state, 1, 1);
    let cpus = ([0; CPU_WORDS], 0);
    let (fds, limits) = ([-1; PLACES], [None; LIMITS]);
    let mut job = Job { header: at, fds, got: 0, limits, parent, group: 0, cpus };
    let group = sys!(GETPGID, 0);
    let mut held = Held::new();
    while is_asked(&mut job, header, &mut held) {
        // The next request may be there before this one's end has been seen.
        let tells = header.tells != 0;
        serve(&mut job, header, (&mut own, group), &mut askers, &mut held);
        if tells {
            sys!(WRITE, SOCKET, c"".as_ptr(), 1);
        }
        clear(&mut job, &held);
    }
    exit(0)
}

fn map(fd: usize) -> *const Header {
    const SHARED_FIXED: usize = 0x10_0001;
    let at = sys!(MMAP, BASE, BYTES, 3, SHARED_FIXED, fd, 0);
    if at != BASE as isize {
        exit(72);
    }
    BASE as *const Header
}

/// Where this program sleeps: for some time at the bell, which is the cheapest to ring, then at
/// the socket, which tells too when the caller has ended.
struct Places<'a> {
    job: &'a mut Job,
    header: &'a Header,
    held: &'a mut Held,
    /// The number of the message that was received last, and is in `job`.
    message: &'a mut Option<u32>,
}

impl bell::Server for Places<'_> {
    fn takes(&mut self) -> bool {
        // Acquire: partner is the library's release, after it has written the request.
        self.header.state.compare_exchange(ASKED, TAKEN, Acquire, Relaxed).is_ok()
    }

    fn sleep(&mut self) -> bool {
        const SPAN: [u64; 2] = [0, 10_000_000];
        sys!(FUTEX, &raw const self.header.bell, 0, AT_BELL, SPAN.as_ptr()) == ETIMEDOUT
    }

    fn leave(&mut self) {
        self.held.close(self.header);
    }

    fn receive(&mut self) -> bool {
        *self.message = message(self.job);
        self.message.is_some()
    }

    fn in_hand(&self) -> Hand {
        let sent = self.header.sent as usize;
        match *self.message {
            _ if sent == 0 && self.job.got == 0 => Hand::Its,
            Some(number) if number == self.header.number && self.job.got == sent => Hand::Its,
            Some(number) if number == self.header.number => Hand::Withdrawn,
            _ => Hand::Others,
        }
    }

    fn drop_message(&mut self) {
        clear(self.job, &Held::new());
        *self.message = None;
    }

    fn withdraw(&mut self) {
        answer(self.header, DONE);
    }
}

bell::word!(core::sync::atomic::AtomicU32);

/// Waits for a request, and takes it; `false`: the caller has ended.
fn is_asked(job: &mut Job, header: &Header, held: &mut Held) -> bool {
    let message = &mut None;
    bell::is_asked(&header.bell, &mut Places { job, header, held, message })
}

fn answer(header: &Header, state: u32) {
    // Release: partner is the library's acquire.
    header.state.store(state, Release);
    sys!(FUTEX, &raw const header.state, 1, 1);
}

/// Closes what is open for one request only.
fn clear(job: &mut Job, held: &Held) {
    for fd in job.fds.iter_mut().filter(|fd| **fd >= 0) {
        if !held.has(*fd) {
            sys!(CLOSE, *fd);
        }
        *fd = -1;
    }
    job.got = 0;
}

/// Waits for a message; its number. `None` if nobody is left to send one.
fn message(job: &mut Job) -> Option<u32> {
    #[repr(C)]
    struct Message {
        name: usize,
        name_len: usize,
        parts: *mut [usize; 2],
        parts_len: usize,
        control: *mut usize,
        control_len: usize,
        flags: usize,
    }
    const CMSG_CLOEXEC: usize = 0x4000_0000;
    let mut number = 0u32;
    let mut part = [&raw mut number as usize, size_of::<u32>()];
    // Its length, level and kind, before the descriptors, two in a word.
    let mut control = [0usize; 2 + FDS.div_ceil(2)];
    let mut message = Message {
        name: 0,
        name_len: 0,
        parts: &raw mut part,
        parts_len: 1,
        control: control.as_mut_ptr(),
        control_len: size_of_val(&control),
        flags: 0,
    };
    if sys!(RECVMSG, SOCKET, &raw mut message, CMSG_CLOEXEC) != size_of::<u32>() as isize {
        return None;
    }
    let bytes = if message.control_len == 0 { 0 } else { control[0].saturating_sub(16) };
    job.got = (bytes / 4).min(FDS);
    for (at, fd) in job.fds.iter_mut().enumerate().take(job.got) {
        *fd = (control[2 + at / 2] >> (at % 2 * 32)) as i32;
    }
    // SAFETY: the kernel has written it, behind the compiler's back.
    Some(unsafe { (&raw const number).read_volatile() })
}

/// Carries out the request that was taken.
fn serve(
    job: &mut Job,
    header: &Header,
    (own, group): (&mut [[u64; 2]; LIMITS], isize),
    askers: &mut Askers,
    held: &mut Held,
) {
    if !askers.allow(header) {
        return answer(header, ANOTHER);
    }
    if header.only_look != 0 {
        return answer(header, DONE);
    }
    if !held.take(job, header, askers.asker(header)) {
        return answer(header, SEND);
    }
    held.keep(job, header);
    for (number, own) in own.iter_mut().enumerate() {
        let mut its = [0; 2];
        let told = sys!(PRLIMIT, job.parent, number, 0, its.as_mut_ptr()) == 0;
        // This one holds for who makes the child.
        if number == NPROC && its != *own && sys!(PRLIMIT, 0, NPROC, its.as_ptr(), 0) == 0 {
            *own = its;
        }
        job.limits[number] = (told && its != *own).then_some(its);
    }
    // 0 if its leader is outside of the pid namespace, where it cannot be joined.
    let callers = sys!(GETPGID, job.parent);
    job.group = if callers == group { 0 } else { callers.max(0) };
    let (cpus, told) = (&mut job.cpus.0, &mut job.cpus.1);
    *told = sys!(SCHED_GETAFFINITY, header.thread, size_of_val(cpus), cpus.as_mut_ptr());
    let failed = start(job, header);
    // Else the kernel answers, and the next request may be there already.
    if failed < 0 {
        header.failed.store(MAKE, Relaxed);
        header.errno.store(-failed as i32, Relaxed);
        answer(header, DONE);
    }
}

impl Askers {
    fn new(parent: isize, header: &Header) -> Askers {
        let tasks = asker::tasks(parent);
        let first = Asker::open(tasks, header.thread);
        let mut right = Record::new();
        first.look(&mut right, true);
        let secure_bits = header.secure_bits;
        let (now, at_once) = (Record::new(), header.at_once != 0);
        Askers { tasks, first, other: None, right, now, secure_bits, at_once, ignored: !0 }
    }

    /// Who asks, once it was allowed to.
    fn asker(&self, header: &Header) -> &Asker {
        self.other.as_ref().filter(|other| other.id == header.thread).unwrap_or(&self.first)
    }

    fn allow(&mut self, header: &Header) -> bool {
        let is_first = header.thread == self.first.id;
        let asker = match &mut self.other {
            _ if is_first => &self.first,
            Some(other) if other.id == header.thread => other,
            other => {
                if let Some(former) = other {
                    former.close();
                }
                &*other.insert(Asker::open(self.tasks, header.thread))
            }
        };
        asker.look(&mut self.now, false);
        let fits = header.secure_bits == self.secure_bits && self.right.allows(&self.now, is_first);
        if !fits && !core::mem::take(&mut self.at_once) {
            return false;
        }
        self.at_once = false;
        const SIGACTION: usize = 13;
        let changed = self.now.ignored ^ self.ignored;
        for signal in (1..=64u64).filter(|signal| changed >> (signal - 1) & 1 != 0) {
            // SIG_DFL is 0, SIG_IGN is 1.
            let action = [self.now.ignored >> (signal - 1) & 1, 0, 0, 0];
            sys!(SIGACTION, signal, action.as_ptr(), 0, 8);
        }
        self.ignored = self.now.ignored;
        true
    }
}

/// Makes the child; its error number below 0 if there is none.
fn start(job: &mut Job, header: &Header) -> isize {
    const VM: u64 = 0x100;
    const VFORK: u64 = 0x4000;
    const PARENT: u64 = 0x8000;
    const PARENT_SETTID: u64 = 0x0010_0000;
    // At its exec, or its end, the kernel itself writes the answer and wakes who waits.
    const CHILD_CLEARTID: u64 = 0x0020_0000;
    const INTO_CGROUP: u64 = 1 << 33;
    let cgroup = match header.clone_flags & INTO_CGROUP {
        0 => 0,
        _ => job.fds[header.cgroup as usize % FDS] as u64,
    };
    let args = CloneArgs {
        flags: VM | VFORK | PARENT | PARENT_SETTID | CHILD_CLEARTID | header.clone_flags,
        pidfd: 0,
        child_tid: &raw const header.state as u64,
        parent_tid: &raw const header.pid as u64,
        // With CLONE_PARENT the signal at its end is ours: SIGCHLD.
        exit_signal: 0,
        stack: &raw mut STACK as u64,
        stack_size: size_of::<Stack>() as u64,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup,
    };
    let first = [&raw const args as usize, size_of::<CloneArgs>()];
    let refused = child::clone(CLONE3, first, &args, job);
    // As the C library: filters that cannot look into clone3's arguments refuse it so.
    if refused == ENOSYS && args.flags >> 32 == 0 && args.flags & 0xff == 0 {
        let first = [args.flags as usize, (args.stack + args.stack_size) as usize];
        return child::clone(CLONE, first, &args, job).min(0);
    }
    refused.min(0)
}
