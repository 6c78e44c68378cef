//! A file that a person asked to be written.
//!
//! ```text
//!   new, or a plain file   a successor beside it, which takes its name when it is whole
//!   a link                 what it leads to, and the link stays
//!   a device, a pipe,
//!   a file with two names  written as it is, in place
//!   -, /dev/stdout, …      the descriptor, from where it stands
//! ```
//!
//! Whatever writes where somebody said does so by this, so that a device is never replaced by a
//! file, and a file never lost for one that is not whole.
//!
//! ```
//! use std::io::Write;
//! use kumiki_destination::Destination;
//!
//! let destination = Destination::new("/dev/null".as_ref())?;
//! destination.write(|out| out.write_all(b"a text"))?;
//! # std::io::Result::Ok(())
//! ```
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kumiki_sys::stdio::stdout_was_closed;

/// The name of standard output, in place of a file's.
pub const STDOUT: &str = "-";

/// Links that lead to each other, as Linux follows them.
const LINKS: usize = 40;

/// File to be written, checked before long work starts. What the file held stays until its
/// successor is complete.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// A new file in this folder takes the name when it is complete.
    Replace(PathBuf),
    /// A device, a pipe, or a file in a folder that takes no new one.
    InPlace(File),
    /// A descriptor that this process was given, from where it stands on.
    Descriptor(File),
    /// Standard output.
    Stdout,
}

/// Permissions and time that a plain file is to have. What else is written to has neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct About {
    /// Permissions; else those of the file that was there, or of any new file.
    pub mode: Option<u32>,
    /// Time of its last change; else now.
    pub modified: Option<SystemTime>,
}

impl Destination {
    /// Fails if `path` cannot be written, and changes nothing.
    pub fn new(path: &Path) -> io::Result<Self> {
        if path == Path::new(STDOUT) {
            return Ok(Destination { path: path.to_owned(), way: Way::Stdout });
        }
        if let Some(number) = descriptor(path) {
            let way = if number == "1" {
                Way::Stdout
            } else {
                Way::Descriptor(open_descriptor(&number)?)
            };
            return Ok(Destination { path: path.to_owned(), way });
        }
        // A symbolic link stays one: what it leads to is replaced, or made.
        let path = resolved(path)?;
        let way = way(&path)?;
        Ok(Destination { path, way })
    }

    /// True if it is this process's standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.way, Way::Stdout)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of `fill`, and of what is to be written. A plain file is then what it was.
    pub fn write<E: From<io::Error>>(
        self,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write_as(|out| fill(out).map(|()| About::default()))
    }

    /// Writes a file that is to have permissions and a time of its own, which are known when it is
    /// whole.
    ///
    /// # Errors
    /// As those of [`write`](Self::write).
    pub fn write_as<E: From<io::Error>>(
        self,
        fill: impl FnOnce(&mut dyn Write) -> Result<About, E>,
    ) -> Result<(), E> {
        match self.way {
            Way::Replace(folder) => replace(&self.path, &folder, fill),
            Way::InPlace(file) => overwrite(file, fill),
            Way::Descriptor(file) => through(file, fill),
            Way::Stdout if stdout_was_closed() => {
                Err(io::Error::from(rustix::io::Errno::BADF).into())
            }
            Way::Stdout => through(io::stdout().lock(), fill),
        }
    }
}

fn way(path: &Path) -> io::Result<Way> {
    let folder = folder(path);
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            successor(&folder)?;
            return Ok(Way::Replace(folder));
        }
        Err(error) => return Err(error),
    };
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // A pipe is opened once: a reader that has seen one open it, and close, reads no more.
    let file = OpenOptions::new().write(true).open(path)?;
    let is_plain = about.is_file() && about.nlink() == 1;
    if is_plain && successor(&folder).is_ok_and(|new| is_same_owner(new.as_file(), &about)) {
        return Ok(Way::Replace(folder));
    }
    Ok(Way::InPlace(file))
}

/// True if a file of ours can be the other one's: a process that may not give files away writes it
/// in place.
fn is_same_owner(new: &File, old: &fs::Metadata) -> bool {
    let is_ours = new.metadata().is_ok_and(|new| (new.uid(), new.gid()) == (old.uid(), old.gid()));
    is_ours || std::os::unix::fs::fchown(new, Some(old.uid()), Some(old.gid())).is_ok()
}

/// Path behind all links, be there a file or not.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// The number of a descriptor of this process that a path leads to, as /dev/stdout does.
fn descriptor(path: &Path) -> Option<String> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let parent = fs::canonicalize(folder(&path)).ok()?;
        if parent == Path::new("/proc").join(std::process::id().to_string()).join("fd") {
            return Some(path.file_name()?.to_string_lossy().into_owned());
        }
        path = parent.join(fs::read_link(&path).ok()?);
    }
    None
}

