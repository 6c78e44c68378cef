//! Files that are not what most are: FIFOs, and those that the kernel makes up.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::scene::{Server, wait_until};

/// Who writes to a FIFO waits for a reader. One that closes at once would end it by SIGPIPE.
#[test]
fn a_request_for_a_fifo_is_not_its_reader() {
    let server = Server::start_with(&[], |folder| {
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("fifo"), rustix::fs::Mode::RWXU).unwrap();
    });
    let path = server.path("fifo");
    let mut writer = Command::new("sh");
    writer.args(["-c", "exec echo to a reader > \"$0\""]).arg(&path).stderr(Stdio::null());
    let mut writer = writer.spawn().unwrap();
    let stat = format!("/proc/{}/stat", writer.id());
    wait_until("the writer sleeps", || {
        fs::read_to_string(&stat).is_ok_and(|it| it.contains(") S "))
    });
    for target in ["/fifo", "/fifo/", "/fifo?x"] {
        assert_eq!(server.get(target, "").status, 403, "{target}");
    }
    assert_eq!(server.ask("HEAD", "/fifo", "").status, 403);
    // Without a writer neither the open nor a read would wait for one.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut reader = File::options().read(true).custom_flags(flags).open(&path).unwrap();
    let mut read = Vec::new();
    let status = loop {
        let _ = reader.read_to_end(&mut read);
        if let Some(status) = writer.try_wait().unwrap() {
            let _ = reader.read_to_end(&mut read);
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(status.success() && read == b"to a reader\n", "{status}, {read:?}");
}

#[test]
fn files_that_tell_no_length_are_read_to_their_end() {
    let server = Server::of(Path::new("/proc"), &["--workers", "1"]);
    let name = fs::read("/proc/sys/kernel/ostype").unwrap();
    for fields in ["", "Range: bytes=2-3\r\n", "If-None-Match: \"x\"\r\n"] {
        let answer = server.get("/sys/kernel/ostype", fields);
        assert_eq!((answer.status, &answer.body), (200, &name), "{fields}");
        // What it is next time nobody knows.
        for field in ["ETag", "Last-Modified", "Accept-Ranges"] {
            assert_eq!(answer.field(field), None);
        }
    }
    let head = server.ask("HEAD", "/sys/kernel/ostype", "");
    let length = name.len().to_string();
    assert_eq!((head.status, head.field("Content-Length")), (200, Some(&length[..])));
    // Each time what it is then.
    let before = server.get("/self/status", "").body;
    assert!(!before.is_empty());
    // More than is read at once.
    if fs::read("/proc/kallsyms").is_ok_and(|all| all.len() > 65_536) {
        assert_eq!(server.get("/kallsyms", "").status, 403);
    }
}

#[test]
fn files_that_are_shorter_than_they_tell_are_what_there_is_of_them() {
    let path = Path::new("/sys/kernel/mm/transparent_hugepage");
    let Ok(content) = fs::read(path.join("enabled")) else {
        return eprintln!("skipped: no {} here", path.display());
    };
    let server = Server::of(path, &["--workers", "1"]);
    for _ in 0..3 {
        let answer = server.get("/enabled", "");
        assert_eq!((answer.status, &answer.body, answer.field("ETag")), (200, &content, None));
    }
}
