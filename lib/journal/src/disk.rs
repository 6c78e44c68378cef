//! Where files are kept: a folder of this machine, or what a program puts in its stead.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use crate::error::{Error, Result};

/// The file whose lock is held as long as the folder is used.
const LOCK: &str = "lock";
/// The file by which another process asks for the folder.
const WANTED: &str = "wanted";
/// Time for which a folder's lock is waited for: that of a process which was killed is free when the kernel has taken
/// the process apart.
const FREE: Duration = Duration::from_millis(500);
/// Time for which one is waited for that another process is to hand over.
const HANDS_OVER: Duration = Duration::from_secs(10);
/// Pause between two tries.
const MOMENT: Duration = Duration::from_millis(2);
/// Pause between two tries of who stands by, which may be for months.
const STANDS_BY: Duration = Duration::from_millis(20);
/// Bytes of a log's file, if nothing is said.
const FILE: u64 = 32 << 20;

/// Files by their names. Nothing of what is written, and no name, is believed to outlive this machine before it is
/// flushed, or synced.
pub trait Disk: Send + Sync {
    /// Names of all files.
    ///
    /// # Errors
    /// The system's.
    fn list(&self) -> io::Result<Vec<String>>;

    /// All bytes of a file.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Reads so many bytes of a file from byte `at` on; less only at its end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, name: &str, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let all = self.read(name)?;
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(all.len());
        let end = at.saturating_add(bytes).min(all.len());
        Ok(all.get(at..end).unwrap_or_default().to_vec())
    }

    /// Makes a file anew, of so many bytes that are 0, and with room for all of them.
    ///
    /// # Errors
    /// The system's: no room, say.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that there is, to write more of it.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, whose file goes.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Returns when names are as they are now after whatever may come.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;

    /// Its name for a person: the folder.
    fn name(&self) -> String;

    /// True if another process waits for the folder, whose user is to end then.
    fn is_wanted(&self) -> bool {
        false
    }

    /// Bytes of a log's file, made ahead: twice as many are taken at least.
    fn file_bytes(&self) -> u64 {
        FILE
    }
}

/// A file of a [`Disk`] that is written to.
pub trait DiskFile: Send {
    /// Writes all of the bytes from byte `at` on.
    ///
    /// # Errors
    /// The system's.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when what was written is there after whatever may come.
    ///
    /// # Errors
    /// The system's: what was written may be there or not.
    fn flush(&mut self) -> io::Result<()>;

    /// Sets the file's end.
    ///
    /// # Errors
    /// The system's.
    fn end(&mut self, bytes: u64) -> io::Result<()>;
}

/// Names what has failed with a file.
pub fn failed(what: &str, disk: &dyn Disk, name: &str) -> impl FnOnce(io::Error) -> Error {
    let what = format!("{what} {}/{name}", disk.name());
    move |source| Error::Io { what, source }
}

/// Says of an error that comes of a full disk what a start needs.
pub(crate) fn no_room(disk: &dyn Disk, bytes: u64) -> impl FnOnce(Error) -> Error {
    let folder = disk.name();
    move |error| match error {
        Error::Io { source, .. } if is_full(&source) => Error::NoRoom { folder, bytes, source },
        other => other,
    }
}

/// True if the disk has no room, or its user may have no more of it.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A folder of this machine, which one process uses at a time.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked as long as it is used.
    _lock: File,
}

impl Folder {
    /// Opens a folder, which is made if there is none.
    ///
    /// # Errors
    /// [`Error::Io`]; also where another process uses it.
    pub fn open(path: &Path) -> Result<Folder> {
        Folder::within(path, FREE)
    }

