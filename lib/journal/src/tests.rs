//! Disks that are full, and what is left on them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use crate::frame::{self, Salt, What};
use crate::{Disk, DiskFile, Error, Folder, Reader, Result, Segments, Snapshot};
use crate::{read, settle, sweep};

/// A folder whose disk has room for so many bytes more, whatever is written over.
struct Small {
    folder: Folder,
    room: Arc<AtomicU64>,
}

struct SmallFile {
    file: Box<dyn DiskFile>,
    room: Arc<AtomicU64>,
}

/// Takes room.
fn take(room: &AtomicU64, bytes: u64) -> io::Result<()> {
    let taken = room.fetch_update(SeqCst, SeqCst, |room| room.checked_sub(bytes));
    taken.map(drop).map_err(|_| io::ErrorKind::StorageFull.into())
}

impl Small {
    fn at(path: &std::path::Path, room: u64) -> Arc<Small> {
        let folder = Folder::open(path).unwrap();
        Arc::new(Small { folder, room: Arc::new(AtomicU64::new(room)) })
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.folder.list().unwrap();
        names.sort_unstable();
        names
    }
}

impl Disk for Small {
    fn list(&self) -> io::Result<Vec<String>> {
        self.folder.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.folder.read(name)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        take(&self.room, bytes)?;
        let file = self.folder.create(name, bytes)?;
        Ok(Box::new(SmallFile { file, room: Arc::clone(&self.room) }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.folder.open(name)?;
        Ok(Box::new(SmallFile { file, room: Arc::clone(&self.room) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.sync()
    }

    fn name(&self) -> String {
        self.folder.name()
    }

    fn file_bytes(&self) -> u64 {
        64 << 10
    }
}

impl DiskFile for SmallFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        take(&self.room, bytes.len() as u64)?;
        self.file.write(at, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        self.file.end(bytes)
    }
}

/// A reader that takes all, and looks at nothing.
struct Any;

impl Reader for Any {
    type Error = Error;

    fn head(&mut self, _: &str, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn records(&mut self, _: &[u8]) -> std::result::Result<(), String> {
        Ok(())
    }
}

const LOG: &str = "log-0000000000000001";

/// A folder with a log of one record.
fn logged() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Small::at(folder.path(), u64::MAX);
    Segments::begin(&disk, b"head".to_vec(), 1).unwrap().write(&[[7; 1000]]).unwrap();
    folder
}

#[test]
fn a_snapshot_that_fails_leaves_nothing_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    // No room for its head, for its records, for its last frame; and one that nobody goes on with.
    for room in [0, 100, 2 << 20, u64::MAX] {
        let disk = Small::at(folder.path(), room);
        let its: Arc<dyn Disk> = disk.clone();
        let outcome = Snapshot::begin(&its, b"head", 1).and_then(|mut snapshot| {
            assert_eq!(disk.names(), ["unfinished"]);
            snapshot.frame().resize(2 << 20, 7);
            snapshot.gathered()?;
            if room == u64::MAX { Ok(0) } else { snapshot.end() }
        });
        assert_eq!(outcome.is_ok(), room == u64::MAX, "{outcome:?}");
        assert_eq!(disk.names(), [""; 0], "{room}");
    }
}

#[test]
fn a_start_on_a_full_disk_says_what_to_do_and_leaves_what_there_was() {
    let folder = logged();
    // What a killed process has left takes room that the start needs.
    for name in ["spare", "unfinished"] {
        std::fs::write(folder.path().join(name), [1; 100]).unwrap();
    }
    for (room, needs) in [(0, "1064 bytes"), (1000, "1064 bytes"), (1064, "65536 bytes")] {
        let disk = Small::at(folder.path(), room);
        let before = disk.read(LOG).unwrap();
        let start = || {
            let found = read(&*disk, None, &mut Any)?;
            sweep(&*disk)?;
            settle(&*disk, &found)?;
            let disk: Arc<dyn Disk> = disk.clone();
            Segments::begin(&disk, b"head".to_vec(), found.next)
        };
        let error = start().unwrap_err();
        assert!(matches!(error, Error::NoRoom { .. }), "{error}");
        let (text, folder) = (error.to_string(), disk.name());
        assert!(text.contains(&format!("{folder} has no room for the {needs}")), "{text}");
        assert!(text.contains("make room on its disk"), "{text}");
        assert_eq!(disk.names(), [LOG]);
        assert!(before.starts_with(&disk.read(LOG).unwrap()), "room {room}");
    }
}

#[test]
fn no_frame_is_longer_than_its_head_can_say() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Small::at(folder.path(), u64::MAX);
    let mut segments = Segments::begin(&disk, b"head".to_vec(), 1).unwrap();
    // Two of 2 GiB and a little, in memory that nobody has touched.
    let records = [vec![0; (2 << 30) + 8], vec![0; (2 << 30) + 8]];
    let error = segments.write(&records).unwrap_err();
    assert!(matches!(error, Error::TooLong { bytes: 0x1_0000_0010, .. }), "{error}");
    let error = segments.prepare_for(1 << 32).unwrap_err().to_string();
    assert!(error.contains("4294967296 bytes were to be one frame"), "{error}");
    assert!(segments.fits() < 1 << 32);
    // Nothing was written, and it goes on.
    segments.write(&[[7; 10]]).unwrap();
    assert_eq!(read(&*disk, None, &mut Any).unwrap().next, 2);
}

/// A folder's disk with room for all.
fn disk(folder: &tempfile::TempDir) -> Arc<dyn Disk> {
    Small::at(folder.path(), u64::MAX)
}

/// A process that writes so many records, and ends.
fn lives(disk: &Arc<dyn Disk>, records: usize) {
    let found = read(&**disk, None, &mut Any).unwrap();
    sweep(&**disk).unwrap();
    settle(&**disk, &found).unwrap();
    let mut segments = Segments::behind(disk, b"head".to_vec(), &found).unwrap();
    (0..records).for_each(|_| _ = segments.write(&[[7; 10]]).unwrap());
    segments.end().unwrap();
}

/// Error that says why what is there is not what was written.
fn rotten(disk: &dyn Disk) -> String {
    let error = read(disk, None, &mut Any).unwrap_err();
    assert!(matches!(error, Error::Rotten { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_frame_within_what_a_client_has_written_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let its = disk(&folder);
    let mut segments = Segments::begin(&its, b"head".to_vec(), 1).unwrap();
    segments.write(&[[7; 10]]).unwrap();
    let whole = segments.written();
    // Its client knows the form, and that another frame will be written some time.
    let forged = frame::framed(What::Records, 9, b"forged", Salt::default()).unwrap();
    segments.write(&[[&[7; 64][..], &forged, &[7; 4096]].concat()]).unwrap();
    drop(segments);
    // It was torn: its end is not there, and it was answered to nobody.
    let path = folder.path().join(LOG);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(whole + 1024).unwrap();
    let found = read(&*its, None, &mut Any).unwrap();
    assert_eq!((found.next, found.logs), (2, vec![(1, whole)]));
    assert!(found.cut.is_some());
}

#[test]
fn a_file_of_an_earlier_form_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(LOG), [&b"KmkL\x01\0\0\0"[..], &[0; 100]].concat()).unwrap();
    let error = read(&*disk(&folder), None, &mut Any).unwrap_err();
    assert!(matches!(error, Error::EarlierForm { form: "KmkL", .. }), "{error}");
    assert!(error.to_string().contains(LOG), "{error}");
}

#[test]
fn a_last_word_that_is_not_what_it_was_is_not_cut() {
    let folder = tempfile::tempdir().unwrap();
    let its = disk(&folder);
    let mut segments = Segments::begin(&its, b"head".to_vec(), 1).unwrap();
    segments.write(&[[7; 10]]).unwrap();
    let at = segments.written() as usize;
    segments.leave(b"there").unwrap();
    drop(segments);
    // As who has looked at it leaves it.
    settle(&*its, &read(&*its, None, &mut Any).unwrap()).unwrap();
    let path = folder.path().join(LOG);
    let whole = std::fs::read(&path).unwrap();
    let mut rotten = 0;
    for (byte, bit) in (at..whole.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
        let mut other = whole.clone();
        other[byte] ^= 1 << bit;
        std::fs::write(&path, other).unwrap();
        match read(&*its, None, &mut Any) {
            Ok(found) => assert_eq!(found.left.as_deref(), Some(&b"there"[..]), "byte {byte}"),
            Err(Error::Rotten { .. }) => rotten += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(rotten, 8 * (frame::HEAD + b"there".len()), "each bit of the word's frame");
}

#[test]
fn the_newest_log_is_missed_when_it_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let its = disk(&folder);
    lives(&its, 1);
    lives(&its, 2);
    lives(&its, 0);
    assert_eq!(read(&*its, None, &mut Any).unwrap().next, 4);
    let mut logs = its.list().unwrap();
    logs.sort_unstable();
    assert_eq!(logs.len(), 3);
    // What would be left is a whole state, of before.
    while let Some(last) = logs.pop().filter(|_| !logs.is_empty()) {
        its.remove(&last).unwrap();
        let why = rotten(&*its);
        assert!(why.contains("the log that follows it is missing"), "{why}");
    }
}

#[test]
fn a_log_by_another_s_name_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let its = disk(&folder);
    lives(&its, 1);
    lives(&its, 1);
    its.remove(LOG).unwrap();
    its.rename("log-0000000000000002", LOG).unwrap();
    let why = rotten(&*its);
    assert!(why.contains("it is the log of frame 2"), "{why}");
}
