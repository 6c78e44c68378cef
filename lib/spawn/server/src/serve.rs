//! The server's work: requests taken, one after the other.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use kumiki_spawn_wire::answer;
use kumiki_spawn_wire::bell::{self, Hand};
use kumiki_spawn_wire::child::{self, CPU_WORDS, CloneArgs, Job, LIMITS};
use kumiki_spawn_wire::sys::{
    CLONE, CLONE_CHILD_CLEARTID, CLONE_INTO_CGROUP, CLONE_PARENT, CLONE_PARENT_SETTID, CLONE_VFORK,
    CLONE_VM, CLONE3, EAGAIN, EINTR, EMFILE, ENOSYS, EPERM, MMAP, exit,
};
use kumiki_spawn_wire::table;
use kumiki_spawn_wire::{
    ANOTHER, ASKED, AT_BELL, BASE, BYTES, DONE, Header, MAKE, READY, SEND, TAKEN, TOLD, sys,
};

use crate::asker::{self, Asker, Record};
use crate::held::Held;
use crate::limits::Limits;
use crate::received::Received;

/// This program's standard descriptors: no child keeps any, as each has others or none under these
/// numbers.
const SOCKET: i32 = 0;
const MEMORY: i32 = 1;

/// The stack of the child, while this program sleeps.
#[repr(C, align(16))]
struct Stack([u8; 32 << 10]);

/// Threads that have asked, and whether they may.
struct Askers {
    /// The folder of the parent's threads.
    tasks: i32,
    first: Asker,
    /// Another one that has asked, with what is open of it.
    other: Option<Asker>,
    /// The first one's record at the start, which all have to match.
    right: Record,
    now: Record,
    /// Words that it has told of itself.
    told: [u64; TOLD],
    /// The next request needs no look.
    at_once: bool,
    /// This request is the one that needed none: nothing has changed since the start.
    is_new: bool,
    /// Signals that this program ignores itself, so that its children do; `None`: as its starter.
    ignored: Option<u64>,
}

static mut STACK: Stack = Stack([0; 32 << 10]);

/// Serves who has started this program, with the socket and the memory as descriptors 0 and 1,
/// until that has ended.
///
/// # Safety
/// Called once, by the only thread of a program that uses no other descriptor: all are closed.
pub unsafe fn serve() -> ! {
    // What else the caller had open at that time is nothing for its children, and the end of a
    // pipe would be one that is never closed.
    table::close_all(3, u32::MAX, false);
    // Else it has the name of a number, as it was executed by its descriptor.
    sys::set_name(c"kumiki-spawn");
    let mut limits = Limits::new();
    let at = map(MEMORY);
    for fd in [MEMORY, 2] {
        sys::dup2(SOCKET, fd);
    }
    for fd in 0..3 {
        sys::close_at_exec(fd, true);
    }
    // SAFETY: mapped for as long as this runs; beside atomics only the library writes, and
    // waits once it has asked.
    let header = unsafe { &*at };
    // Those of the terminal and of the group are meant for the program.
    sys::block(u64::MAX, None);
    let parent = sys::getppid() as i32;
    let mut askers = Askers::new(parent, header);
    // From here on its thread may change.
    answer(header, READY);
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
    let group = sys::getpgid(0) as i32;
    let (mut received, mut held) = (Received::new(), Held::new());
    while is_asked(&mut received, header, &mut held) {
        // The next request may be there before this one's end has been seen.
        let tells = header.tells != 0;
        let all = (&mut received, &mut held);
        serve_one(&mut job, header, (&mut limits, group), &mut askers, all);
        if tells {
            sys::write(SOCKET, &[0]);
        }
        received.clear(|fd| held.has(fd));
    }
    exit(0)
}

fn map(fd: i32) -> *const Header {
    const SHARED_FIXED: usize = 0x10_0001;
    // SAFETY: nothing else of this program is there.
    let at = unsafe { sys!(MMAP, BASE, BYTES, 3, SHARED_FIXED, fd, 0) };
    if at != BASE as isize {
        exit(72);
    }
    BASE as *const Header
}

/// Places at which this program sleeps: for some time at the bell, which is the cheapest to ring,
/// then at the socket, which tells too when the caller has ended.
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
        // Where it may not sleep there it goes to the socket at once.
        !matches!(sys::sleep(&self.header.bell, AT_BELL, SPAN), 0 | EAGAIN | EINTR)
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
        self.received.clear(|_| false);
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

/// Waits for a request, and takes it; `false`: the caller has ended.
fn is_asked(received: &mut Received, header: &Header, held: &mut Held) -> bool {
    received.number = None;
    bell::is_asked(&header.bell, &mut Places { received, header, held })
}

/// Refuses a child, with the reason.
fn refuse(header: &Header, error: isize) {
    header.failed.store(MAKE, Relaxed);
    header.errno.store(-error as i32, Relaxed);
}

fn answer(header: &Header, state: u32) {
    answer::give(&header.state, state, || _ = sys::wake(&header.state));
}

/// Carries out the request that was taken.
fn serve_one(
    job: &mut Job,
    header: &Header,
    (limits, group): (&mut Limits, i32),
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
    let callers = sys::getpgid(job.parent) as i32;
    job.group = if callers == group { 0 } else { callers.max(0) };
    let (cpus, told) = (&mut job.cpus.0, &mut job.cpus.1);
    *told = sys::cpus(header.thread, cpus);
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
    fn new(parent: i32, header: &Header) -> Askers {
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

    /// The thread that asks, once it was allowed to.
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
            sys::ignore(signal, self.now.ignored >> (signal - 1) & 1 != 0);
        }
        self.ignored = Some(self.now.ignored);
        true
    }
}

/// Makes the child; its error number below 0 if there is none.
fn start(job: &mut Job, header: &Header, received: &Received) -> isize {
    // CLONE_CHILD_CLEARTID: at its exec, or its end, the kernel itself writes the answer and wakes
    // who waits.
    const OWN: u64 =
        CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    let cgroup = match header.clone_flags & CLONE_INTO_CGROUP {
        0 => 0,
        _ => received.at(header.cgroup as usize).unwrap_or(-1) as u64,
    };
    let args = CloneArgs {
        flags: OWN | header.clone_flags,
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
    // SAFETY: the stack is of one child at a time, as this program sleeps meanwhile (CLONE_VFORK);
    // the job and what it names stay.
    let refused = unsafe { child::clone(CLONE3, first, &args, job) };
    // Filters that cannot look into clone3's arguments refuse it so. What else is refused is
    // refused again.
    if matches!(refused, ENOSYS | EPERM) && args.flags >> 32 == 0 && args.flags & 0xff == 0 {
        let first = [args.flags as usize, (args.stack + args.stack_size) as usize];
        // SAFETY: as above.
        return unsafe { child::clone(CLONE, first, &args, job) }.min(0);
    }
    refused.min(0)
}
