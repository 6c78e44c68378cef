//! The calls of a batch, what they need, and what must come of them.

use std::arch::asm;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_parasc::Request;
use kumiki_sys::syscall;
use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::getppid;

use super::Execute;
use super::request::{Batch, Kind};
use super::scratch::{BLOCK, COLD_BYTES, COLD_STEP, Scratch, c_path};

/// Bytes of a mapping.
const MAPPED: u64 = 64 << 10;
const SLEEP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
/// How long reads are warm where they become cold then.
pub(super) const WARM_PHASE: Duration = Duration::from_millis(250);
/// Directories for the files of one, each used in its turn.
const DIRECTORIES: usize = 128;

/// Result that call `i` of a batch must return.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The parent's id, or what stands for it.
    Parent(i64),
    /// Exactly this.
    Exactly(i64),
    /// A descriptor or an address.
    Something,
}

/// A batch that is ready to run again and again.
pub(crate) struct Work {
    kind: Kind,
    calls: Vec<Request>,
    results: Vec<i64>,
    expected: Expected,
    /// Calls that undo the first ones, each with its result as the first
    /// argument.
    undo: Vec<Request>,
    undone: Vec<i64>,
    /// Files to make dirty, or to make, before a batch.
    before: Vec<PathBuf>,
    /// Batches begun.
    begun: u64,
    made: Instant,
    /// Everything that the calls point to.
    memory: Memory,
}

/// What a call reads, a page: where the allocator put it would decide how fast
/// the kernel writes it.
#[derive(Clone)]
#[repr(align(4096))]
pub(crate) struct Block {
    _bytes: [u8; BLOCK],
}

/// Memory that requests point to, at addresses that stay.
#[derive(Default)]
struct Memory {
    files: Vec<File>,
    paths: Vec<CString>,
    blocks: Vec<Block>,
    cold: Vec<u8>,
    attributes: Vec<libc::statx>,
    sleep: Box<Option<libc::timespec>>,
}

