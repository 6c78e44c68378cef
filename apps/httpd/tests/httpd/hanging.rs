//! Mounts whose server does not answer, below the folder that is served.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use super::fuse::{CONTENT, FLUSH, Mount, OPEN};
use super::scene::{Answer, Server, wait_until};

/// More than an engine has threads, of which one more comes each second.
const HANGING: usize = 100;
const FILES: usize = 20;

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

/// A server with one worker and the mount, whose name `file` the kernel has in memory.
fn with_cached_name(never: u32) -> Option<(Server, Mount)> {
    let mut mounted = None;
    let server = Server::start_with(&["--workers", "1", "--disk-time", "2"], |folder| {
        fs::write(folder.join("beside"), "beside").unwrap();
        let inside = folder.join("hang");
        fs::create_dir(&inside).unwrap();
        mounted = Mount::without(never, &inside);
    });
    let Some(mounted) = mounted else {
        eprintln!("skipped: FUSE cannot be mounted here");
        return None;
    };
    let known = fs::metadata(server.path("hang/file")).unwrap();
    assert!(known.is_file() && known.len() == CONTENT.len() as u64);
    Some((server, mounted))
}

/// The name is in memory, and the open asks the server all the same: it is nothing for a worker.
#[test]
fn an_open_that_hangs_though_its_name_is_known_stops_nobody_else() {
    let Some((server, hanging)) = with_cached_name(OPEN) else { return };
    let mut waiting = ask(&server, "/hang/file");
    // One after the other, the first of which the same worker may take before that.
    for _ in 0..3 {
        assert_eq!(server.get("/beside", "").body, b"beside");
    }
    let mut bytes = Vec::new();
    waiting.read_to_end(&mut bytes).unwrap();
    assert_eq!(Answer::parse(&bytes, false).0.status, 503);
    assert_eq!(server.get("/beside", "").body, b"beside");
    drop(hanging);
    assert_eq!(server.get("/hang/file", "").status, 404);
}

/// A close asks the server, too, of a file that was only read.
#[test]
fn a_close_that_hangs_stops_nobody() {
    let Some((server, hanging)) = with_cached_name(FLUSH) else { return };
    for _ in 0..3 {
        assert_eq!(server.get("/hang/file", "").body, CONTENT);
        assert_eq!(server.get("/beside", "").body, b"beside");
    }
    drop(hanging);
    assert_eq!(server.get("/beside", "").body, b"beside");
}

/// Who sends no more has mostly gone, and waits for one call so long only; who is there takes each part
/// that comes, and has as long for the next.
#[test]
fn a_client_that_sends_no_more_gets_a_file_that_takes_long() {
    let content: Vec<u8> = (0..512 << 10).map(|at| (at / 7) as u8).collect();
    let mut slow = None;
    let server = Server::start_with(&["--workers", "1"], |folder| {
        let inside = folder.join("slow");
        fs::create_dir(&inside).unwrap();
        // A second for what the server reads at once, and eight for all.
        slow = Mount::slow(&inside, content.clone(), Duration::from_millis(60));
    });
    if slow.is_none() {
        return eprintln!("skipped: FUSE cannot be mounted here");
    }
    let mut client = server.connect();
    client.write_all(b"GET /slow/file HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let start = Instant::now();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert!(bytes.ends_with(&content), "{} bytes in {:?}", bytes.len(), start.elapsed());
    assert!(start.elapsed() > Duration::from_secs(6), "it was read at once");
}
