//! A disk that answers each request after a set time, any number at once: a file of a FUSE file system of this process,
//! read without a cache, below a loop device with ext4.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use tempfile::TempDir;

use super::SlowFolder;

/// Size of the file system; what is not written takes no room.
const BYTES: u64 = 2 << 30;
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
        let is_root = number == INodeNo::ROOT;
        FileAttr {
            ino: number,
            size: if is_root { 0 } else { BYTES },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
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

/// The disk; its file system is mounted anew before each run.
pub(super) struct Disk {
    answer_ns: Arc<AtomicU64>,
    device: String,
    is_mounted: bool,
    // In this order they are given back.
    _device_open: File,
    _session: Option<BackgroundSession>,
    folder: TempDir,
}

impl Disk {
    pub(super) fn new() -> Result<Self> {
        apart()?;
        let folder = tempfile::tempdir()?;
        let image = folder.path().join("image");
        File::create(&image)?.set_len(BYTES)?;
        ran(Command::new("mkfs.ext4").args(["-q", "-N", "200000"]).arg(&image))?;
        for name in ["fuse", "mnt"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let answer_ns = Arc::new(AtomicU64::new(0));
        let image = File::options().read(true).write(true).open(&image)?;
        let served = Delayed { image, answer_ns: Arc::clone(&answer_ns) };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RW, MountOption::FSName("delayed".to_owned())];
        config.n_threads = Some(usize::from(REQUESTS));
        config.clone_fd = true;
        let below = folder.path().join("fuse");
        let session = fuser::spawn_mount(served, &below, &config).context("mounting by FUSE")?;
        let losetup = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(below.join(NAME))
            .output()
            .context("losetup")?;
        ensure!(losetup.status.success(), "losetup: {}", String::from_utf8_lossy(&losetup.stderr));
        let device = String::from_utf8(losetup.stdout)?.trim().to_owned();
        let _device_open = File::open(&device).with_context(|| device.clone())?;
        // While somebody has it open it stays; however this process ends, it is free then.
        ran(Command::new("losetup").args(["--detach", &device]))?;
        let _session = Some(session);
        let mut disk =
            Disk { answer_ns, device, is_mounted: false, _device_open, _session, folder };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&mut self) -> Result<()> {
        ran(Command::new("mount").arg(&self.device).arg(self.path()))?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        if self.is_mounted {
            ran(Command::new("umount").arg(self.path()))?;
            self.is_mounted = false;
        }
        Ok(())
    }
}

impl SlowFolder for Disk {
    fn path(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn anew(&mut self, answer: Duration) -> Result<()> {
        self.answer_ns.store(0, Ordering::Relaxed);
        self.unmount()?;
        self.mount()?;
        self.answer_ns.store(u64::try_from(answer.as_nanos())?, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.answer_ns.store(0, Ordering::Relaxed);
        let _ = self.unmount();
    }
}

/// Gives this thread, and what it starts, mounts of its own: another namespace that is made meanwhile would keep a copy
/// of the disk's, with what the kernel knows of it.
fn apart() -> Result<()> {
    // SAFETY: a call without pointers; what it changes is this thread's alone.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    ensure!(done == 0, "mounts of its own: {}: run it as root", std::io::Error::last_os_error());
    ran(Command::new("mount").args(["--make-rprivate", "/"]))
}

/// Runs a command that must succeed.
pub(super) fn ran(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(())
}

/// Fills a folder with files of 500 bytes to 12 KiB, 30 in each of some folders, in three levels.
pub(super) fn fill(folder: &Path, files: usize) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(67);
    let bytes: Vec<u8> = (0..12 << 10).map(|_| random.alphanumeric() as u8).collect();
    for at in 0..files {
        let (number, of) = (at / 30, at % 30);
        let above = folder.join(format!("a{}/b{}/c{number}", number / 100, number / 10));
        if of == 0 {
            fs::create_dir_all(&above)?;
        }
        fs::write(above.join(format!("file{of}")), &bytes[..random.usize(500..bytes.len())])?;
    }
    Ok(())
}
