//! What a function is given: made anew for each call, as some are used up by one.

use std::any::Any;
use std::ffi::CStr;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};

/// A folder on a disk, for one thing at a time.
pub(super) struct Folder {
    folder: tempfile::TempDir,
}

/// A path, and what has to live as long as it is used.
pub(super) struct At {
    pub(super) path: PathBuf,
    _kept: Vec<Box<dyn Any>>,
}

/// One open file for each of the two.
pub(super) struct Both {
    pub(super) std: File,
    pub(super) ours: kumiki_tokio::File,
    _kept: Vec<Box<dyn Any>>,
}

pub(super) type Things<T> = &'static [(&'static str, fn(&Folder) -> T)];

pub(super) const PATHS: Things<At> = &[
    ("regular", |it| at(it.file(&long()))),
    ("cold", |it| {
        let path = it.file(&long());
        make_cold(&File::open(&path).unwrap());
        at(path)
    }),
    ("empty", |it| at(it.file(b""))),
    ("huge", |it| {
        let path = it.file(b"");
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        at(path)
    }),
    ("directory", |it| {
        let path = it.name();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("one"), "").unwrap();
        fs::write(path.join("two"), "").unwrap();
        at(path)
    }),
    ("missing", |it| {
        let path = it.folder.path().join("missing");
        let _ = fs::remove_file(&path);
        at(path)
    }),
    ("below a file", |it| at(it.file(b"").join("below"))),
    ("a name that is too long", |it| at(it.folder.path().join("x".repeat(300)))),
    // Its target is of this folder, too: it is written to.
    ("link", |it| {
        let path = it.folder.path().join("link");
        let _ = fs::remove_file(&path);
        symlink(it.file(&long()), &path).unwrap();
        at(path)
    }),
    ("broken link", |it| at(it.link("nowhere"))),
    ("link to itself", |it| {
        let path = it.name();
        symlink(&path, &path).unwrap();
        at(path)
    }),
    ("unreadable", |it| {
        let path = it.file(b"secret");
        fs::set_permissions(&path, Permissions::from_mode(0o0)).unwrap();
        at(path)
    }),
    ("deleted", |it| {
        let path = it.file(&long());
        let file = File::open(&path).unwrap();
        fs::remove_file(path).unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        At { path, _kept: vec![Box::new(file)] }
    }),
    ("fifo", |it| {
        let path = it.name();
        mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        let writer = Writer::new(&path);
        At { path, _kept: vec![Box::new(writer)] }
    }),
    ("socket", |it| {
        let path = it.name();
        let socket = UnixListener::bind(&path).unwrap();
        At { path, _kept: vec![Box::new(socket)] }
    }),
    ("terminal", |_| {
        let (master, path) = terminal();
        At { path, _kept: vec![Box::new(master)] }
    }),
    ("null", |_| at("/dev/null".into())),
    ("of proc", |_| at("/proc/version".into())),
    ("of proc, long", |_| at("/proc/iomem".into())),
    ("leased", |it| {
        let path = it.file(&long());
        let lease = Lease::new(&path);
        At { path, _kept: vec![Box::new(lease)] }
    }),
];

pub(super) const FILES: Things<Both> = &[
    ("regular", |it| both(open(&it.file(&long()), 0), Vec::new())),
    ("cold", |it| {
        let file = open(&it.file(&long()), 0);
        make_cold(&file);
        both(file, Vec::new())
    }),
    ("short", |it| both(open(&it.file(b"short"), 0), Vec::new())),
    ("empty", |it| both(open(&it.file(b""), 0), Vec::new())),
    ("huge", |it| {
        let file = open(&it.file(b""), 0);
        file.set_len(1 << 40).unwrap();
        both(file, Vec::new())
    }),
    ("direct", |it| both(open(&it.file(&long()), libc::O_DIRECT), Vec::new())),
    // By those who had it open before.
    ("unreadable", |it| {
        let path = it.file(&long());
        let file = open(&path, 0);
        fs::set_permissions(&path, Permissions::from_mode(0o0)).unwrap();
        both(file, Vec::new())
    }),
    // For reading: nobody who writes may have it open then.
    ("leased", |it| {
        let path = it.file(&long());
        let file = File::open(&path).unwrap();
        let lease = Lease::of(File::open(&path).unwrap(), libc::F_RDLCK);
        both(file, vec![Box::new(lease)])
    }),
    ("deleted", |it| {
        let path = it.file(&long());
        let file = open(&path, 0);
        fs::remove_file(path).unwrap();
        both(file, Vec::new())
    }),
    ("for reading only", |it| both(File::open(it.file(&long())).unwrap(), Vec::new())),
    ("for writing only", |it| {
        both(File::options().write(true).open(it.file(&long())).unwrap(), Vec::new())
    }),
    ("appended to", |it| {
        let path = it.file(&long());
        both(File::options().read(true).append(true).open(path).unwrap(), Vec::new())
    }),
    ("directory", |it| both(File::open(it.folder.path()).unwrap(), Vec::new())),
    ("fifo", |it| {
        let path = it.name();
        mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        both(open(&path, 0), Vec::new())
    }),
    ("socket", |_| {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        both(File::from(std::os::fd::OwnedFd::from(one)), vec![Box::new(other)])
    }),
    ("terminal", |_| {
        let (master, path) = terminal();
        both(open(&path, libc::O_NOCTTY), vec![Box::new(master)])
    }),
    ("null", |_| both(open(Path::new("/dev/null"), 0), Vec::new())),
    ("of proc", |_| both(File::open("/proc/version").unwrap(), Vec::new())),
];

