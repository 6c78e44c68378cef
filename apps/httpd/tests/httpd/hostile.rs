//! Clients, folders and limits that are not as one would wish.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::scene::{Answer, PATIENCE, Server};

#[test]
fn nothing_out_of_the_folder_is_reached() {
    let server = Server::start_with(&[], |folder| {
        let link =
            |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        link("/etc/passwd", "absolute");
        link("../../../../../../../../etc/passwd", "relative");
        link("/etc", "etc");
        link("/proc/self/root", "magic");
        link("loop", "loop");
        std::fs::create_dir(folder.join("sub")).unwrap();
        link("../sub", "sub/again");
        std::fs::write(folder.join("sub/file"), "inside").unwrap();
    });
    for target in ["/absolute", "/relative", "/etc/passwd", "/etc/", "/magic/etc/passwd", "/loop"] {
        let answer = server.get(target, "");
        assert!(matches!(answer.status, 403 | 404), "{target} {}", answer.status);
        assert!(!answer.body.windows(5).any(|five| five == b"root:"));
    }
    for target in
        ["/../etc/passwd", "/%2e%2e/etc/passwd", "/sub/..%2f..%2fetc/passwd", "/a%00b", "//../x"]
    {
        assert_eq!(server.get(target, "").status, 400, "{target}");
    }
    assert_eq!(server.get("/sub/again/file", "").body, b"inside");
}

#[test]
fn what_may_hide_a_second_request_ends_the_connection() {
    let server = Server::start_with(&[], |folder| std::fs::write(folder.join("a"), "a").unwrap());
    let hidden = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    for head in [
        format!("GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", hidden.len()),
        "GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: x\r\n\r\n"
            .to_owned(),
        "GET /a HTTP/1.1\r\nHost: x\r\nA: b\n\r\n".to_owned(),
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".to_owned(),
    ] {
        let bytes = server.send(format!("{head}{hidden}").as_bytes());
        let (answer, rest) = Answer::parse(&bytes, false);
        assert!(matches!(answer.status, 400 | 405), "{head:?}");
        assert!(rest.is_empty(), "the second one was answered: {head:?}");
    }
}

#[test]
fn a_head_that_is_refused_has_no_body_in_its_answer() {
    let server = Server::start(&[]);
    let long = "a".repeat(100_000);
    for (head, status) in [
        ("HEAD /../x HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400),
        ("\r\nHEAD / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("HEAD /{} HTTP/1.1\r\nHost: x\r\n\r\n", &long[..20_000]), 414),
        (format!("HEAD / HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n"), 431),
        ("HEAD / HTTP/2.0\r\nHost: x\r\n\r\n".to_owned(), 505),
    ] {
        let mut stream = server.connect();
        let _ = stream.write_all(head.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let (answer, rest) = Answer::parse(&bytes, true);
        assert_eq!(answer.status, status, "{head:.40}");
        assert!(rest.is_empty(), "{head:.40}: {}", String::from_utf8_lossy(rest));
    }
}

#[test]
fn slow_and_silent_clients_are_ended() {
    let server = Server::start_with(
        &["--head-time", "1", "--send-time", "1", "--idle-time", "1"],
        |folder| {
            std::fs::write(folder.join("large"), vec![0; 50_000_000]).unwrap();
        },
    );
    let start = Instant::now();
    // One that says nothing, one that never ends its head, one that never takes its answer.
    let mut silent = server.connect();
    let mut slow = server.connect();
    let mut deaf = server.connect();
    deaf.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut idle = server.connect();
    idle.write_all(b"HEAD /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut dripping = slow.try_clone().unwrap();
    std::thread::spawn(move || {
        while dripping.write_all(b"G").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let mut said = Vec::new();
    assert_eq!(silent.read_to_end(&mut said).unwrap(), 0);
    let _ = slow.read_to_end(&mut said);
    assert!(String::from_utf8_lossy(&said).starts_with("HTTP/1.1 4"), "{said:?}");
    said.clear();
    idle.read_to_end(&mut said).unwrap();
    assert!(said.starts_with(b"HTTP/1.1 200"));
    // It was ended long before it was read to its end.
    std::thread::sleep(Duration::from_secs(3));
    said.clear();
    let _ = deaf.read_to_end(&mut said);
    assert!(said.len() < 50_000_000, "{}", said.len());
    assert!(start.elapsed() < PATIENCE);
    let before = server.descriptors();
    assert!(before < 100, "{before}");
}

#[test]
fn a_client_that_sends_no_more_gets_its_answers() {
    let server = Server::start_with(&[], |folder| std::fs::write(folder.join("a"), "abc").unwrap());
    let mut stream = server.connect();
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(Answer::parse(&bytes, false).0.body, b"abc");
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection() {
    let server = Server::start_with(&[], |folder| {
        std::fs::write(folder.join("large"), vec![7; 30_000_000]).unwrap();
    });
    let mut stream = server.connect();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut some = [0; 1000];
    stream.read_exact(&mut some).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(server.path("large")).unwrap();
    file.set_len(1000).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 30_000_000);
    assert_eq!(server.get("/large", "").body.len(), 1000);
}

#[test]
fn many_idle_connections_leave_room_for_new_ones() {
    let server = Server::start_with(&["--connections", "50", "--workers", "1"], |folder| {
        std::fs::write(folder.join("a"), "abc").unwrap();
    });
    let mut idle: Vec<_> = (0..120)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert!(answer.ends_with(b"200"));
            stream
        })
        .collect();
    assert!(server.descriptors() < 100);
    // The oldest were closed for them.
    let mut rest = Vec::new();
    idle[0].read_to_end(&mut rest).unwrap();
    assert_eq!(server.get("/a", "").body, b"abc");
}

#[test]
fn without_descriptors_it_answers_when_there_are_some_again() {
    let server = Server::start_with(&["--workers", "1"], |folder| {
        std::fs::write(folder.join("a"), "abc").unwrap();
    });
    let set = |files: usize| {
        let pid = server.pid().to_string();
        let limit = format!("--nofile={files}:20000");
        let set = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(set.unwrap().success());
    };
    let mut waiting: Vec<_> = (0..3).map(|_| server.connect()).collect();
    assert_eq!(server.get("/a", "").status, 200);
    // The open of a file fails now.
    set(server.descriptors());
    waiting[0].write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    waiting[0].read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b"503") || answer.ends_with(b"200"), "{answer:?}");
    set(10_000);
    assert_eq!(server.get("/a", "").status, 200);
}

#[test]
fn random_bytes_get_an_answer_or_an_end() {
    let server = Server::start_with(&[], |folder| std::fs::write(folder.join("a"), "abc").unwrap());
    let mut random = fastrand::Rng::with_seed(48);
    let words: &[&[u8]] = &[
        b"GET ",
        b"/a",
        b" HTTP/1.1",
        b"\r\n",
        b"Host: x",
        b": ",
        b"\0",
        b"\n",
        b"HEAD ",
        b"%",
        b"Range: bytes=1-",
    ];
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..random.usize(..20) {
            bytes.extend_from_slice(random.choice(words).unwrap());
        }
        let mut stream = server.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "), "{bytes:?}");
    }
    assert_eq!(server.get("/a", "").body, b"abc");
}
