//! The kind *virtual region*: memory as one object, which nobody sees until it is attached
//! to a [`Space`](crate::Space).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use kumiki_sys::shm::{Huge, Sealed};
use rustix::fs::{FsWord, OFlags, fcntl_getfl, fstat, fstatfs, ftruncate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Error, Result};
use crate::frames::FRAME;
use crate::id::Place;
use crate::kind::{About, Kind};

/// A range of bytes that can be attached at several places, in this process and in others:
/// memory of its own, frames of its core, or a range of a file.
///
/// Destroyed, it can be attached no more. What is attached keeps its bytes until it is
/// detached, here and in other processes.
#[derive(Debug)]
pub struct Region {
    backing: Arc<Backing>,
}

/// Type of a file system of huge pages (`statfs(2)`).
const HUGETLBFS_MAGIC: FsWord = 0x9584_58f6;

/// The origin of a region's bytes.
#[derive(Debug)]
pub enum RegionSpec {
    /// Zeros of its own, rounded up to whole pages.
    Memory {
        /// Number of bytes.
        bytes: usize,
        /// Pages of which size.
        huge: Huge,
    },
    /// A number of frames of 4 KiB of the core's own pool, as one range, of any content: what
    /// their last user left. No descriptor of them can be passed to another process.
    Frames(usize),
    /// A range of a file. Who shortens the file meanwhile ends the process that touches
    /// what is gone (SIGBUS), as with mmap(2).
    File {
        /// Open for reading; attachments that write need it open for writing, too.
        file: File,
        /// Beginning: a multiple of 4096, or of the huge pages that it is made of.
        offset: u64,
        /// Number of bytes, within the file.
        bytes: usize,
    },
    /// Bytes that another process has made as [`Memory`](Self::Memory) and passed the
    /// [descriptor](Region::descriptor) of.
    Passed(OwnedFd),
}

/// The owner of a region's bytes, as long as the region or an attachment of it is there.
#[derive(Debug)]
pub(crate) struct Backing {
    of: Storage,
    bytes: usize,
    /// Size of the pages by which it is mapped.
    page_bytes: usize,
}

#[derive(Debug)]
enum Storage {
    Memory(Sealed),
    File { file: OwnedFd, offset: u64, writable: bool },
    Frames(FileFrames),
}

/// Frames by their numbers in the pool's file, in rising order.
#[derive(Debug)]
struct FileFrames {
    file: Arc<OwnedFd>,
    numbers: Vec<u32>,
    home: Sender<Vec<u32>>,
}

impl Drop for FileFrames {
    fn drop(&mut self) {
        // A pool that is gone has no use for them.
        let _ = self.home.send(std::mem::take(&mut self.numbers));
    }
}

/// A piece to be mapped: a descriptor, where in it, and how much.
pub(crate) type Piece<'a> = (BorrowedFd<'a>, u64, usize);

impl Backing {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// True if a space that attaches it may write.
    pub(crate) fn is_writable(&self) -> bool {
        !matches!(self.of, Storage::File { writable: false, .. })
    }

    /// The file of its frames, if it has frames.
    pub(crate) fn frames_file(&self) -> Option<Arc<OwnedFd>> {
        match &self.of {
            Storage::Frames(FileFrames { file, .. }) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    /// The number of the first of its frames, if they are of this file, one behind another.
    pub(crate) fn run_in(&self, its: &Arc<OwnedFd>) -> Option<u32> {
        let Storage::Frames(FileFrames { file, numbers, .. }) = &self.of else { return None };
        let (first, last) = (*numbers.first()?, *numbers.last()?);
        let is_run = (last - first) as usize + 1 == numbers.len();
        (is_run && Arc::ptr_eq(file, its)).then_some(first)
    }

    /// Its parts, from the first byte on; as few as there are.
    pub(crate) fn pieces(&self) -> Vec<Piece<'_>> {
        match &self.of {
            Storage::Memory(memory) => vec![(memory.fd(), 0, self.bytes)],
            Storage::File { file, offset, .. } => vec![(file.as_fd(), *offset, self.bytes)],
            Storage::Frames(FileFrames { file, numbers, .. }) => numbers
                .chunk_by(|a, b| a + 1 == *b)
                .map(|run| (file.as_fd(), u64::from(run[0]) * FRAME as u64, run.len() * FRAME))
                .collect(),
        }
    }
}

impl Kind for Region {
    const NAME: &'static str = "region";
    type Spec = RegionSpec;
    type Pool = RegionPool;

    fn pool(_: Place) -> Result<RegionPool> {
        Ok(RegionPool { file: None, frames: 0, free: Vec::new(), home: channel() })
    }

