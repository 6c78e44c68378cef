//! Disks that lose what was not flushed, and that are full.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use kumiki_places::durable::{Disk, DiskFile, Folder};

/// Bytes of a log's file: a small one is soon full.
pub(crate) const SMALL: u64 = 64 << 10;

/// A folder whose files have what was flushed, and whose names are what was synced: whoever is killed loses the rest, as
/// by a machine's end.
pub(crate) struct Forgetful {
    folder: Arc<Folder>,
    /// Names that were given since the last sync, by what they were before, in their order.
    renamed: Mutex<Vec<(String, String)>>,
    file_bytes: u64,
    /// Time of a flush.
    flush: Duration,
}

impl Forgetful {
    pub(crate) fn of(folder: Folder, file_bytes: u64, flush: Duration) -> Forgetful {
        let folder = Arc::new(folder);
        Forgetful { folder, renamed: Mutex::default(), file_bytes, flush }
    }
}

/// A file of it, and what of it was not flushed.
struct ForgetfulFile {
    file: Box<dyn DiskFile>,
    written: Vec<(u64, Vec<u8>)>,
    end: Option<u64>,
    flush: Duration,
}

impl Disk for Forgetful {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.folder.list()?;
        for (from, to) in &*self.renamed.lock().unwrap() {
            names.retain(|name| name != from && name != to);
            names.push(to.clone());
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        // What the place reads itself was synced: it reads no file that it has not ended.
        assert!(self.renamed.lock().unwrap().iter().all(|(_, to)| to != name));
        self.folder.read(name)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = self.folder.create(name, bytes)?;
        let (written, flush) = (Vec::new(), self.flush);
        Ok(Box::new(ForgetfulFile { file, written, end: None, flush }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let (file, written, flush) = (self.folder.open(name)?, Vec::new(), self.flush);
        Ok(Box::new(ForgetfulFile { file, written, end: None, flush }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.renamed.lock().unwrap().push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        // It takes its time, in which a place that moves and does not stand still would answer more.
        std::thread::sleep(10 * self.flush);
        for (from, to) in self.renamed.lock().unwrap().drain(..) {
            self.folder.rename(&from, &to)?;
        }
        self.folder.sync()
    }

    fn name(&self) -> String {
        self.folder.name()
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn is_wanted(&self) -> bool {
        self.folder.is_wanted()
    }
}

impl DiskFile for ForgetfulFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.written.push((at, bytes.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        std::thread::sleep(self.flush);
        for (at, bytes) in self.written.drain(..) {
            self.file.write(at, &bytes)?;
        }
        if let Some(end) = self.end.take() {
            self.file.end(end)?;
        }
        Ok(())
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        self.end = Some(bytes);
        Ok(())
    }
}

/// Bytes of a file, whatever its name is.
type Inode = Arc<Mutex<Vec<u8>>>;

/// Files in memory, which may be changed between two lives of a place.
#[derive(Clone, Default)]
pub(crate) struct Held {
    files: Arc<Mutex<BTreeMap<String, Inode>>>,
    /// True while there is no room for another file.
    pub(crate) is_full: Arc<AtomicBool>,
    /// True while there is less room than a log's file takes.
    pub(crate) is_short: Arc<AtomicBool>,
    /// True while nothing can be flushed.
    pub(crate) is_broken: Arc<AtomicBool>,
    /// Number of flushes of logs.
    pub(crate) flushes: Arc<AtomicU64>,
    /// True while nothing is flushed.
    gate: Arc<(Mutex<bool>, Condvar)>,
}

struct HeldFile {
    inode: Inode,
    disk: Held,
}

impl Held {
    /// What there is now, apart from what comes.
    pub(crate) fn copy(&self) -> Held {
        let files = self.files.lock().unwrap();
        let copied = files.iter().map(|(name, inode)| {
            let bytes = inode.lock().unwrap().clone();
            (name.clone(), Arc::new(Mutex::new(bytes)))
        });
        Held { files: Arc::new(Mutex::new(copied.collect())), ..Held::default() }
    }

    /// Has flushes wait, or go on.
    pub(crate) fn close(&self, is_closed: bool) {
        *self.gate.0.lock().unwrap() = is_closed;
        self.gate.1.notify_all();
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.files.lock().unwrap().keys().cloned().collect()
    }

    /// Name and length of the last log up to its last byte that is not 0.
    pub(crate) fn last_log(&self) -> (String, usize) {
        let name = self.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
        let bytes = self.read(&name).unwrap();
        (name, bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1)
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.files.lock().unwrap()[name].lock().unwrap());
    }
}

impl Disk for Held {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let files = self.files.lock().unwrap();
        let inode = files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(inode.lock().unwrap().clone())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let is_short = bytes >= SMALL && self.is_short.load(SeqCst);
        if is_short || self.is_full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = Arc::new(Mutex::new(vec![0; bytes as usize]));
        self.files.lock().unwrap().insert(name.to_owned(), Arc::clone(&inode));
        Ok(Box::new(HeldFile { inode, disk: self.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let files = self.files.lock().unwrap();
        let inode = files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(HeldFile { inode: Arc::clone(inode), disk: self.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let inode = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.files.lock().unwrap().remove(name);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> String {
        "held".to_owned()
    }

    fn file_bytes(&self) -> u64 {
        SMALL
    }
}

impl DiskFile for HeldFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.inode.lock().unwrap();
        let at = at as usize;
        let length = file.len().max(at + bytes.len());
        file.resize(length, 0);
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let (is_closed, opened) = &*self.disk.gate;
        let mut is_closed = is_closed.lock().unwrap();
        while *is_closed {
            is_closed = opened.wait(is_closed).unwrap();
        }
        self.disk.flushes.fetch_add(1, SeqCst);
        match self.disk.is_broken.load(SeqCst) {
            true => Err(io::Error::other("it is broken")),
            false => Ok(()),
        }
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        self.inode.lock().unwrap().truncate(bytes as usize);
        Ok(())
    }
}
