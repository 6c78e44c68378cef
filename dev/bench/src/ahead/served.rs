//! The process that serves the slow disk: a file of a FUSE file system, read without a cache, below a loop device.
//!
//! It is a process of its own, with mounts of its own. One that used a disk which it serves itself would wait for its own answers when it
//! is killed: its mounts are undone before its FUSE device is closed, and a thread of it that writes ends only when it has been answered.

use std::ffi::OsStr;
use std::fs::File;
use std::io::stdin;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use self::attributes::attributes;
use super::image::{BYTES, IMAGE, ran};

#[path = "../../../../apps/ahead/tests/ahead/attributes.rs"]
mod attributes;

/// First word of its command line; it works in the folder of the image.
pub(crate) const WORD: &str = "ahead-disk";
/// Its line, with the loop device; and each of its answers.
pub(super) const SERVES: &str = "serves ";
/// Requests that may be under way.
const REQUESTS: u16 = 128;
const NAME: &str = "disk";
const NUMBER: INodeNo = INodeNo(2);
const LONG: Duration = Duration::from_secs(3600);

/// The one file, and how long it takes.
struct Delayed {
    image: File,
    answer_ns: Arc<AtomicU64>,
}

impl Delayed {
    fn wait(&self) {
        let answer = Duration::from_nanos(self.answer_ns.load(Ordering::Relaxed));
        if !answer.is_zero() {
            sleep(answer);
        }
    }

    fn attributes(number: INodeNo) -> FileAttr {
        match number == INodeNo::ROOT {
            true => attributes(number, FileType::Directory, 0, 0o700),
            false => attributes(number, FileType::RegularFile, BYTES, 0o700),
        }
    }
}

impl Filesystem for Delayed {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let refused = |_| std::io::Error::from(std::io::ErrorKind::Unsupported);
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_READ | InitFlags::FUSE_ASYNC_DIO)
            .map_err(refused)?;
        config.set_max_background(REQUESTS).map_err(|_| std::io::ErrorKind::Unsupported)?;
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&LONG, &Self::attributes(NUMBER), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &Self::attributes(number));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.wait();
        let mut bytes = vec![0; size as usize];
        match self.image.read_exact_at(&mut bytes, offset) {
            Ok(()) => reply.data(&bytes),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.wait();
        match self.image.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// Serves the image in the working folder until the input ends; each line of it is the time of an answer in nanoseconds.
pub(crate) fn serve() -> Result<()> {
    apart()?;
    let at = Path::new("fuse");
    std::fs::create_dir(at)?;
    let answer_ns = Arc::new(AtomicU64::new(0));
    let image = File::options().read(true).write(true).open(IMAGE)?;
    let served = Delayed { image, answer_ns: Arc::clone(&answer_ns) };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::RW, MountOption::FSName("delayed".to_owned())];
    config.n_threads = Some(usize::from(REQUESTS));
    config.clone_fd = true;
    let _session = fuser::spawn_mount(served, at, &config).context("mounting by FUSE")?;
    let losetup = Command::new("losetup")
        .args(["--find", "--show", "--direct-io=on"])
        .arg(at.join(NAME))
        .output()
        .context("losetup")?;
    ensure!(losetup.status.success(), "losetup: {}", String::from_utf8_lossy(&losetup.stderr));
    let device = String::from_utf8(losetup.stdout)?;
    println!("{SERVES}{}", device.trim());
    for line in stdin().lines() {
        answer_ns.store(line?.trim().parse()?, Ordering::Relaxed);
        println!("{SERVES}");
    }
    // Whoever still uses the disk gets errors.
    std::process::exit(0)
}

/// Gives this thread, and what it starts, mounts of its own: another namespace that is made meanwhile would keep a copy
/// of the disk's, with what the kernel knows of it.
pub(super) fn apart() -> Result<()> {
    // SAFETY: a call without pointers; what it changes is this thread's alone.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    ensure!(done == 0, "mounts of its own: {}: run it as root", std::io::Error::last_os_error());
    ran(Command::new("mount").args(["--make-rprivate", "/"]))
}