    /// Opens a folder that another process may use: that one is asked for it, and lets it go when all that it has
    /// answered for is flushed.
    ///
    /// # Errors
    /// [`Error::Io`]; also where the other process has not let it go after ten seconds, as it is stopped, say.
    pub fn take(path: &Path) -> Result<Folder> {
        let wanted = path.join(WANTED);
        let asked = made(path).and_then(|()| own().truncate(true).open(&wanted));
        asked.map_err(|source| Error::Io {
            what: format!("asking for the folder {}", path.display()),
            source,
        })?;
        Folder::within(path, HANDS_OVER).inspect_err(|_| _ = std::fs::remove_file(&wanted))
    }

    /// Opens a folder when no other process uses it any more, however that has ended. It is waited for without a limit, and
    /// not asked for. Who asks for it meanwhile goes first.
    ///
    /// The lock is the fence: a process that is stopped, or hears nobody, has it still.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn stand_by(path: &Path) -> Result<Folder> {
        let wanted = path.join(WANTED);
        let mut wanted_since: Option<Instant> = None;
        loop {
            wanted_since = wanted.exists().then(|| wanted_since.unwrap_or_else(Instant::now));
            // One that was killed before it had the folder asks for it no more.
            if wanted_since.is_none_or(|since| since.elapsed() > 2 * HANDS_OVER) {
                match Folder::within(path, Duration::ZERO) {
                    Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => {
                    }
                    opened => return opened,
                }
            }
            std::thread::sleep(STANDS_BY);
        }
    }

    fn within(path: &Path, time: Duration) -> Result<Folder> {
        let failed = |what: &str| {
            let what = format!("{what} {}", path.display());
            move |source| Error::Io { what, source }
        };
        made(path).map_err(failed("making the folder"))?;
        let lock = own().truncate(false).open(path.join(LOCK));
        let lock = lock.map_err(failed("locking the folder"))?;
        locked(&lock, time).map_err(|errno| match errno {
            rustix::io::Errno::WOULDBLOCK => {
                let text = "another process serves from it: end that one, or name another folder";
                failed("using the folder")(io::Error::new(io::ErrorKind::WouldBlock, text))
            }
            errno => failed("locking the folder")(errno.into()),
        })?;
        let folder = Folder { path: path.to_owned(), _lock: lock };
        // Also of one that has asked and was killed before it had the folder.
        match std::fs::remove_file(path.join(WANTED)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("having the folder")(error));
            }
            _ => {}
        }
        // Its own name is to be there, too.
        sync_above(path).map_err(failed("keeping the name of the folder"))?;
        Ok(folder)
    }
}

/// Options of a file that only its user reads: secrets of leases are kept, and what clients have written.
fn own() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

/// Makes a folder and those above it, as far as there are none, whose names are to be there whatever comes. They are their
/// user's alone.
fn made(path: &Path) -> io::Result<()> {
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let new: Vec<&Path> = path.ancestors().take_while(missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    new.into_iter().try_for_each(sync_above)
}

/// Returns when the name of a path is there whatever comes.
fn sync_above(path: &Path) -> io::Result<()> {
    let Some(above) = path.parent() else { return Ok(()) };
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    File::open(above)?.sync_all()
}

/// Locks the folder's file, within this time.
fn locked(lock: &File, time: Duration) -> std::result::Result<(), rustix::io::Errno> {
    let begin = Instant::now();
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if begin.elapsed() < time => {
                std::thread::sleep(MOMENT);
            }
            outcome => return outcome,
        }
    }
}

/// Gives a new file room for so many bytes.
fn make_room(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // A file system that cannot: by what stands there.
        Err(rustix::io::Errno::OPNOTSUPP) => {
            let zeros = [0; 1 << 16];
            let mut at = 0;
            while at < bytes {
                let count = zeros.len().min(usize::try_from(bytes - at).unwrap_or(zeros.len()));
                file.write_all_at(&zeros[..count], at)?;
                at += count as u64;
            }
            file.sync_all()
        }
        outcome => Ok(outcome?),
    }
}