impl Folder {
    pub(super) fn new() -> Folder {
        Folder { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    /// From now on this process is nobody's, whose folder it is; `false` where that cannot be.
    pub(super) fn become_nobody(&self) -> bool {
        const NOBODY: u32 = 65_534;
        std::os::unix::fs::chown(self.folder.path(), Some(NOBODY), Some(NOBODY)).is_ok()
            // SAFETY: numbers only; of all threads, which are this process's alone.
            && unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) } == 0
            // SAFETY: as above.
            && unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) } == 0
            && fs::write(self.folder.path().join("it"), "").is_ok()
    }

    fn name(&self) -> PathBuf {
        // Both calls of a pair see the same name, as a new thing.
        let path = self.folder.path().join("it");
        // With no other calls than these.
        for name in ["one", "two"] {
            let _ = fs::remove_file(path.join(name));
        }
        let _ = fs::remove_dir(&path);
        let _ = fs::remove_file(&path);
        path
    }

    fn file(&self, content: &[u8]) -> PathBuf {
        let path = self.name();
        fs::write(&path, content).unwrap();
        path
    }

    fn link(&self, to: &str) -> PathBuf {
        let path = self.name();
        symlink(to, &path).unwrap();
        path
    }
}

fn at(path: PathBuf) -> At {
    At { path, _kept: Vec::new() }
}

fn both(file: File, kept: Vec<Box<dyn Any>>) -> Both {
    // Not by fcntl(2), which may be refused.
    let ours = kumiki_tokio::File::from(rustix::io::dup(&file).unwrap());
    Both { std: file, ours, _kept: kept }
}

/// As far as that is not refused.
fn make_cold(file: &File) {
    file.sync_all().unwrap();
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

fn long() -> Vec<u8> {
    super::super::content(20_000)
}

fn open(path: &Path, flags: i32) -> File {
    File::options().read(true).write(true).custom_flags(flags).open(path).unwrap()
}

/// A terminal's master, and the name of the terminal, on which a line and the end were typed.
fn terminal() -> (File, PathBuf) {
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: made just now, and nobody else's.
    let mut master = unsafe { File::from_raw_fd(fd) };
    // SAFETY: a master's descriptor.
    assert_eq!(unsafe { libc::unlockpt(fd) }, 0);
    let mut name = [0; 64];
    // SAFETY: writes at most so many bytes.
    assert_eq!(unsafe { libc::ptsname_r(fd, name.as_mut_ptr(), name.len()) }, 0);
    // SAFETY: written just now, with a zero at its end.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    master.write_all(b"typed\n\x04").unwrap();
    (master, PathBuf::from(name.to_str().unwrap()))
}

/// A thread that writes to a FIFO, if somebody reads it.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn new(path: &Path) -> Writer {
        let (stop, path) = (Arc::new(AtomicBool::new(false)), path.to_owned());
        let stops = Arc::clone(&stop);
        let write = move || {
            while !stops.load(Ordering::Relaxed) {
                // Only with a reader there, else it would wait for one.
                let mut to = File::options();
                if let Ok(mut file) = to.write(true).custom_flags(libc::O_NONBLOCK).open(&path) {
                    let _ = file.write_all(b"written");
                    return;
                }
                thread::sleep(Duration::from_micros(200));
            }
        };
        Writer { stop, thread: Some(thread::spawn(write)) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// `F_SETSIG` of include/uapi/asm-generic/fcntl.h.
const F_SETSIG: i32 = 10;

/// A lease that is given up a moment after somebody wants the file.
struct Lease {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lease {
    fn new(path: &Path) -> Lease {
        Lease::of(open(path, 0), libc::F_WRLCK)
    }

    fn of(file: File, kind: i32) -> Lease {
        let control = move |command, value: i32| {
            // SAFETY: numbers only.
            unsafe { libc::fcntl(file.as_raw_fd(), command, value) }
        };
        // The signal of a lease ends a process that has no handler; of this one nobody hears.
        control(F_SETSIG, libc::SIGURG);
        let is_held = control(libc::F_SETLEASE, kind) == 0;
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let watch = move || {
            while is_held && !stops.load(Ordering::Relaxed) && control(libc::F_GETLEASE, 0) == kind
            {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(10));
            control(libc::F_SETLEASE, libc::F_UNLCK);
        };
        Lease { stop, thread: Some(thread::spawn(watch)) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}