impl Work {
    /// Opens the files and makes the requests of `batch`.
    pub(crate) fn new(batch: Batch, scratch: &Scratch) -> Result<Self> {
        let Batch { kind, n, instance, .. } = batch;
        let mut memory = Memory::default();
        let mut before = Vec::new();
        let mut undo = Vec::new();
        let mut expected = Expected::Exactly(0);
        let all = 0..n;
        let calls: Vec<Request> = match kind {
            Kind::Getppid | Kind::Handoff => {
                let parent = getppid().map_or(0, |pid| i64::from(pid.as_raw_pid()));
                expected = Expected::Parent(parent);
                vec![Request::new(libc::SYS_getppid, []); n]
            }
            Kind::ReadZeroOwn | Kind::ReadZeroOne => {
                expected = Expected::Exactly(BLOCK as i64);
                memory.blocks = vec![Block { _bytes: [1; BLOCK] }; n];
                let files = if kind == Kind::ReadZeroOne { 1 } else { n };
                memory.open(std::iter::repeat_n(PathBuf::from("/dev/zero"), files))?;
                let read = |i: usize| {
                    let fd = memory.files[i % files].as_raw_fd();
                    let block = &raw const memory.blocks[i];
                    Request::new(libc::SYS_read, [fd as u64, block as u64, BLOCK as u64])
                };
                all.map(read).collect()
            }
            Kind::PreadOwn | Kind::PreadOne => {
                expected = Expected::Exactly(BLOCK as i64);
                memory.blocks = vec![Block { _bytes: [0; BLOCK] }; n];
                let one = kind == Kind::PreadOne;
                if one {
                    memory.open([scratch.whole()])?;
                } else {
                    memory.open(all.clone().map(|i| scratch.file(i)))?;
                }
                let pread = |i: usize| {
                    let (file, offset) = if one { (0, i * BLOCK) } else { (i, 0) };
                    let fd = memory.files[file].as_raw_fd();
                    let block = &raw const memory.blocks[i];
                    let args = [fd as u64, block as u64, BLOCK as u64, offset as u64];
                    Request::new(libc::SYS_pread64, args)
                };
                all.map(pread).collect()
            }
            Kind::Statx | Kind::StatxBusy(_) | Kind::OwnThreads | Kind::ByHand | Kind::Submit => {
                memory.name(all.clone().map(|i| scratch.file(i)))?;
                // SAFETY: plain numbers, of which zero is one.
                memory.attributes = vec![unsafe { std::mem::zeroed() }; n];
                let statx = |i: usize| {
                    let path = memory.paths[i].as_ptr() as u64;
                    let to = &raw const memory.attributes[i];
                    let mask = u64::from(libc::STATX_BASIC_STATS);
                    Request::new(libc::SYS_statx, [HERE, path, 0, mask, to as u64])
                };
                all.map(statx).collect()
            }
            Kind::OpenClose => {
                expected = Expected::Something;
                undo = vec![Request::new(libc::SYS_close, [0]); n];
                memory.name(all.clone().map(|i| scratch.file(i)))?;
                let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
                let open = |path: &CString| {
                    Request::new(libc::SYS_openat, [HERE, path.as_ptr() as u64, flags, 0])
                };
                memory.paths.iter().map(open).collect()
            }
            Kind::FsyncDirty => {
                before = all.map(|i| scratch.file(i)).collect();
                memory.open(before.iter().cloned())?;
                let fsync = |file: &File| {
                    let fd = file.as_raw_fd();
                    Request::new(libc::SYS_fsync, [fd as u64])
                };
                memory.files.iter().map(fsync).collect()
            }
            Kind::PreadCold | Kind::PreadColdWarmed => {
                expected = Expected::Exactly(COLD_BYTES as i64);
                memory.cold = vec![0; n * COLD_BYTES];
                memory.open([scratch.cold(n)?])?;
                let file = &memory.files[0];
                // What is read is what was asked for.
                fadvise(file, 0, None, Advice::Random)?;
                let pread = |i: usize| {
                    let to = &raw const memory.cold[i * COLD_BYTES];
                    let offset = (i * COLD_STEP) as u64;
                    let args = [file.as_raw_fd() as u64, to as u64, COLD_BYTES as u64, offset];
                    Request::new(libc::SYS_pread64, args)
                };
                all.map(pread).collect()
            }
            Kind::UnlinkMany | Kind::UnlinkOne | Kind::UnlinkOneBusy1 | Kind::UnlinkOneBusy2 => {
                let one = scratch.directory(&format!("one{}", instance % DIRECTORIES))?;
                let path = |i: usize| match kind {
                    _ if kind.is_unlink_one() => Ok(one.join(format!("{i:03}"))),
                    _ => Ok(scratch.directory(&format!("many{i:03}"))?.join("file")),
                };
                before = all.map(path).collect::<Result<_>>()?;
                memory.name(before.iter().cloned())?;
                let unlink = |path: &CString| {
                    Request::new(libc::SYS_unlinkat, [HERE, path.as_ptr() as u64, 0])
                };
                memory.paths.iter().map(unlink).collect()
            }
            Kind::Mmap => {
                expected = Expected::Something;
                undo = vec![Request::new(libc::SYS_munmap, [0, MAPPED]); n];
                let access = (libc::PROT_READ | libc::PROT_WRITE) as u64;
                let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
                let start = nowhere(n as u64 * 2 * MAPPED)?;
                let mmap = |i| {
                    let here = start + i as u64 * 2 * MAPPED;
                    Request::new(libc::SYS_mmap, [here, MAPPED, access, flags, u64::MAX, 0])
                };
                all.map(mmap).collect()
            }
            Kind::Nanosleep => {
                let sleep: *const libc::timespec = memory.sleep.insert(SLEEP);
                vec![Request::new(libc::SYS_nanosleep, [sleep as u64, 0]); n]
            }
        };
        let results = vec![0; n];
        let undone = vec![0; undo.len()];
        let (begun, made) = (0, Instant::now());
        Ok(Work { kind, calls, results, expected, undo, undone, before, begun, made, memory })
    }

    /// Kind of the calls.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Number of the calls.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Every descriptor that the calls use.
    #[cfg(feature = "peers")]
    pub(crate) fn descriptors(&self) -> Vec<std::os::fd::RawFd> {
        self.memory.files.iter().map(File::as_raw_fd).collect()
    }

