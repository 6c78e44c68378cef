//! A spawn server of the calling process: started, asked, and started again when it has died
//! or is not for who asks.

use std::ffi::{CStr, c_char};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use kumiki_sys::affinity;
use kumiki_sys::cancellation::Held;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::fork::Process;
use kumiki_sys::futex::{self, Deadline, Scope};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::net::{
    AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, recv, shutdown, socketpair,
};
use rustix::process::{Pid, Resource, Signal, WaitOptions, kill_process, waitpid};

use crate::identity;
use crate::maps;
use crate::memory::{memory, open_unlocked};
use crate::outcome::Answer;
use crate::request::{Draft, Maker, os_error, send};
use crate::running::Running;
use crate::stdio::above;
use kumiki_spawn_wire::{
    ANOTHER, ASKED, AT_SOCKET, BASE, BYTES, DONE, FDS, Header, READY, SEND, STARTS, TAKEN,
};
use kumiki_spawn_wire::{answer, bell};

/// The program, `kumiki-spawn-server` as `build.rs` makes it.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/server"));
/// Interval between two looks whether a server that does not answer is alive.
const LOOK: Duration = Duration::from_millis(20);
/// Number of times the starting process may change while a server starts, or the server die.
const STARTS_AT_MOST: usize = 5;
const DEATHS_AT_MOST: usize = 3;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    process: Running,
    socket: OwnedFd,
    memory: NonNull<Header>,
    /// The cpu that it runs on.
    cpu: Option<usize>,
    of: Process,
    /// The answer has not been looked at.
    asked: bool,
}

// SAFETY: the memory is shared with another process, not bound to a thread, and used by
// who has the server for itself.
unsafe impl Send for Server {}

/// Reason for which there is no child.
pub(crate) enum No {
    /// The server has died.
    Died,
    /// The server is not for this caller.
    Another,
    /// The server cannot take what it was to take itself.
    Send,
    /// The request could not be sent: a descriptor is closed, too many are on their way.
    Sent(io::Error),
}

impl Server {
    /// Starts one. `at_once`: the caller asks it for a child next, and nothing before.
    pub(crate) fn start(at_once: bool) -> io::Result<Server> {
        // A cancellation would go through what is half done.
        let _held = Held::new();
        let mut deaths = 0;
        for _ in 0..STARTS_AT_MOST {
            let before = inherited();
            let Some(server) = Server::once(at_once)? else {
                deaths += 1;
                if deaths == DEATHS_AT_MOST {
                    break;
                }
                continue;
            };
            // Other threads may have changed the process meanwhile, so that the server has
            // the former of what it has been told.
            if inherited() == before {
                return Ok(server);
            }
        }
        Err(io::Error::other(match deaths {
            0 => "the process's users or rights change all the time",
            _ => "the spawn server has ended before it began, each time; see who does that",
        }))
    }

    /// `None`: it has ended before it began.
    fn once(at_once: bool) -> io::Result<Option<Server>> {
        let of = Process::current().map_err(os_error)?;
        may_be_so_long()?;
        may_have_siblings()?;
        let mut program = File::from(memory("kumiki-spawn")?);
        program.write_all(PROGRAM)?;
        let file = memfd_create("kumiki-spawn-requests", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, BYTES as u64)?;
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let [ours, theirs] = [above(ours)?, above(theirs)?];
        let memory = map(&file)?;
        // SAFETY: new, and nobody else has it yet.
        let header = unsafe { &mut *memory.as_ptr() };
        header.thread = identity::thread();
        header.told = identity::inherited();
        header.at_once = at_once.into();
        header.bell.store(AT_SOCKET, Relaxed);
        header.state.store(STARTS, Relaxed);
        match Running::start(&program.into(), [theirs.as_fd(), file.as_fd(), file.as_fd()]) {
            Ok(process) => {
                let mut server =
                    Server { process, socket: ours, memory, cpu: None, of, asked: false };
                Ok((server.wait() == READY).then_some(server))
            }
            Err(error) => {
                unmap(memory);
                Err(error)
            }
        }
    }

