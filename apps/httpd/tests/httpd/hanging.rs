//! A mount whose server answers nothing, below the folder that is served.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::scene::{Answer, Server, wait_until};

/// More than an engine has threads, of which one more comes each second.
const HANGING: usize = 100;
const FILES: usize = 20;

/// A FUSE mount, taken away when this is dropped: then its calls end.
struct Mount {
    _device: File,
    folder: PathBuf,
}

impl Mount {
    /// `None` where it cannot be mounted: it takes root and FUSE.
    fn at(folder: &Path) -> Option<Mount> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
        let data = std::ffi::CStr::from_bytes_with_nul(data.as_bytes()).unwrap();
        mount("hanging", folder, "fuse", MountFlags::empty(), data).ok()?;
        Some(Mount { _device: device, folder: folder.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = unmount(&self.folder, UnmountFlags::DETACH | UnmountFlags::FORCE);
    }
}

fn ask(server: &Server, target: &str) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    stream
}

#[test]
fn a_mount_that_hangs_stops_nobody_but_who_waits_for_it() {
    let mut hanging = None;
    let server = Server::start_with(&["--workers", "2", "--disk-time", "3"], |folder| {
        for at in 0..FILES {
            fs::write(folder.join(at.to_string()), vec![at as u8; 100_000]).unwrap();
        }
        let inside = folder.join("hang");
        fs::create_dir(&inside).unwrap();
        hanging = Mount::at(&inside);
    });
    let Some(hanging) = hanging else { return eprintln!("skipped: FUSE cannot be mounted here") };
    let before = server.descriptors();
    let mut waiting: Vec<_> = (0..HANGING).map(|at| ask(&server, &format!("/hang/{at}"))).collect();
    // One goes: its place is free though its call never comes back.
    waiting.truncate(HANGING - 1);
    for at in 0..FILES {
        let file = File::open(server.path(&at.to_string())).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let answer = server.get(&format!("/{at}"), "");
        assert!(answer.status == 200 && answer.body == vec![at as u8; 100_000], "{at}");
    }
    for mut stream in waiting {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let (answer, _) = Answer::parse(&bytes, false);
        assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("1")));
    }
    wait_until("no connection is left", || server.descriptors() <= before);
    drop(hanging);
    // Its threads come back, and all goes on.
    assert_eq!(server.get("/hang/1", "").status, 404);
    assert_eq!(server.get("/1", "").status, 200);
}
