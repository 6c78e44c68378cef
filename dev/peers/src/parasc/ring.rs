//! io_uring, as its users set it up.

use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result};
use io_uring::types::{Fd, Fixed, Timespec, statx};
use io_uring::{IoUring, opcode, squeue};
use kumiki_parasc::Request;
use kumiki_sys::syscall;
use rustix::io::Errno;

use super::Execute;
use super::scratch::BLOCK;
use super::work::Work;

/// More than the largest batch.
const ENTRIES: u32 = 512;
/// Milliseconds that the kernel's thread looks at the queue before it sleeps.
const IDLE_MS: u32 = 100;
/// The kernel ends its thread within a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Set-up of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// No flag.
    Default,
    /// Completions by the submitting thread when it waits for them.
    Defer,
    /// The same, with files, buffers and the ring itself registered.
    Registered,
    /// A thread of the kernel on this cpu looks for submissions.
    Sqpoll(usize),
}

/// A ring. What it has no operation for is a NOP instead: getppid.
pub(crate) struct Ring {
    ring: IoUring,
    flavour: Flavour,
    /// Index of each registered file, by descriptor.
    files: Vec<Option<u32>>,
    /// True if the blocks of the work are registered, as one buffer.
    blocks: bool,
    /// Index of the registered ring.
    index: Option<u32>,
    /// After the ring, as fields are dropped in this order.
    _poller: Poller,
}

/// The kernel's thread of a ring, if it has one: gone when this is dropped.
///
/// It ends some time after the ring is closed, and waits for its workers then.
/// A SIGSTOP in between stops the workers but not the wait, and the process
/// would never stand still.
struct Poller;

