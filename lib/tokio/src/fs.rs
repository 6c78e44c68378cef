//! Functions with the names of `tokio::fs`, which try before they hand over.

use std::ffi::{CStr, OsStr, OsString};
use std::fmt;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use kumiki_parasc::Pending;
use kumiki_parasc::op::path::terminated;
use kumiki_parasc::op::{Attributes, CWD, Errno, Fstatat, Getdents64, Openat, Statx};
use kumiki_parasc::tries::{OpenRead, OpenReadError, Step};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};

use crate::engine::{ended, engine, hand_over, invalid, make};
use crate::{turn, unread, walk};

/// Bytes for entries of a directory at once: what the C library takes.
const ENTRIES: usize = 32 * 1024;
/// Attributes that are asked of a file.
const MASK: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Reads a whole file: as long as it was when it was opened, or, if it tells no length or is no
/// regular file, to its end.
///
/// Open, attributes and read are made at once as far as they need not sleep, and else handed
/// over together.
///
/// # Errors
/// As [`std::fs::read`].
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = terminated(path).map_err(invalid)?;
    let opened = make(OpenRead::new(CWD, path.clone()).keep_unread()).await?.output;
    turn::take().await;
    let opened = match opened {
        // Somebody has a lease of it; or it is a file by its kind, and has no positions or
        // waits for what comes, as some of /proc.
        Err(OpenReadError { errno: Errno::AGAIN | Errno::SPIPE, .. }) => {
            return unread::read_sleeping(path).await;
        }
        opened => opened?,
    };
    match (opened.attributes.file_type(), opened.file) {
        (FileType::Directory, _) => Err(Errno::ISDIR.into()),
        (FileType::RegularFile, _) | (_, None) => Ok(opened.data),
        (kind, Some(file)) => unread::read_on(file, kind).await,
    }
}

/// The attributes of what is at a path, at the end of symbolic links.
///
/// # Errors
/// As [`std::fs::metadata`].
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    metadata_with(path.as_ref(), OFlags::PATH).await
}

/// Attributes of a symbolic link itself.
///
/// # Errors
/// As [`std::fs::symlink_metadata`].
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    metadata_with(path.as_ref(), OFlags::PATH | OFlags::NOFOLLOW).await
}

/// True if there is something at a path, at the end of symbolic links.
///
/// # Errors
/// As [`std::fs::exists`]: where that cannot be known.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match metadata(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

async fn metadata_with(path: &Path, flags: OFlags) -> io::Result<Metadata> {
    let path = terminated(path).map_err(invalid)?;
    let opened = make(OpenRead::new(CWD, path.clone()).flags(flags).range(0, 0)).await?.output;
    turn::take().await;
    match opened {
        Ok(opened) => Ok(Metadata(opened.attributes)),
        // No descriptor is to be had: std asks without one.
        Err(OpenReadError {
            step: Step::Open,
            errno: Errno::MFILE | Errno::NFILE | Errno::NOSYS | Errno::PERM,
        }) => {
            let follow = !flags.contains(OFlags::NOFOLLOW);
            let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
            Ok(Metadata(attributes(CWD, path, flags).await?))
        }
        Err(error) => Err(error.into()),
    }
}

/// Asks by a thread that may sleep, and by an older call where statx(2) is refused.
async fn attributes<F, P>(dir: F, path: P, flags: AtFlags) -> io::Result<Attributes>
where
    F: AsFd + Send + 'static,
    P: AsRef<CStr> + Send + 'static,
{
    let made = hand_over(Statx::new(dir, path, flags, MASK)).await?;
    let attributes = made.operation.attributes().copied();
    match made.output {
        Err(Errno::NOSYS | Errno::PERM) => {
            let (dir, path) = made.operation.into_parts();
            let made = hand_over(Fstatat::new(dir, path, flags)).await?;
            made.output?;
            made.operation.stat().map(Attributes::from).ok_or_else(without_attributes)
        }
        output => {
            output.map_err(io::Error::from).and_then(|()| attributes.ok_or_else(without_attributes))
        }
    }
}

fn without_attributes() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel gave no attributes of a file")
}

pub(crate) async fn metadata_of(file: Arc<OwnedFd>) -> io::Result<Metadata> {
    let made = make(Statx::new(file, c"", AtFlags::EMPTY_PATH, MASK)).await?;
    turn::take().await;
    match made.output {
        Err(Errno::NOSYS | Errno::PERM) => {
            let (file, path) = made.operation.into_parts();
            Ok(Metadata(attributes(file, path, AtFlags::EMPTY_PATH).await?))
        }
        output => {
            output?;
            made.operation.attributes().copied().map(Metadata).ok_or_else(without_attributes)
        }
    }
}

/// Attributes of a file.
#[derive(Clone, Copy)]
pub struct Metadata(Attributes);

impl Metadata {
    /// Length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "std::fs::Metadata has none either")]
    pub fn len(&self) -> u64 {
        self.0.size()
    }

