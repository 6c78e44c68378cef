//! Files that are kept open: an answer is what the name leads to at its time all the same.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::scene::{Answer, Server, wait_until};

/// The answer on a connection that goes on.
fn ask(stream: &mut TcpStream, target: &str) -> Answer {
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut room).unwrap();
        assert!(count > 0, "it has closed: {target}");
        bytes.extend_from_slice(&room[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length =
            head.split("Content-Length: ").nth(1).map_or("0", |it| it.lines().next().unwrap());
        if bytes.len() >= end + 4 + length.parse::<usize>().unwrap() {
            return Answer::parse(&bytes, false).0;
        }
    }
}

/// Something that happens to the name `a/b/file`, and what is answered then.
type Change = (&'static str, fn(&Path), u16, &'static [u8]);

const CHANGES: [Change; 12] = [
    ("nothing", |_| (), 200, b"first"),
    ("written anew, as long", |at| fs::write(at.join("a/b/file"), "other").unwrap(), 200, b"other"),
    ("cut", |at| fs::write(at.join("a/b/file"), "f").unwrap(), 200, b"f"),
    (
        "another one in its place",
        |at| {
            fs::write(at.join("new"), "other").unwrap();
            fs::rename(at.join("new"), at.join("a/b/file")).unwrap();
        },
        200,
        b"other",
    ),
    ("deleted", |at| fs::remove_file(at.join("a/b/file")).unwrap(), 404, b""),
    ("moved away", |at| fs::rename(at.join("a/b/file"), at.join("file")).unwrap(), 404, b""),
    (
        "another folder in place of one above it",
        |at| {
            fs::create_dir_all(at.join("c/b")).unwrap();
            fs::write(at.join("c/b/file"), "other").unwrap();
            fs::rename(at.join("a"), at.join("d")).unwrap();
            fs::rename(at.join("c"), at.join("a")).unwrap();
        },
        200,
        b"other",
    ),
    (
        "a link to another folder in place of one",
        |at| {
            fs::create_dir_all(at.join("c/b")).unwrap();
            fs::write(at.join("c/b/file"), "other").unwrap();
            fs::rename(at.join("a"), at.join("d")).unwrap();
            symlink("c", at.join("a")).unwrap();
        },
        200,
        b"other",
    ),
    (
        "a link out of the folder in its place",
        |at| {
            fs::remove_file(at.join("a/b/file")).unwrap();
            symlink("/etc/passwd", at.join("a/b/file")).unwrap();
        },
        403,
        b"",
    ),
    (
        "a folder in its place",
        |at| {
            fs::remove_file(at.join("a/b/file")).unwrap();
            fs::create_dir(at.join("a/b/file")).unwrap();
        },
        301,
        b"",
    ),
    (
        "a FIFO in its place",
        |at| {
            fs::remove_file(at.join("a/b/file")).unwrap();
            let mode = rustix::fs::Mode::RWXU;
            rustix::fs::mkfifoat(rustix::fs::CWD, at.join("a/b/file"), mode).unwrap();
        },
        403,
        b"",
    ),
    (
        "a file system above it, as far as there may be one",
        |at| {
            let flags = rustix::mount::MountFlags::empty();
            if rustix::mount::mount("none", at.join("a"), "tmpfs", flags, None).is_err() {
                fs::remove_dir_all(at.join("a")).unwrap();
            }
        },
        404,
        b"",
    ),
];

#[test]
fn whatever_happens_to_a_name_is_seen_by_the_next_request() {
    let server = Server::start_with(&["--workers", "1"], |folder| {
        for (at, _) in CHANGES.iter().enumerate() {
            fs::create_dir_all(folder.join(format!("{at}/a/b"))).unwrap();
            fs::write(folder.join(format!("{at}/a/b/file")), "first").unwrap();
        }
    });
    let mut stream = server.connect();
    for (at, (what, change, status, body)) in CHANGES.into_iter().enumerate() {
        let target = format!("/{at}/a/b/file");
        let (first, again) = (ask(&mut stream, &target), ask(&mut stream, &target));
        assert_eq!((&first.body[..], &again.body[..]), (&b"first"[..], &b"first"[..]), "{what}");
        assert_eq!(first.field("ETag"), again.field("ETag"), "{what}");
        change(&server.path(&at.to_string()));
        let (then, again) = (ask(&mut stream, &target), ask(&mut stream, &target));
        for answer in [then, again] {
            assert_eq!(answer.status, status, "{what}");
            if status == 200 {
                assert_eq!(answer.body, body, "{what}");
                assert_eq!(
                    answer.field("ETag") == first.field("ETag"),
                    what == "nothing",
                    "{what}"
                );
            }
        }
    }
    let mounted = server.path(&format!("{}/a", CHANGES.len() - 1));
    let _ = rustix::mount::unmount(&mounted, rustix::mount::UnmountFlags::DETACH);
}

#[test]
fn what_nobody_may_read_any_more_is_not_served_though_it_is_open() {
    let server = Server::start_with(&["--workers", "1"], |folder| {
        fs::create_dir(folder.join("a")).unwrap();
        fs::write(folder.join("a/file"), "first").unwrap();
    });
    let set = |name: &str, mode| {
        fs::set_permissions(server.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut stream = server.connect();
    for (name, mode) in [("a/file", 0o644), ("a", 0o755)] {
        assert_eq!(ask(&mut stream, "/a/file").status, 200);
        assert_eq!(ask(&mut stream, "/a/file").status, 200);
        set(name, 0);
        let is_root = fs::read(server.path("a/file")).is_ok();
        let status = ask(&mut stream, "/a/file").status;
        set(name, mode);
        assert_eq!(status, if is_root { 200 } else { 403 }, "{name}");
    }
}

#[test]
fn parts_and_conditions_are_answered_of_an_open_file_as_of_a_new_one() {
    let content: Vec<u8> = (0..200_000).map(|at| (at * 7 % 251) as u8).collect();
    let server = Server::start_with(&["--workers", "1"], |folder| {
        fs::write(folder.join("large"), &content).unwrap();
    });
    for _ in 0..3 {
        let whole = server.get("/large", "");
        assert!(whole.body == content);
        let part = server.get("/large", "Range: bytes=70000-150000\r\n");
        assert!(part.status == 206 && part.body == content[70_000..=150_000]);
        assert!(server.get("/large", "Range: bytes=-5\r\n").body == content[199_995..]);
        assert_eq!(server.get("/large", "Range: bytes=200000-\r\n").status, 416);
        let tag = format!("If-None-Match: {}\r\n", whole.field("ETag").unwrap());
        assert_eq!(server.get("/large", &tag).status, 304);
        let head = server.ask("HEAD", "/large", "");
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("200000")));
        // Out of memory, as far as the file system lets go.
        let file = fs::File::open(server.path("large")).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

#[test]
fn what_is_kept_is_closed_when_the_folder_is_opened_anew() {
    let server = Server::start_with(&["--workers", "1"], |folder| {
        (0..20).for_each(|at| fs::write(folder.join(at.to_string()), "x").unwrap());
    });
    let open_all =
        || (0..20).for_each(|at| assert_eq!(server.get(&format!("/{at}"), "").body, b"x"));
    open_all();
    assert_eq!(server.open_files(), 20);
    server.signal("HUP");
    wait_until("all are closed", || server.open_files() == 0);
    open_all();
}
