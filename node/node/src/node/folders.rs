//! Folders into a node and out of it, as tar archives through a channel.
//!
//! What the host sends is believed, in the node. What a node sends is not: it may say anything, and
//! without an end. The host makes files, folders and links of it, all below a new folder, which takes
//! its name when all is there; permissions lose what would let a file run as somebody else.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps};
use tar::{Archive, Builder, EntryType};
use tempfile::TempDir;

/// Bits of a node's file that are taken over: for whom it is, and not as whom it runs, which here
/// would be root.
pub(super) const NODES_MODE: u32 = 0o777;
/// The longest path that a node may say: what the kernel takes.
const PATH_BYTES: u64 = 4096;
/// Entries that a node may send, and bytes of its folders' paths, which are kept to the end.
const ENTRIES: usize = 1 << 20;
const FOLDERS_BYTES: usize = 64 << 20;
/// Bytes behind an archive's end that are still taken, so that its sender need not fail.
const REST_BYTES: u64 = 1 << 20;

/// Writes all that is in a folder, its own permissions and time first.
pub(super) fn pack(folder: &Path, out: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(out);
    archive.follow_symlinks(false);
    archive.sparse(false);
    archive.append_dir_all(".", folder)?;
    archive.into_inner()?.flush()
}

/// Unpacks, in a node, the host's archive into a folder that is there or is made.
pub(super) fn unpack(mut archive: impl Read, folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        fs::create_dir(folder)?;
    }
    let mut all = Archive::new(&mut archive);
    all.set_preserve_permissions(true);
    let mut folders = Vec::new();
    for entry in all.entries()? {
        let mut entry = entry?;
        if entry.unpack_in(folder)? && entry.header().entry_type().is_dir() {
            let (path, seconds) = (entry.path()?.into_owned(), entry.header().mtime()?);
            folders.push((path, entry.header().mode()?, seconds));
        }
    }
    // What came into a folder was a change of it; and the first one is that which is there.
    for (path, mode, seconds) in folders.into_iter().rev() {
        let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
        let path = folder.join(names.collect::<PathBuf>());
        let about = About { mode: Mode::from_raw_mode(mode & 0o7777), modified: seconds as i64 };
        set(&File::open(path)?, &about)?;
    }
    // What is behind the end is nobody's, and its sender writes it all the same.
    io::copy(&mut archive, &mut io::sink()).map(drop)
}

/// Runs both ends of a pipe, where both are at work at once.
pub(super) fn piped<A, B: Send>(
    write: impl FnOnce(PipeWriter) -> A,
    read: impl FnOnce(PipeReader) -> B + Send,
) -> io::Result<(A, B)> {
    let (reader, writer) = io::pipe()?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, move || read(reader))?;
        let written = write(writer);
        let read = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((written, read))
    })
}

/// A folder that came from a node, and has not its name yet.
pub(super) struct Received<'a> {
    folder: TempDir,
    place: &'a Path,
}

impl Received<'_> {
    /// All has come: it takes its name.
    pub(super) fn complete(self) -> io::Result<()> {
        let Received { folder, place } = self;
        rustix::fs::renameat_with(CWD, folder.path(), CWD, place, RenameFlags::NOREPLACE)?;
        // Nothing is at its old name any more.
        let _ = folder.keep();
        Ok(())
    }
}

