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
mod limits;
mod mem;
mod places;
mod received;
mod sys;
mod table;
#[path = "../src/wire.rs"]
#[allow(dead_code, reason = "each side uses a part")]
mod wire;

use asker::{Asker, Record};
use bell::Hand;
use child::{CPU_WORDS, CloneArgs, Job, LIMITS};
use held::Held;
use limits::Limits;
use received::Received;
use sys::*;
use wire::{ANOTHER, ASKED, AT_BELL, BASE, BYTES, DONE, Header, MAKE, READY, SEND, TAKEN, TOLD};

/// This program's standard descriptors: no child keeps any, as each has others or none under these
/// numbers.
const SOCKET: usize = 0;
const MEMORY: usize = 1;
const PR_SET_NAME: usize = 15;

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
    /// What it has told of itself.
    told: [u64; TOLD],
    /// The next request needs no look.
    at_once: bool,
    /// This request is the one that needed none: nothing has changed since the start.
    is_new: bool,
    /// What this program ignores itself, so that its children do; `None`: whatever its starter did.
    ignored: Option<u64>,
}

static mut STACK: Stack = Stack([0; 32 << 10]);

extern "C" fn main() -> ! {
    // What else the caller had open at that time is nothing for its children, and the end of a
    // pipe would be one that is never closed.
    table::close_all(3, u32::MAX, false);
    // Else it has the name of a number, as it was executed by its descriptor.
    sys!(PRCTL, PR_SET_NAME, c"kumiki-spawn".as_ptr());
    let mut limits = Limits::new();
    let at = map(MEMORY);
    for fd in [MEMORY, 2] {
        sys!(DUP2, SOCKET, fd);
    }
    for fd in 0..3 {
        sys!(FCNTL, fd, F_SETFD, 1);
    }
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
    let mut job = Job {
        header: at,
        places: ptr::null_mut(),
        places_len: 0,
        limits: [None; LIMITS],
        parent,
        group: 0,
        cpus: ([0; CPU_WORDS], 0),
        mask: 0,
        has_handlers: false,
    };
    let group = sys!(GETPGID, 0);
    let (mut received, mut held) = (Received::new(), Held::new());
    while is_asked(&mut received, header, &mut held) {
        // The next request may be there before this one's end has been seen.
        let tells = header.tells != 0;
        let all = (&mut received, &mut held);
        serve(&mut job, header, (&mut limits, group), &mut askers, all);
        if tells {
            sys!(WRITE, SOCKET, c"".as_ptr(), 1);
        }
        received.clear(&held);
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
    received: &'a mut Received,
    header: &'a Header,
    held: &'a mut Held,
}

impl bell::Server for Places<'_> {
    fn takes(&mut self) -> bool {
        // Acquire: partner is the library's release, after it has written the request.
        self.header.state.compare_exchange(ASKED, TAKEN, Acquire, Relaxed).is_ok()
    }

    fn sleep(&mut self) -> bool {
        const SPAN: [u64; 2] = [0, 10_000_000];
        let bell = &raw const self.header.bell;
        // Where it may not sleep there it goes to the socket at once.
        !matches!(sys!(FUTEX, bell, 0, AT_BELL, SPAN.as_ptr()), 0 | EAGAIN | EINTR)
    }

    fn leave(&mut self) {
        self.held.close(self.header);
    }

    fn receive(&mut self) -> bool {
        self.received.receive(SOCKET)
    }

    fn in_hand(&self) -> Hand {
        let (sent, received) = (self.header.sent as usize, &*self.received);
        match received.number {
            _ if sent == 0 && received.got == 0 => Hand::Its,
            Some(number) if number != self.header.number => Hand::Others,
            Some(_) if received.is_empty || received.is_cut => Hand::Withdrawn,
            Some(_) if received.got < sent => Hand::Part,
            Some(_) => Hand::Its,
            None => Hand::Others,
        }
    }

    fn drop_message(&mut self) {
        self.received.clear(&Held::new());
        self.received.number = None;
    }

    fn withdraw(&mut self) {
        if self.received.is_cut {
            refuse(self.header, EMFILE);
        }
        self.drop_message();
        answer(self.header, DONE);
    }
}