/// Names of a folder's files, but for those by which it is used.
pub(crate) fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        names
            .extend(name.to_str().filter(|name| ![LOCK, WANTED].contains(name)).map(str::to_owned));
    }
    Ok(names)
}

/// Reads so many bytes of a file from byte `at` on; less only at its end.
pub(crate) fn bytes_at(path: &Path, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let (mut piece, mut length) = (vec![0; bytes], 0);
    while length < bytes {
        match file.read_at(&mut piece[length..], at + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    piece.truncate(length);
    Ok(piece)
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        names_in(&self.path)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path.join(name))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, name: &str, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        bytes_at(&self.path.join(name), at, bytes)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path.join(name);
        let file = own().truncate(true).open(&path)?;
        let made = if bytes == 0 { Ok(()) } else { make_room(&file, bytes) };
        if let Err(error) = made {
            // What there is of it would take the room that somebody else may need.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        Ok(Box::new(FolderFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(FolderFile(OpenOptions::new().write(true).open(self.path.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn is_wanted(&self) -> bool {
        self.path.join(WANTED).exists()
    }
}

/// A file of a [`Folder`].
struct FolderFile(File);

impl DiskFile for FolderFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_s_until_it_is_handed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core0");
        let first = Folder::open(&path).unwrap();
        let error = Folder::within(&path, MOMENT).unwrap_err().to_string();
        assert!(error.contains("another process serves from it"), "{error}");
        assert!(!first.is_wanted());
        let taker = std::thread::spawn({
            let path = path.clone();
            move || Folder::take(&path).unwrap()
        });
        while !first.is_wanted() {
            std::thread::sleep(MOMENT);
        }
        assert!(!taker.is_finished(), "it waits");
        assert!(first.list().unwrap().is_empty());
        drop(first);
        let second = taker.join().unwrap();
        assert!(!second.is_wanted(), "who has it is not asked for it");
    }

    #[test]
    fn who_stands_by_has_a_folder_when_its_user_has_gone_and_behind_who_asks_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core0");
        let first = Folder::open(&path).unwrap();
        let stands_by = std::thread::spawn({
            let path = path.clone();
            move || Folder::stand_by(&path).unwrap()
        });
        std::thread::sleep(5 * STANDS_BY);
        assert!(!stands_by.is_finished() && !first.is_wanted(), "it asks nobody to end");
        let taker = std::thread::spawn({
            let path = path.clone();
            move || Folder::take(&path).unwrap()
        });
        while !first.is_wanted() {
            std::thread::sleep(MOMENT);
        }
        // Until it has looked: from then on it lets the other one have it.
        std::thread::sleep(5 * STANDS_BY);
        drop(first);
        let second = taker.join().unwrap();
        std::thread::sleep(5 * STANDS_BY);
        assert!(!stands_by.is_finished(), "two have it");
        drop(second);
        drop(stands_by.join().unwrap());
    }

    #[test]
    fn only_its_user_reads_a_folder_and_what_is_in_it() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let (above, path) = (folder.path().join("places"), folder.path().join("places/core0"));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        // What others may read if nothing is said: by the usual umask, 022, all of it.
        let usual = folder.path().join("usual");
        std::fs::write(&usual, "").unwrap();
        let disk = Folder::open(&path).unwrap();
        disk.create("log", 4096).unwrap();
        let asks = Folder::within(&path, Duration::ZERO).unwrap_err();
        assert!(matches!(asks, Error::Io { .. }), "{asks}");
        drop(Folder::take(&folder.path().join("other")).unwrap());
        for made in [&above, &path, &folder.path().join("other")] {
            assert_eq!(mode(made), 0o700, "{}", made.display());
        }
        for name in ["log", LOCK] {
            assert_eq!(
                mode(&path.join(name)),
                0o600,
                "{name}, where others have {:o}",
                mode(&usual)
            );
        }
        own().truncate(true).open(path.join(WANTED)).unwrap();
        assert_eq!(mode(&path.join(WANTED)), 0o600);
    }
}