/// Receives a folder that a node sends, under this new name.
pub(super) fn receive(mut from: impl Read, place: &Path) -> io::Result<Received<'_>> {
    if fs::symlink_metadata(place).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it is there already: remove it, or give another name",
        ));
    }
    let parent = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let new = tempfile::Builder::new().prefix(".kumiki-cp-").tempdir_in(parent)?;
    let mut root = Root::open(new.path())?;
    let mut archive = Archive::new(&mut from);
    // Long names come in entries before their own; no more of them is read than a path has.
    let (mut long_name, mut long_target) = (None, None);
    for (count, entry) in archive.entries()?.raw(true).enumerate() {
        if count == ENTRIES {
            return Err(odd(format!("more than {ENTRIES} files come")));
        }
        let mut entry = entry?;
        let header = entry.header();
        let (kind, mode) = (header.entry_type(), header.mode()? & NODES_MODE);
        // Of a time before 1970 it writes the bits.
        let modified = header.mtime()? as i64;
        if matches!(kind, EntryType::GNULongName | EntryType::GNULongLink) {
            let mut text = Vec::new();
            if header.entry_size()? > PATH_BYTES {
                return Err(odd("a name comes that no path has room for".to_owned()));
            }
            entry.read_to_end(&mut text)?;
            text.truncate(text.iter().position(|&byte| byte == 0).unwrap_or(text.len()));
            let long =
                if kind == EntryType::GNULongName { &mut long_name } else { &mut long_target };
            *long = Some(text);
            continue;
        }
        let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let about = About { mode: Mode::from_raw_mode(mode), modified };
        let path = inside(Path::new(std::ffi::OsStr::from_bytes(&name)))?;
        let target = long_target.take();
        match kind {
            EntryType::Directory => root.folder(&path, about)?,
            EntryType::Regular => root.file(&path, about, &mut entry)?,
            EntryType::Symlink => {
                let target = target.or_else(|| entry.link_name_bytes().map(Into::into));
                root.link(&path, &target.unwrap_or_default())?;
            }
            _ => {
                let path = path.display();
                return Err(odd(format!("{path}: it is no file, folder or link; leave it out")));
            }
        }
    }
    root.complete()?;
    io::copy(&mut from.take(REST_BYTES), &mut io::sink())?;
    Ok(Received { folder: new, place })
}

fn odd(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A path below a folder, of plain names alone; empty for the folder itself.
fn inside(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => plain.push(name),
            _ => return Err(odd(format!("{}: it leads out of its folder", path.display()))),
        }
    }
    Ok(plain)
}

struct About {
    mode: Mode,
    modified: i64,
}

/// A new folder that others know nothing of, and what is made below it without following a link.
struct Root {
    folder: OwnedFd,
    /// Have their permissions and times when all is there.
    folders: Vec<(PathBuf, About)>,
    /// Bytes that may still be kept of paths.
    left: usize,
}

impl Root {
    fn open(folder: &Path) -> io::Result<Root> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Root { folder, folders: Vec::new(), left: FOLDERS_BYTES })
    }

    fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = flags | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), resolve)?)
    }

    /// The folder that a path is in, and its name there.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a Path)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(odd("a file comes without a name".to_owned()));
        };
        Ok((self.at(parent, OFlags::PATH | OFlags::DIRECTORY)?, Path::new(name)))
    }

    fn folder(&mut self, path: &Path, about: About) -> io::Result<()> {
        if !path.as_os_str().is_empty() {
            let (parent, name) = self.parent(path)?;
            rustix::fs::mkdirat(parent, name, Mode::RWXU)?;
        }
        self.left = self.left.checked_sub(path.as_os_str().len()).ok_or_else(|| {
            odd(format!("folders come with more than {FOLDERS_BYTES} bytes of names"))
        })?;
        self.folders.push((path.to_owned(), about));
        Ok(())
    }

    fn file(&self, path: &Path, about: About, content: &mut impl Read) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        io::copy(content, &mut file)?;
        set(&file, &about)
    }

    fn link(&self, path: &Path, target: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::symlinkat(std::ffi::OsStr::from_bytes(target), parent, name)?)
    }

    fn complete(self) -> io::Result<()> {
        // What is deeper came later, and its change was its parent's.
        for (path, about) in self.folders.iter().rev() {
            set(&self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?, about)?;
        }
        Ok(())
    }
}

fn set(file: &impl AsFd, about: &About) -> io::Result<()> {
    rustix::fs::fchmod(file, about.mode)?;
    let time = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
    let last_access = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = Timestamps { last_access, last_modification: time(about.modified) };
    match rustix::fs::futimens(file, &times) {
        // A time that the file system has no word for.
        Err(rustix::io::Errno::INVAL) => Ok(()),
        set => Ok(set?),
    }
}

#[cfg(test)]
mod tests;