    fn create(spec: RegionSpec, pool: &mut RegionPool) -> Result<Region> {
        let backing = match spec {
            RegionSpec::Memory { bytes, huge } => memory(bytes, huge),
            RegionSpec::Frames(count) => pool.frames(count),
            RegionSpec::File { file, offset, bytes } => range(file.into(), offset, bytes),
            RegionSpec::Passed(fd) => passed(fd),
        }?;
        Ok(Region { backing: Arc::new(backing) })
    }

    fn destroy(self, _: &mut RegionPool) {}

    fn about(&self) -> About {
        let what = match &self.backing.of {
            Storage::Memory(_) => "memory",
            Storage::File { writable: true, .. } => "file",
            Storage::File { writable: false, .. } => "file, read-only",
            Storage::Frames(_) => "frames",
        };
        let state = match Arc::strong_count(&self.backing) - 1 {
            0 => what.to_owned(),
            attached => format!("{what}, attached {attached}×"),
        };
        About { state, bytes: self.backing.bytes as u64 }
    }
}

impl Region {
    /// Number of its bytes.
    pub fn bytes(&self) -> usize {
        self.backing.bytes
    }

    /// A descriptor of it for another process, which makes a region of it by
    /// [`RegionSpec::Passed`]: send it over a UNIX socket (`SCM_RIGHTS`). It is closed at
    /// exec, and both then see the same bytes.
    ///
    /// # Errors
    /// It is not of memory of its own; there are no descriptors left.
    pub fn descriptor(&self) -> Result<OwnedFd> {
        match &self.backing.of {
            Storage::Memory(memory) => {
                let fd = memory.fd().try_clone_to_owned();
                fd.map_err(|error| refused("a further descriptor", error))
            }
            Storage::File { .. } => Err(kind(
                "a range of a file has no descriptor of its own to pass: pass the file's, and \
                 have the other process make its own region of it",
            )),
            Storage::Frames(_) => Err(kind(
                "a region of frames shares one file with its core's other frames, which are \
                 not to be passed: make a region of memory",
            )),
        }
    }

    pub(crate) fn backing(&self) -> Arc<Backing> {
        Arc::clone(&self.backing)
    }
}

/// A place's frames for regions: pages of one file in memory, by their numbers.
#[derive(Debug)]
pub struct RegionPool {
    file: Option<Arc<OwnedFd>>,
    /// Number of frames that the file has.
    frames: u32,
    free: Vec<u32>,
    /// Channel by which frames come back, from wherever their last attachment went.
    home: (Sender<Vec<u32>>, Receiver<Vec<u32>>),
}

/// Frames by which the file grows: 2 MiB.
const GROWTH: u32 = 512;
/// The most: 1 TiB.
const MOST: u32 = 1 << 28;

impl RegionPool {
    fn frames(&mut self, count: usize) -> Result<Backing> {
        let bytes = within_memory(count.saturating_mul(FRAME))?;
        self.free.extend(self.home.1.try_iter().flatten());
        let file = self.grown(count)?;
        let rest = self.free.len() - count;
        let mut numbers = self.free.split_off(rest);
        numbers.sort_unstable();
        let of = Storage::Frames(FileFrames { file, numbers, home: self.home.0.clone() });
        Ok(Backing { of, bytes, page_bytes: FRAME })
    }

    /// Its file, when at least `count` frames are free.
    fn grown(&mut self, count: usize) -> Result<Arc<OwnedFd>> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                let fd = Sealed::unsized_file("kumiki-frames").map_err(of_system)?;
                Arc::clone(self.file.insert(Arc::new(fd)))
            }
        };
        let lacks = count.saturating_sub(self.free.len());
        if lacks > 0 {
            let more = u32::try_from(lacks.next_multiple_of(GROWTH as usize)).ok();
            let frames = more.and_then(|more| self.frames.checked_add(more));
            let frames = frames.filter(|frames| *frames <= MOST).ok_or_else(|| {
                kind(format!("{count} frames are more than a core's pool can have, {MOST}"))
            })?;
            ftruncate(&*file, u64::from(frames) * FRAME as u64)
                .map_err(|errno| refused("more frames", errno.into()))?;
            // The lowest last, so that they are taken first.
            self.free.splice(0..0, (self.frames..frames).rev());
            self.frames = frames;
        }
        Ok(file)
    }

    /// Frames that it has, used or free.
    pub fn len(&self) -> usize {
        self.frames as usize
    }

    /// True if it has none yet.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }
}