bell::word!(core::sync::atomic::AtomicU32);

/// Waits for a request, and takes it; `false`: the caller has ended.
fn is_asked(received: &mut Received, header: &Header, held: &mut Held) -> bool {
    received.number = None;
    bell::is_asked(&header.bell, &mut Places { received, header, held })
}

/// There is no child, and this is why.
fn refuse(header: &Header, error: isize) {
    header.failed.store(MAKE, Relaxed);
    header.errno.store(-error as i32, Relaxed);
}

fn answer(header: &Header, state: u32) {
    // Release: partner is the library's acquire.
    header.state.store(state, Release);
    sys!(FUTEX, &raw const header.state, 1, 1);
}

/// Carries out the request that was taken.
fn serve(
    job: &mut Job,
    header: &Header,
    (limits, group): (&mut Limits, isize),
    askers: &mut Askers,
    (received, held): (&mut Received, &mut Held),
) {
    if !askers.allow(header) {
        return answer(header, ANOTHER);
    }
    if header.only_look != 0 {
        return answer(header, DONE);
    }
    if !held.take(received, header, askers.asker(header)) {
        return answer(header, SEND);
    }
    held.keep(received, header);
    if !limits.of(job, askers.is_new) {
        return answer(header, ANOTHER);
    }
    // 0 if its leader is outside of the pid namespace, where it cannot be joined.
    let callers = sys!(GETPGID, job.parent);
    job.group = if callers == group { 0 } else { callers.max(0) };
    let (cpus, told) = (&mut job.cpus.0, &mut job.cpus.1);
    *told = sys!(SCHED_GETAFFINITY, header.thread, size_of_val(cpus), cpus.as_mut_ptr());
    job.mask = header.mask;
    (job.places, job.places_len) = received.for_child();
    let failed = start(job, header, received);
    // Else the kernel answers, and the next request may be there already.
    if failed < 0 {
        refuse(header, failed);
        answer(header, DONE);
    }
}

impl Askers {
    fn new(parent: isize, header: &Header) -> Askers {
        let tasks = asker::tasks(parent);
        let first = Asker::open(tasks, header.thread);
        let mut right = Record::new();
        first.look(&mut right, true);
        let told = header.told;
        let (now, at_once) = (Record::new(), header.at_once != 0);
        Askers {
            tasks,
            first,
            other: None,
            right,
            now,
            told,
            at_once,
            is_new: false,
            ignored: None,
        }
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
        let fits = header.told == self.told && self.right.allows(&self.now, is_first);
        self.is_new = core::mem::take(&mut self.at_once);
        if !fits && !self.is_new {
            return false;
        }
        let changed = self.ignored.map_or(!0, |ignored| self.now.ignored ^ ignored);
        for signal in (1..=64u64).filter(|signal| changed >> (signal - 1) & 1 != 0) {
            // SIG_DFL is 0, SIG_IGN is 1.
            let action = [self.now.ignored >> (signal - 1) & 1, 0, 0, 0];
            sys!(SIGACTION, signal, action.as_ptr(), 0, 8);
        }
        self.ignored = Some(self.now.ignored);
        true
    }
}

/// Makes the child; its error number below 0 if there is none.
fn start(job: &mut Job, header: &Header, received: &Received) -> isize {
    const VM: u64 = 0x100;
    const VFORK: u64 = 0x4000;
    const PARENT: u64 = 0x8000;
    const PARENT_SETTID: u64 = 0x0010_0000;
    // At its exec, or its end, the kernel itself writes the answer and wakes who waits.
    const CHILD_CLEARTID: u64 = 0x0020_0000;
    const INTO_CGROUP: u64 = 1 << 33;
    let cgroup = match header.clone_flags & INTO_CGROUP {
        0 => 0,
        _ => received.at(header.cgroup as usize).unwrap_or(-1) as u64,
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
    // Filters that cannot look into clone3's arguments refuse it so. What else is refused is
    // refused again.
    if matches!(refused, ENOSYS | EPERM) && args.flags >> 32 == 0 && args.flags & 0xff == 0 {
        let first = [args.flags as usize, (args.stack + args.stack_size) as usize];
        return child::clone(CLONE, first, &args, job).min(0);
    }
    refused.min(0)
}
