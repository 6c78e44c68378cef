//! Functions with the names of `tokio::fs`, which try before they hand over.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use kumiki_parasc::Pending;
use kumiki_parasc::op::path::terminated;
use kumiki_parasc::op::{Attributes, CWD, Errno, Getdents64, Openat, Read, Statx};
use kumiki_parasc::tries::OpenRead;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};

use crate::engine::{ended, engine, hand_over, invalid, make};
use crate::turn;

/// Bytes for entries of a directory at once: what the C library takes.
const ENTRIES: usize = 32 * 1024;
/// Bytes of what is no regular file at once.
const PIECE: usize = 64 * 1024;

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
    let opened = make(OpenRead::new(CWD, path.clone())).await?.output?;
    turn::take().await;
    match opened.attributes.file_type() {
        FileType::RegularFile => Ok(opened.data),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => read_to_end(path).await,
    }
}

/// A FIFO, a device: by threads that may sleep.
async fn read_to_end(path: CString) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = hand_over(Openat::new(CWD, path, flags, Mode::empty())).await?;
    let (file, mut all) = (Arc::new(opened.output?), Vec::new());
    loop {
        let room = Vec::with_capacity(PIECE);
        let read = hand_over(Read::new(Arc::clone(&file), room)).await?;
        match read.output {
            Ok(0) => return Ok(all),
            Ok(_) => all.extend_from_slice(read.operation.filled()),
            Err(Errno::INTR) => (),
            Err(errno) => return Err(errno.into()),
        }
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

async fn metadata_with(path: &Path, flags: OFlags) -> io::Result<Metadata> {
    let path = terminated(path).map_err(invalid)?;
    let opened = make(OpenRead::new(CWD, path).flags(flags).range(0, 0)).await?.output?;
    turn::take().await;
    Ok(Metadata(opened.attributes))
}

pub(crate) async fn metadata_of(file: Arc<OwnedFd>) -> io::Result<Metadata> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let made = make(Statx::new(file, c"", AtFlags::EMPTY_PATH, mask)).await?;
    made.output?;
    turn::take().await;
    let attributes = made.operation.attributes().copied();
    attributes.map(Metadata).ok_or_else(|| io::ErrorKind::InvalidData.into())
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

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.0.file_type() == FileType::RegularFile
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0.file_type() == FileType::Directory
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0.file_type() == FileType::Symlink
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
    let path = terminated(path).map_err(invalid)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = make(Openat::new(CWD, path, flags, Mode::empty())).await?.output?;
    turn::take().await;
    // Of the kernel's memory: it does not sleep.
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let path = rustix::fs::readlink(link, Vec::new())?.into_bytes();
    if path.ends_with(b" (deleted)") && rustix::fs::fstat(&file)?.st_nlink == 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(PathBuf::from(OsString::from_vec(path)))
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