/// A descriptor, by its path: what is there is not cut, nor written over.
fn open_descriptor(number: &str) -> io::Result<File> {
    OpenOptions::new().append(true).open(Path::new("/proc/self/fd").join(number))
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn replace<E: From<io::Error>>(
    path: &Path,
    folder: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<About, E>,
) -> Result<(), E> {
    let mut file = successor(folder)?;
    let former = fs::metadata(path).ok();
    // Nobody else's to read before it is whole, if it is to have a mode of its own.
    let wanted = file.as_file().metadata()?.permissions();
    file.as_file().set_permissions(Permissions::from_mode(0o600))?;
    let mut out = BufWriter::new(file.as_file_mut());
    let about = fill(&mut out)?;
    out.flush()?;
    drop(out);
    let whole = file.as_file();
    if let Some(former) = &former {
        // Who may not give it away would have written in place.
        is_same_owner(whole, former);
    }
    let mode = about.mode.map(|mode| Permissions::from_mode(mode & 0o7777));
    let kept = former.map(|former| former.permissions());
    whole.set_permissions(mode.or(kept).unwrap_or(wanted))?;
    if let Some(modified) = about.modified {
        whole.set_modified(modified)?;
    }
    whole.sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn overwrite<E: From<io::Error>>(
    file: File,
    fill: impl FnOnce(&mut dyn Write) -> Result<About, E>,
) -> Result<(), E> {
    let is_file = file.metadata()?.is_file();
    if is_file {
        file.set_len(0)?;
    }
    let mut out = BufWriter::new(&file);
    let about = fill(&mut out)?;
    out.flush()?;
    drop(out);
    if is_file {
        if let Some(mode) = about.mode {
            file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
        }
        if let Some(modified) = about.modified {
            file.set_modified(modified)?;
        }
    }
    Ok(())
}

fn through<E: From<io::Error>>(
    to: impl Write,
    fill: impl FnOnce(&mut dyn Write) -> Result<About, E>,
) -> Result<(), E> {
    let mut out = BufWriter::new(to);
    fill(&mut out)?;
    Ok(out.flush()?)
}

/// A new file beside the one that it will replace, with the permissions that
/// any new file gets; removed if it is not persisted.
fn successor(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".kumiki-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|error| {
            let (folder, kind) = (folder.display(), error.kind());
            io::Error::new(kind, format!("folder {folder} takes no new file ({kind})"))
        })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, inotify, mknodat};

    use super::*;

    fn put(path: &Path, text: &str) -> io::Result<()> {
        Destination::new(path)?.write(|out| out.write_all(text.as_bytes()))
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn former_content_stays_until_the_new_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        put(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let failed = Destination::new(&path).unwrap().write(|out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.unwrap_err().to_string().contains("the disk is full"));
        assert_eq!(text(&path), "old");
        put(&path, "new").unwrap();
        assert_eq!(text(&path), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn what_is_no_plain_file_stays_what_it_is_and_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        put(&at("target"), "old").unwrap();
        symlink("target", at("link")).unwrap();
        put(&at("link"), "new").unwrap();
        assert_eq!(text(&at("target")), "new");
        // To a file that is not there yet.
        symlink("later", at("dangling")).unwrap();
        put(&at("dangling"), "made").unwrap();
        assert_eq!(text(&at("later")), "made");
        for link in ["link", "dangling"] {
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
        }
        // Both names of a file are the file.
        fs::hard_link(at("target"), at("second")).unwrap();
        put(&at("second"), "2").unwrap();
        assert_eq!(text(&at("target")), "2");
        // Made beside it, a device of the folder's own.
        let null = fs::metadata("/dev/null").unwrap();
        if mknodat(CWD, at("null"), FileType::CharacterDevice, Mode::RWXU, null.rdev()).is_ok() {
            put(&at("null"), "gone").unwrap();
            let about = fs::symlink_metadata(at("null")).unwrap();
            assert!(!about.is_file() && about.rdev() == null.rdev());
        }
        put(Path::new("/dev/null"), "gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(put(folder.path(), "x").is_err());
    }

    #[test]
    fn who_reads_a_pipe_gets_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let reads = {
            let pipe = pipe.clone();
            std::thread::spawn(move || {
                let mut read = String::new();
                File::open(pipe).unwrap().read_to_string(&mut read).map(|_| read)
            })
        };
        let seen = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&seen, &pipe, inotify::WatchFlags::CLOSE_WRITE).unwrap();
        let destination = Destination::new(&pipe).unwrap();
        // A writer that has gone is the end to who reads meanwhile.
        let closed = rustix::io::read(&seen, &mut [0; 256]);
        assert_eq!(closed, Err(rustix::io::Errno::AGAIN), "it was opened and closed");
        destination.write(|out| out.write_all(b"by the pipe")).unwrap();
        assert_eq!(reads.join().unwrap().unwrap(), "by the pipe");
        assert!(!fs::symlink_metadata(&pipe).unwrap().is_file());
    }

    #[test]
    fn a_descriptor_is_written_from_where_it_stands() {
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"before ").unwrap();
        for (name, text) in [("/dev/fd", "one "), ("/proc/self/fd", "two")] {
            put(&Path::new(name).join(file.as_raw_fd().to_string()), text).unwrap();
        }
        assert_eq!(text(&path), "before one two");
        for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert!(Destination::new(Path::new(name)).unwrap().is_stdout(), "{name}");
        }
    }

    #[test]
    fn a_file_may_have_a_mode_and_a_time_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 500);
        let about = About { mode: Some(0o751), modified: Some(time) };
        for _ in 0..2 {
            let destination = Destination::new(&path).unwrap();
            destination.write_as(|_| io::Result::Ok(about)).unwrap();
            let have = fs::metadata(&path).unwrap();
            assert_eq!((have.mode() & 0o7777, have.modified().unwrap()), (0o751, time));
        }
        // To what has no time of its own, it is written all the same.
        let null = Destination::new(Path::new("/dev/null")).unwrap();
        let mode = fs::metadata("/dev/null").unwrap().mode();
        null.write_as(|_| io::Result::Ok(about)).unwrap();
        assert_eq!(fs::metadata("/dev/null").unwrap().mode(), mode);
    }
}