    /// True if it is a regular file.
    pub fn is_file(&self) -> bool {
        self.0.file_type() == FileType::RegularFile
    }

    /// True if it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0.file_type() == FileType::Directory
    }

    /// True if it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0.file_type() == FileType::Symlink
    }

    /// Permissions to read, write and execute it.
    pub fn permissions(&self) -> Permissions {
        Permissions::from_mode(self.0.mode().into())
    }

    /// Last change of the content.
    ///
    /// # Errors
    /// None; as std's has them.
    pub fn modified(&self) -> io::Result<SystemTime> {
        Ok(self.0.modified())
    }

    /// All attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.0
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The absolute path of what is at `path`, with no symbolic link in it.
///
/// # Errors
/// As [`std::fs::canonicalize`], and `NotFound` if it was removed meanwhile.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let name = terminated(path.as_ref()).map_err(invalid)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = make(Openat::new(CWD, name, flags, Mode::empty())).await?.output;
    turn::take().await;
    let file = match opened {
        Err(Errno::MFILE | Errno::NFILE | Errno::NOSYS | Errno::PERM) => {
            return walk::canonicalize(path.as_ref()).await;
        }
        opened => opened?,
    };
    // Of the kernel's memory: it does not sleep.
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let Ok(found) = rustix::fs::readlink(link, Vec::new()) else {
        // There is no /proc.
        return walk::canonicalize(path.as_ref()).await;
    };
    let found = found.into_bytes();
    if found.ends_with(b" (deleted)") && names(&file).is_ok_and(|names| names == 0) {
        return Err(Errno::NOENT.into());
    }
    Ok(PathBuf::from(OsString::from_vec(found)))
}

/// Number of a file's names, as the kernel remembers it; by either call, as one may be refused.
fn names(file: &OwnedFd) -> io::Result<u64> {
    let other = |_| {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        rustix::fs::statx(file, c"", flags, StatxFlags::NLINK).map(|it| it.stx_nlink.into())
    };
    #[allow(clippy::useless_conversion, reason = "of other processors it is a smaller number")]
    let links = |it: rustix::fs::Stat| u64::from(it.st_nlink);
    Ok(rustix::fs::fstat(file).map(links).or_else(other)?)
}

/// The entries of a directory, without `.` and `..`.
///
/// # Errors
/// As [`std::fs::read_dir`].
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let root = path.as_ref().to_owned();
    let path = terminated(path).map_err(invalid)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = make(Openat::new(CWD, path, flags, Mode::empty())).await?.output?;
    turn::take().await;
    let (directory, entries) = (Arc::new(directory), Vec::new().into_iter());
    Ok(ReadDir { root: Arc::new(root), directory, entries, reading: None, is_over: false })
}

type Part = Getdents64<Arc<OwnedFd>, Vec<u8>>;

/// Entries of a directory, read in large parts by threads that may sleep: getdents64(2) has no
/// form that cannot.
#[derive(Debug)]
pub struct ReadDir {
    root: Arc<PathBuf>,
    directory: Arc<OwnedFd>,
    entries: std::vec::IntoIter<DirEntry>,
    /// The next part, under way: it moves the directory's position, so it is awaited whoever
    /// has asked for it.
    reading: Option<Pending<Part>>,
    is_over: bool,
}

impl ReadDir {
    /// The next entry; `None` after the last. A future that is dropped loses none.
    ///
    /// # Errors
    /// As getdents64(2).
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Ok(Some(entry));
            }
            if self.is_over {
                return Ok(None);
            }
            let reading = match &mut self.reading {
                Some(reading) => reading,
                none => {
                    let room = Vec::with_capacity(ENTRIES);
                    let part = Getdents64::new(Arc::clone(&self.directory), room);
                    none.insert(engine()?.submit(part))
                }
            };
            let outcome = reading.await;
            self.reading = None;
            let made = ended(outcome)?;
            self.is_over = made.output? == 0;
            let entries = made.operation.entries();
            let others = entries.filter(|entry| entry.name != c"." && entry.name != c"..");
            let owned = others.map(|entry| DirEntry::of(&self.root, entry.name, entry.kind));
            self.entries = owned.collect::<Vec<_>>().into_iter();
        }
    }
}

/// One name in a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    root: Arc<PathBuf>,
    name: OsString,
    kind: FileType,
}

impl DirEntry {
    fn of(root: &Arc<PathBuf>, name: &CStr, kind: FileType) -> Self {
        let name = OsStr::from_bytes(name.to_bytes()).to_owned();
        DirEntry { root: Arc::clone(root), name, kind }
    }

    /// The name alone.
    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// The name behind the path that [`read_dir`] was given.
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// Type of the entry, as far as the file system says without a look at the file.
    pub fn file_type(&self) -> Option<FileType> {
        (self.kind != FileType::Unknown).then_some(self.kind)
    }

    /// Its attributes; those of a symbolic link itself.
    ///
    /// # Errors
    /// As statx(2).
    pub async fn metadata(&self) -> io::Result<Metadata> {
        symlink_metadata(self.path()).await
    }
}