fn memory(bytes: usize, huge: Huge) -> Result<Backing> {
    within_memory(bytes)?;
    let memory = Sealed::new("kumiki-region", bytes, huge).map_err(of_system)?;
    of_memory(memory, huge.page_bytes())
}

fn of_memory(memory: Sealed, page_bytes: usize) -> Result<Backing> {
    if page_bytes > FRAME {
        // The pool of huge pages answers when the first maps them.
        tried(memory.fd(), 0, memory.len(), true)?;
    }
    Ok(Backing { bytes: memory.len(), of: Storage::Memory(memory), page_bytes })
}

/// Size of the pages by which a file is mapped: that of huge pages if it is made of them.
fn page_bytes(file: BorrowedFd<'_>) -> Result<usize> {
    let about = fstatfs(file).map_err(|errno| refused("looking at the file", errno.into()))?;
    // What others call their block size is only advice.
    let huge = about.f_type == HUGETLBFS_MAGIC;
    Ok(usize::try_from(about.f_bsize).ok().filter(|_| huge).unwrap_or(FRAME))
}

fn passed(fd: OwnedFd) -> Result<Backing> {
    let memory = Sealed::from_fd(fd)?;
    let page_bytes = page_bytes(memory.fd())?;
    of_memory(memory, page_bytes)
}

fn range(file: OwnedFd, offset: u64, bytes: usize) -> Result<Backing> {
    let unknown = |errno: Errno| refused("looking at the file", errno.into());
    let stat = fstat(&file).map_err(unknown)?;
    let access = fcntl_getfl(&file).map_err(unknown)? & OFlags::ACCMODE;
    if access == OFlags::WRONLY {
        return Err(kind("the file is open for writing alone: open it for reading, too"));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let page_bytes = page_bytes(file.as_fd())?;
    let end = offset.checked_add(bytes as u64).filter(|end| *end <= size);
    if bytes == 0 || end.is_none() || offset % (page_bytes as u64) != 0 {
        return Err(kind(format!(
            "{bytes} bytes from byte {offset} on of a file of {size}: choose at least one byte \
             within the file, from a multiple of {page_bytes} on"
        )));
    }
    let writable = access == OFlags::RDWR;
    tried(file.as_fd(), offset, bytes, writable)?;
    let of = Storage::File { file, offset, writable };
    Ok(Backing { of, bytes, page_bytes })
}

/// Maps a file once, where the kernel chooses: one that refuses to be mapped (sysfs, FUSE with
/// direct I/O, no huge pages left) is refused now. In a space it would be too late: the kernel
/// unmaps what is in the way before it asks the file, and another thread may get the hole.
fn tried(file: BorrowedFd<'_>, offset: u64, bytes: usize, writable: bool) -> Result<()> {
    let write = if writable { ProtFlags::WRITE } else { ProtFlags::empty() };
    let (access, flags) = (ProtFlags::READ | write, MapFlags::SHARED);
    let refused = |errno: Errno| refused("mapping the file", errno.into());
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { mmap(ptr::null_mut(), bytes, access, flags, file, offset) };
    let start = start.map_err(refused)?;
    // SAFETY: mapped just now, and used by nobody.
    unsafe { munmap(start, bytes.next_multiple_of(page_bytes(file)?)) }.map_err(refused)
}

/// Memory that nobody could ever fill is refused at once, instead of by a signal when it
/// is touched.
fn within_memory(bytes: usize) -> Result<usize> {
    let memory = rustix::system::sysinfo();
    let unit = u64::from(memory.mem_unit);
    let all = (memory.totalram as u64 + memory.totalswap as u64).saturating_mul(unit);
    if bytes == 0 || bytes as u64 > all {
        return Err(kind(format!(
            "a region of {bytes} bytes: ask for 1 to {all}, this machine's memory and swap"
        )));
    }
    Ok(bytes)
}

fn kind(text: impl Into<String>) -> Error {
    Error::Kind { kind: Region::NAME, text: text.into() }
}

fn of_system(error: kumiki_sys::Error) -> Error {
    match error {
        kumiki_sys::Error::Os { what, source } => refused(&what, source),
        other => other.into(),
    }
}

/// The error of a system call, with a way out.
fn refused(what: &str, error: std::io::Error) -> Error {
    let way = match Errno::from_io_error(&error) {
        Some(Errno::MFILE) => "; raise RLIMIT_NOFILE (ulimit -n), or destroy regions",
        Some(Errno::NFILE) => "; see fs.file-max, or destroy regions",
        Some(Errno::NOMEM | Errno::NOSPC) => "; destroy some, or see the cgroup's memory.max",
        _ => "",
    };
    Error::System { kind: Region::NAME, what: what.to_owned(), source: error, way }
}
