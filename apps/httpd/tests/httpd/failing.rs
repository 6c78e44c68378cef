//! File systems that fail, or say what none should.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Advice, Timespec, Timestamps, fadvise, futimens};

use super::scene::{Server, wait_until};

const BYTES: usize = 4 << 20;
const WARM: usize = 64 << 10;

/// A file system in a file, mounted by a loop device; taken away when this is dropped.
struct Disk {
    image: PathBuf,
    folder: PathBuf,
}

impl Disk {
    /// `None` where it cannot be mounted: it takes root and a loop device.
    fn mounted(image: &Path, folder: &Path) -> Option<Disk> {
        let runs = |program: &str, words: &[&str], last: &Path| {
            Command::new(program).args(words).arg(last).status().is_ok_and(|it| it.success())
        };
        let of = image.to_str().unwrap();
        File::create(image).unwrap().set_len(32 << 20).unwrap();
        // In Debian not in everybody's PATH.
        let is_made = runs("/sbin/mkfs.ext4", &["-q"], image);
        let is_mounted = is_made && runs("mount", &["-o", "loop", of], folder);
        is_mounted.then(|| Disk { image: image.to_owned(), folder: folder.to_owned() })
    }

    /// From now on what is not in memory cannot be read.
    fn fails(&self) {
        File::options().write(true).open(&self.image).unwrap().set_len(0).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}

/// Whether a read of the file's end fails, as it does once all that was read ahead is behind it.
fn is_lost(path: &Path) -> bool {
    File::open(path).and_then(|file| file.read_at(&mut [0], BYTES as u64 - 1)).is_err()
}

#[test]
fn what_cannot_be_read_is_an_error_and_the_rest_is_served() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut disk = None;
    let server = Server::start_with(&[], |folder| {
        let inside = folder.join("disk");
        fs::create_dir(&inside).unwrap();
        disk = Disk::mounted(&place.path().join("image"), &inside);
        if disk.is_some() {
            for name in ["warm", "cold", "half"] {
                fs::write(inside.join(name), vec![b'x'; BYTES]).unwrap();
            }
        }
        fs::write(folder.join("beside"), "beside").unwrap();
    });
    let Some(disk) = disk else { return eprintln!("skipped: no file system can be mounted here") };
    let path = |name: &str| server.path("disk").join(name);
    for name in ["cold", "half"] {
        let file = File::open(path(name)).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
    let half = File::open(path("half")).unwrap();
    // Without the pages behind it.
    fadvise(&half, 0, None, Advice::Random).unwrap();
    half.read_exact_at(&mut [0; WARM], 0).unwrap();
    disk.fails();
    assert!(is_lost(&path("cold")) && is_lost(&path("half")) && !is_lost(&path("warm")));

    let mut open = 0;
    for round in 0..50 {
        assert_eq!(server.get("/disk/cold", "").status, 500);
        let whole = server.get("/disk/warm", "");
        assert_eq!((whole.status, whole.body.len()), (200, BYTES));
        // Its head had been sent: the connection's end says that there is no more.
        let answer = server.send(b"GET /disk/half HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
        assert!((WARM..BYTES).contains(&answer.len()), "{} bytes", answer.len());
        assert_eq!(server.get("/disk/half", "Range: bytes=0-99\r\n").body, vec![b'x'; 100]);
        assert_eq!(server.get("/beside", "").body, b"beside");
        if round == 0 {
            open = server.descriptors();
        }
    }
    wait_until("no more descriptors than at first", || server.descriptors() <= open);
}

/// Seconds since 1970 that a file may be dated, and what is said of it.
const DATES: [(i64, Said); 6] = [
    (253_402_300_799, Said::Now),
    (253_402_300_800, Said::Now),
    (i64::MAX, Said::Now),
    (1, Said::Nothing),
    (i64::MIN, Said::Nothing),
    (784_111_777, Said::Date("Sun, 06 Nov 1994 08:49:37 GMT")),
];

enum Said {
    Nothing,
    Date(&'static str),
    /// A later one than that of the answer is none.
    Now,
}

#[test]
fn files_of_any_date_are_served() {
    // Other file systems cut dates.
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return eprintln!("skipped: there is no {}", memory.display());
    }
    let server = Server::start_in(memory, &["--workers", "2"], |folder| {
        for (at, (tv_sec, _)) in DATES.iter().enumerate() {
            let mut file = File::create(folder.join(at.to_string())).unwrap();
            file.write_all(b"dated").unwrap();
            let date = Timespec { tv_sec: *tv_sec, tv_nsec: 0 };
            futimens(&file, &Timestamps { last_access: date, last_modification: date }).unwrap();
        }
    });
    // Each more often than there are workers: one that was lost takes connections for ever.
    for _ in 0..5 {
        for (at, (_, said)) in DATES.iter().enumerate() {
            let answer = server.get(&format!("/{at}"), "");
            assert_eq!((answer.status, &answer.body[..]), (200, &b"dated"[..]), "{at}");
            let date = match said {
                Said::Nothing => None,
                Said::Date(date) => Some(*date),
                Said::Now => answer.field("Date"),
            };
            assert_eq!(answer.field("Last-Modified"), date);
            let known = format!("If-Modified-Since: {}\r\n", date.unwrap_or_default());
            let status = if matches!(said, Said::Date(_)) { 304 } else { 200 };
            assert_eq!(server.get(&format!("/{at}"), &known).status, status, "{at}");
        }
    }
}