    /// True if the calling process has started it, it still runs, and the caller is under no rules
    /// that it is not under.
    pub(crate) fn may_be_asked(&self) -> bool {
        self.of.is_current() && identity::may_look_into(self.process.pid.as_raw_nonzero().get())
    }

    /// True if it may be asked to take the caller's standard descriptors and folder itself.
    pub(crate) fn takes(&self) -> bool {
        // SAFETY: the server writes to atomics only.
        unsafe { self.memory.as_ref() }.holds.load(Relaxed) != 0
    }

    /// Begins a request. `takes`: the server takes itself what it can.
    pub(crate) fn draft<'a>(&mut self, takes: bool) -> Draft<'a> {
        if self.asked {
            // Nobody wants to know: a future was forgotten.
            let _ = self.answer();
        }
        // SAFETY: the server does nothing until it is told, and the caller has it for itself.
        unsafe { Draft::new(self.memory, Maker::Server { takes }) }
    }

    /// Has it carry out the request that was written.
    pub(crate) fn ask(&mut self, fds: &[BorrowedFd<'_>]) -> Result<Answer, No> {
        self.tell(fds, false)?;
        self.answer()
    }

    /// Tells it the request that was written. `tells`: [`Server::socket`] is readable then
    /// when the answer is there.
    pub(crate) fn tell(&mut self, fds: &[BorrowedFd<'_>], tells: bool) -> Result<(), No> {
        self.come_here();
        // SAFETY: as `draft`.
        let header = unsafe { self.memory.as_mut() };
        header.thread = identity::thread();
        header.told = identity::inherited();
        header.tells = tells.into();
        header.number = header.number.wrapping_add(1);
        header.sent = fds.len() as u32;
        let number = header.number;
        // SAFETY: from here on the server writes too, to atomics only.
        let header = unsafe { self.memory.as_ref() };
        header.pid.store(0, Relaxed);
        header.errno.store(0, Relaxed);
        // Release: partner is the server's exchange.
        header.state.store(ASKED, Release);
        if let Err(error) = self.wake(number, fds) {
            // Relaxed: either nobody has seen the request, or the server waits for a message.
            if header.state.compare_exchange(ASKED, DONE, Relaxed, Relaxed).is_err() {
                let _ = send(&self.socket, number, &[]);
                self.wait();
            }
            return Err(match error {
                Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => No::Died,
                error => No::Sent(error.into()),
            });
        }
        self.asked = true;
        Ok(())
    }

    /// Wakes it where it sleeps, once the first descriptors are on their way, and sends the others.
    fn wake(&self, number: u32, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        // SAFETY: the server writes to atomics only.
        let bell = &unsafe { self.memory.as_ref() }.bell;
        let mut parts = fds.chunks(FDS);
        let first = parts.next().unwrap_or_default();
        let send = |fds: &[BorrowedFd<'_>]| send(&self.socket, number, fds);
        let first = |with: bool| send(if with { first } else { &[] });
        let wake = || {
            // Where that is refused it sees what has been rung when its time at the bell is over.
            let _ = futex::wake(bell, 1, Scope::Shared);
            Ok(())
        };
        bell::ring(bell, !fds.is_empty(), first, wake)?;
        parts.try_for_each(send)
    }

    /// True if the answer is there, or will never be.
    pub(crate) fn has_answered(&mut self) -> bool {
        // SAFETY: the server writes to atomics only.
        let state = unsafe { self.memory.as_ref() }.state.load(Acquire);
        !matches!(state, ASKED | TAKEN) || !self.process.is_alive()
    }

    /// The socket that it sends bytes to, and hangs up when it ends. What it has sent is taken.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        let _ = recv(&self.socket, &mut [0u8; 8], RecvFlags::DONTWAIT);
        self.socket.as_fd()
    }

    /// Waits for the answer.
    pub(crate) fn answer(&mut self) -> Result<Answer, No> {
        let state = self.wait();
        self.asked = false;
        // SAFETY: as above.
        let header = unsafe { self.memory.as_ref() };
        let pid = Pid::from_raw(header.pid.load(Relaxed));
        match state {
            ANOTHER => return Err(No::Another),
            SEND => return Err(No::Send),
            DONE => {}
            // It died, and what it has left does not change any more. A child goes on.
            _ if pid.is_some() => {}
            _ => return Err(No::Died),
        }
        Ok(Answer { pid, errno: header.errno.load(Relaxed), failed: header.failed.load(Relaxed) })
    }

    /// True if a child of it would be the caller's as it is now.
    pub(crate) fn is_for_caller(&mut self) -> bool {
        if !self.may_be_asked() {
            return false;
        }
        // SAFETY: as `draft`.
        unsafe { self.memory.as_mut() }.only_look = 1;
        self.ask(&[]).is_ok()
    }

    /// Waits until the state is a last one, or the server has died; the state.
    fn wait(&mut self) -> u32 {
        // SAFETY: the server writes to atomics only.
        let header = unsafe { self.memory.as_ref() };
        let waits_for_maps = header.maps != [0; 2];
        answer::wait(&header.state, &mut Waiter { server: self, header, waits_for_maps })
    }

    /// Waking a thread of another cpu costs more than all that the server does.
    fn come_here(&mut self) {
        let here = rustix::thread::sched_getcpu();
        if self.cpu != Some(here) {
            // If it may not it stays where it is. Of one that has ended the number may be another's.
            if self.process.is_alive() {
                let _ = affinity::request(Some(self.process.pid), &CpuSet::from_iter([here]));
            }
            self.cpu = Some(here);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A child of fork(2) has neither the memory nor the process.
        if !self.of.is_current() {
            return;
        }
        // It ends when nobody can ask it any more, also if it may not be killed by who the
        // caller is now; a copy of the socket may be in a child of fork(2).
        let _ = shutdown(&self.socket, Shutdown::Both);
        self.process.end();
        unmap(self.memory);
    }
}

/// Caller that waits for a server's answer.
struct Waiter<'a> {
    server: &'a Server,
    header: &'a Header,
    /// The child is to have maps, and has none yet.
    waits_for_maps: bool,
}

impl answer::Waiter for Waiter<'_> {
    fn sleep(&mut self, now: u32) -> bool {
        let look = Some(Deadline::after(LOOK));
        let slept = futex::wait(&self.header.state, now, Scope::Shared, look);
        matches!(slept, Ok(futex::Outcome::TimedOut) | Err(_))
    }

    fn is_alive(&mut self) -> bool {
        self.server.process.is_alive()
    }

    fn map(&mut self) {
        self.waits_for_maps = false;
        let (header, memory) = (self.header, self.server.memory);
        let text = |address: u64| {
            let at = (address as usize).checked_sub(BASE).filter(|at| *at < BYTES)?;
            // SAFETY: a string of the request, which ends with a zero, in the memory; nobody
            // changes it until there is an answer.
            Some(unsafe { CStr::from_ptr(memory.cast::<c_char>().as_ptr().wrapping_add(at)) })
        };
        let written = maps::write(header.pid.load(Relaxed), header.maps.map(text));
        let why = written.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        header.mapped.store(-why, Relaxed);
    }

    fn wake(&mut self) {
        let _ = futex::wake(&self.header.state, 1, Scope::Shared);
    }

    fn has_died(&mut self) {
        let child = Pid::from_raw(self.header.pid.load(Relaxed));
        if let Some(child) = child.filter(|_| self.waits_for_maps) {
            // On its way to where it would wait for them: nothing of it has run.
            let _ = kill_process(child, Signal::KILL);
            while let Err(Errno::INTR) = waitpid(Some(child), WaitOptions::empty()) {}
            self.header.pid.store(0, Relaxed);
        }
    }
}

/// Checks that files of this process may have the length of the memory: a process that writes
/// beyond its limit is ended by SIGXFSZ.
fn may_be_so_long() -> io::Result<()> {
    let [limit, _] = identity::limit(Resource::Fsize);
    if limit >= BYTES.max(PROGRAM.len()) as u64 {
        return Ok(());
    }
    let why = format!(
        "a spawn server has {BYTES} bytes of memory with its caller, whose files may have no more \
         than {limit} (RLIMIT_FSIZE)"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// Checks that it may make children for the caller: where that has entered a new pid namespace for
/// its children it would be the first process there, whose end ends all others.
fn may_have_siblings() -> io::Result<()> {
    let space = |name: &str| fs::read_link(format!("/proc/thread-self/ns/{name}")).ok();
    if space("pid") == space("pid_for_children") {
        return Ok(());
    }
    let why = "a spawn server would be the first process of the caller's new pid namespace";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

fn map(file: &OwnedFd) -> io::Result<NonNull<Header>> {
    let (none, flags) = (ProtFlags::empty(), MapFlags::SHARED);
    // SAFETY: a new mapping of a file that is that long.
    let at = unsafe { mmap(std::ptr::null_mut(), BYTES, none, flags, file, 0) }?;
    let memory = NonNull::new(at.cast()).expect("a mapping is not at 0");
    // SAFETY: of this mapping, which nobody uses.
    if let Err(error) = unsafe { open_unlocked(at, BYTES) } {
        unmap(memory);
        return Err(error.into());
    }
    // A child of fork(2) would ask the same server.
    // SAFETY: changes nothing here.
    if let Err(error) = unsafe { madvise(at, BYTES, Advice::LinuxDontFork) } {
        unmap(memory);
        return Err(error.into());
    }
    Ok(memory)
}

fn unmap(memory: NonNull<Header>) {
    // SAFETY: mapped by `map`, and nobody uses it now.
    let _ = unsafe { munmap(memory.as_ptr().cast(), BYTES) };
}

/// State that a server has from the calling thread and other threads may change.
fn inherited() -> [Option<Vec<u8>>; 3] {
    const FIELDS: [&[u8]; 9] =
        [b"Umask", b"Uid", b"Gid", b"Groups", b"Cap", b"NoNewPrivs", b"Seccomp", b"Spec", b"THP"];
    let file = |name: &str| fs::read(format!("/proc/thread-self/{name}")).ok();
    let fields = file("status").map(|status| {
        let lines = status.split(|byte| *byte == b'\n');
        lines
            .filter(|line| FIELDS.iter().any(|field| line.starts_with(field)))
            .flatten()
            .copied()
            .collect()
    });
    let root = fs::read_link("/proc/thread-self/root").ok();
    [fields, file("cgroup"), root.map(|root| root.as_os_str().as_bytes().to_vec())]
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The server changes from the bell to the socket about here.
    const SPAN_NS: u64 = 10_000_000;
    const ROUNDS: usize = 400;

    /// The bell, a message that only wakes, one with descriptors and one that could not be sent
    /// cross with the server's change between its two places to sleep. A request that did not
    /// wake it would wait for ever: it lives.
    #[test]
    fn no_request_is_lost_where_the_server_changes_its_place_to_sleep() {
        let mut server = Server::start(false).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        let null = File::open("/dev/null").unwrap();
        // SAFETY: it is never used but to be refused: no process has so many.
        let closed = unsafe { BorrowedFd::borrow_raw(i32::MAX) };
        let mut asked_at = [0; 3];
        for round in 0..ROUNDS {
            match random.u8(..8) {
                0 => {}
                1 => thread::yield_now(),
                _ => {
                    let early = random.u64(..SPAN_NS / 10);
                    thread::sleep(Duration::from_nanos(SPAN_NS - SPAN_NS / 20 + early));
                }
            }
            // SAFETY: as `Server::is_for_caller`.
            unsafe { server.memory.as_mut() }.only_look = 1;
            // SAFETY: as above.
            let at = unsafe { server.memory.as_ref() }.bell.load(Relaxed);
            asked_at[at as usize] += 1;
            let fds: &[BorrowedFd<'_>] = match random.u8(..3) {
                0 => &[null.as_fd()],
                1 => &[closed],
                _ => &[],
            };
            match server.ask(fds) {
                Ok(answer) => assert_eq!((answer.pid, answer.errno), (None, 0), "{round}"),
                Err(No::Sent(error)) => assert_eq!(error.raw_os_error(), Some(libc::EBADF)),
                Err(No::Died | No::Another | No::Send) => panic!("{round}: no answer"),
            }
        }
        println!("at the socket, at the bell, rung: {asked_at:?}");
    }
}