    /// The memory that the calls read into.
    #[cfg(feature = "peers")]
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.memory.blocks
    }

    /// What is not timed: makes the files that the batch needs, or dirty.
    pub(crate) fn before(&mut self) -> Result<()> {
        self.begun += 1;
        let is_warm = self.kind == Kind::PreadColdWarmed && self.made.elapsed() < WARM_PHASE;
        if self.kind.is_cold() && !is_warm {
            fadvise(&self.memory.files[0], 0, None, Advice::DontNeed)?;
        }
        for (i, path) in self.before.iter().enumerate() {
            if self.kind == Kind::FsyncDirty {
                let written = self.memory.files[i].write_at(&self.begun.to_le_bytes(), 0);
                written.with_context(|| format!("writing to {}", path.display()))?;
            } else {
                let made = File::create_new(path);
                made.with_context(|| format!("making {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// How often a sample runs the batch. One cheap call takes a few steps of the
    /// clock, and less than the processor still does when the clock is read: so
    /// many in turn tell what each takes.
    pub(crate) fn runs(&self) -> usize {
        let prepared = !self.before.is_empty();
        let alone = self.kind == Kind::Handoff || self.kind.sleeps();
        if self.len() == 1 && !prepared && !alone { 16 } else { 1 }
    }

    /// What is timed: the whole batch. A function of its own for each subject, so
    /// that what the compiler makes of the code around it is not timed too; all copies
    /// of it are the same but for where they lie.
    #[inline(never)]
    pub(crate) fn run<const COPY: usize>(&mut self, subject: &mut impl Execute) {
        // SAFETY: a comment, without which the compiler would make one of all copies.
        unsafe { asm!("/* {} */", const COPY, options(nomem, nostack, preserves_flags)) };
        // SAFETY: `memory` has what the requests point to, of which nobody else
        // makes use; their effects are on files of this bench, and on mappings
        // that the batch itself makes.
        unsafe { subject.execute(&self.calls, &mut self.results) };
        if self.undo.is_empty() {
            return;
        }
        for (undo, &result) in self.undo.iter_mut().zip(&self.results) {
            undo.args[0] = result as u64;
        }
        // SAFETY: as above; what is closed or unmapped was opened or mapped by
        // the calls before, or is -errno, which the kernel refuses.
        unsafe { subject.execute(&self.undo, &mut self.undone) };
    }

    /// Whether every call did what it should; `parent` is what the subject's
    /// getppid returns, if that is not the parent's id. Forgets the results.
    pub(crate) fn check(&mut self, parent: Option<i64>) -> Result<()> {
        let expected = match self.expected {
            Expected::Parent(real) => Some(parent.unwrap_or(real)),
            Expected::Exactly(value) => Some(value),
            Expected::Something => None,
        };
        let calls = self.calls.iter().zip(self.results.iter_mut().map(|r| (r, expected)));
        let undo = self.undo.iter().zip(self.undone.iter_mut().map(|r| (r, Some(0))));
        for (i, (request, (result, expected))) in calls.chain(undo).enumerate() {
            let got = std::mem::replace(result, NOT_RUN);
            let right = expected.map_or(got >= 0, |expected| got == expected);
            let name = syscall::name(request.sysnum.into()).unwrap_or("?");
            ensure!(right, "call {i}, {name}, returned {got}, not {expected:?}");
        }
        Ok(())
    }
}

/// No call returns it: what is found instead of a result was never written.
const NOT_RUN: i64 = i64::MIN;

/// AT_FDCWD as an argument: a path is full.
const HERE: u64 = libc::AT_FDCWD as u64;

/// The start of `bytes` of address space where nothing is mapped, nor will be by
/// chance. What a mapping costs depends on its neighbours, with which the kernel
/// may merge it, and on whose tables of pages it shares: who has which of them
/// would be a matter of luck. And on how many mappings there are: where one more
/// fills up a node of the tree that lists them, it costs half as much again. As
/// luck has it there too, each instance has its own.
fn nowhere(bytes: u64) -> Result<u64> {
    /// Bytes that one table of tables covers.
    const ALIGN: u64 = 1 << 30;
    /// Number that a node lists.
    const NEIGHBOURS: u64 = 16;
    let len = (bytes.next_multiple_of(ALIGN) + 3 * ALIGN) as usize;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let none = ProtFlags::empty();
    // SAFETY: a new mapping, of which nobody knows.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, none, flags) }?;
    // SAFETY: as above.
    unsafe { munmap(start, len) }?;
    // New mappings are taken from the upper end of such a gap.
    let middle = (start as u64).next_multiple_of(ALIGN);
    for i in 0..fastrand::u64(0..NEIGHBOURS) {
        let at = middle + bytes.next_multiple_of(ALIGN) + 2 * i * MAPPED;
        // SAFETY: a page for itself, where nothing is mapped.
        unsafe { mmap_anonymous(at as *mut _, 1, none, flags | MapFlags::FIXED_NOREPLACE) }?;
    }
    Ok(middle)
}

impl Memory {
    fn open(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        for path in paths {
            let mut options = File::options();
            options.read(true).write(path.is_file());
            let file = options.open(&path);
            self.files.push(file.with_context(|| format!("opening {}", path.display()))?);
        }
        Ok(())
    }

    fn name(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        self.paths = paths.into_iter().map(|path| c_path(&path)).collect::<Result<_>>()?;
        Ok(())
    }
}