impl Drop for Poller {
    fn drop(&mut self) {
        let start = Instant::now();
        while start.elapsed() < PATIENCE && polls().unwrap_or(false) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// True if a thread of this process looks at a submission queue.
fn polls() -> io::Result<bool> {
    for thread in fs::read_dir("/proc/self/task")? {
        // A thread that is gone by now has no name any more.
        let name = fs::read_to_string(thread?.path().join("comm")).unwrap_or_default();
        if name.starts_with("iou-sqp") {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Ring {
    /// Sets the ring up.
    pub(crate) fn new(flavour: Flavour) -> Result<Self> {
        let mut builder = IoUring::builder();
        match flavour {
            Flavour::Default => {}
            Flavour::Defer | Flavour::Registered => {
                builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
            }
            Flavour::Sqpoll(cpu) => {
                builder.setup_sqpoll(IDLE_MS).setup_sqpoll_cpu(cpu as u32);
            }
        }
        let ring = builder.build(ENTRIES).with_context(|| format!("setting up {flavour:?}"))?;
        let (files, _poller) = (Vec::new(), Poller);
        let mut ring = Ring { ring, flavour, files, blocks: false, index: None, _poller };
        if flavour == Flavour::Registered {
            ring.register_ring()?;
        }
        Ok(ring)
    }

    /// The crate keeps the index in a borrowed submitter, too short for us.
    fn register_ring(&mut self) -> Result<()> {
        let mut update = Update { offset: u32::MAX, reserved: 0, data: self.fd() };
        let register = self.update(Update::REGISTER_RING_FDS, &mut update);
        register.context("registering the ring itself")?;
        self.index = Some(update.offset);
        Ok(())
    }

    fn update(&self, what: u64, update: &mut Update) -> Result<u64, Errno> {
        let args = [self.fd(), what, ptr::from_mut(update) as u64, 1, 0, 0];
        // SAFETY: the kernel reads and writes one update.
        unsafe { syscall::call(libc::SYS_io_uring_register as usize, args) }
    }

    fn fd(&self) -> u64 {
        self.ring.as_raw_fd() as u64
    }

    /// The operation for a call.
    fn entry(&self, request: &Request) -> squeue::Entry {
        let args = request.args;
        let fd = args[0] as RawFd;
        let file = self.files.get(fd as usize).copied().flatten();
        match i64::from(request.sysnum) {
            libc::SYS_getppid => opcode::Nop::new().build(),
            libc::SYS_read => self.read(file, fd, args, CURRENT),
            libc::SYS_pread64 => self.read(file, fd, args, args[3]),
            libc::SYS_statx => {
                let to = args[4] as *mut statx;
                opcode::Statx::new(Fd(fd), args[1] as *const _, to)
                    .flags(args[2] as i32)
                    .mask(args[3] as u32)
                    .build()
            }
            libc::SYS_openat => {
                opcode::OpenAt::new(Fd(fd), args[1] as *const _).flags(args[2] as i32).build()
            }
            libc::SYS_close => opcode::Close::new(Fd(fd)).build(),
            libc::SYS_fsync => match file {
                Some(index) => opcode::Fsync::new(Fixed(index)).build(),
                None => opcode::Fsync::new(Fd(fd)).build(),
            },
            libc::SYS_unlinkat => opcode::UnlinkAt::new(Fd(fd), args[1] as *const _).build(),
            // A timespec of the C library has the same layout on x86-64.
            libc::SYS_nanosleep => opcode::Timeout::new(args[0] as *const Timespec).build(),
            other => unreachable!("nobody asks a ring for call {other}"),
        }
    }

    fn read(&self, file: Option<u32>, fd: RawFd, args: [u64; 6], offset: u64) -> squeue::Entry {
        let (to, len) = (args[1] as *mut u8, args[2] as u32);
        match file {
            Some(index) if self.blocks => {
                opcode::ReadFixed::new(Fixed(index), to, len, 0).offset(offset).build()
            }
            _ => opcode::Read::new(Fd(fd), to, len).offset(offset).build(),
        }
    }

    /// Submits what is queued and waits for `wait` completions.
    fn enter(&mut self, submit: usize, wait: usize) {
        let Some(index) = self.index else {
            match self.flavour {
                // Whoever chose it wants to make no call.
                Flavour::Sqpoll(_) => self.ring.submit(),
                _ => self.ring.submit_and_wait(wait),
            }
            .expect("the ring takes a batch");
            return;
        };
        const GETEVENTS: u64 = 1;
        const REGISTERED_RING: u64 = 1 << 4;
        let flags = GETEVENTS | REGISTERED_RING;
        let args = [u64::from(index), submit as u64, wait as u64, flags, 0, 0];
        // SAFETY: the queue's entries keep the promise of whoever pushed them.
        let entered = unsafe { syscall::call(libc::SYS_io_uring_enter as usize, args) };
        entered.expect("the ring takes a batch");
    }
}

/// `struct io_uring_rsrc_update` of include/uapi/linux/io_uring.h.
#[repr(C)]
struct Update {
    offset: u32,
    reserved: u32,
    data: u64,
}

impl Update {
    const REGISTER_RING_FDS: u64 = 20;
    const UNREGISTER_RING_FDS: u64 = 21;
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A thread has places for 16, which do not become free by themselves.
        if let Some(offset) = self.index {
            let gone = Update { offset, reserved: 0, data: 0 };
            let unregister = self.update(Update::UNREGISTER_RING_FDS, &mut { gone });
            unregister.expect("the ring was registered");
        }
    }
}

/// As the offset of a read: where the file is at.
const CURRENT: u64 = u64::MAX;

impl Execute for Ring {
    const PARENT: Option<i64> = Some(0);

    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        for (i, request) in requests.iter().enumerate() {
            let entry = self.entry(request).user_data(i as u64);
            // SAFETY: the caller's promise; all completions are seen below.
            while unsafe { self.ring.submission().push(&entry) }.is_err() {
                // The kernel's thread has completed the last batch, but frees its
                // entries a little later. Nobody else lets entries lie.
                std::hint::spin_loop();
            }
        }
        self.enter(requests.len(), requests.len());
        let mut missing = requests.len();
        loop {
            for done in self.ring.completion() {
                let result = done.result();
                // A timeout that ran out is what was asked for.
                let over = result == -Errno::TIME.raw_os_error();
                results[done.user_data() as usize] = if over { 0 } else { i64::from(result) };
                missing -= 1;
            }
            if missing == 0 {
                return;
            }
            match self.flavour {
                Flavour::Sqpoll(_) => std::hint::spin_loop(),
                // A wait may end early.
                _ => self.enter(0, missing),
            }
        }
    }

    fn expect(&mut self, work: &Work) -> Result<()> {
        assert!(work.len() <= ENTRIES as usize);
        if self.flavour != Flavour::Registered {
            return Ok(());
        }
        let descriptors = work.descriptors();
        if !descriptors.is_empty() {
            self.ring.submitter().register_files(&descriptors).context("registering files")?;
        }
        for (index, &fd) in descriptors.iter().enumerate() {
            let fd = fd as usize;
            self.files.resize(self.files.len().max(fd + 1), None);
            self.files[fd] = Some(index as u32);
        }
        let blocks = work.blocks();
        if !blocks.is_empty() {
            let iov_base = blocks.as_ptr().cast_mut().cast();
            let buffer = libc::iovec { iov_base, iov_len: blocks.len() * BLOCK };
            // SAFETY: the work outlives this instance's use of it, and the ring
            // writes only for reads of this work.
            unsafe { self.ring.submitter().register_buffers(&[buffer]) }
                .context("registering buffers")?;
            self.blocks = true;
        }
        Ok(())
    }
}
