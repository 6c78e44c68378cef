//! More connections than are usual, and than there are descriptors for.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::scene::{Server, wait_until};

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

fn with_a(args: &[&str]) -> Server {
    Server::start_with(args, |folder| std::fs::write(folder.join("a"), "abc").unwrap())
}

/// Sends the rest of a request and reads the answer.
fn is_answered(stream: &mut TcpStream, rest: &[u8]) -> bool {
    stream.write_all(rest).unwrap();
    let (mut answer, mut have) = ([0; 4096], 0);
    while !answer[..have].ends_with(b"\r\n\r\nabc") {
        let count = stream.read(&mut answer[have..]).unwrap();
        if count == 0 {
            return false;
        }
        have += count;
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

#[test]
fn without_descriptors_connections_wait_until_others_end() {
    let server = with_a(&["--workers", "1", "--head-time", "600"]);
    // It has opened what it keeps open.
    assert_eq!(server.get("/a", "").status, 200);
    // Some that it was started with may have high numbers, and the limit is one of numbers.
    let is_open = |number: &usize| {
        std::path::Path::new(&format!("/proc/{}/fd/{number}", server.pid())).exists()
    };
    let own = server.descriptors();
    let most = (0..).filter(|number| !is_open(number)).nth(5).unwrap();
    let (pid, limit) = (server.pid().to_string(), format!("--nofile={most}:20000"));
    let set = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    assert!(set.unwrap().success());
    // Amid their heads, none of them is one that may be closed for another.
    let (begun, rest) = REQUEST.split_at(10);
    let mut all: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(begun).unwrap();
            stream
        })
        .collect();
    wait_until("all descriptors are taken", || (0..most).all(|number| is_open(&number)));
    let mut last = all.pop().unwrap();
    drop(all);
    assert!(is_answered(&mut last, rest));
    drop(last);
    wait_until("the last one is closed", || server.descriptors() <= own);
    assert_eq!(server.get("/a", "").status, 200);
}

/// The limit that it is started with, as most services are, is the lower one of two.
#[test]
fn more_connections_than_its_first_limit_of_descriptors_are_served() {
    // Neither waits in a queue: each is answered while all others are open.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(folder.path().join("a"), "abc").unwrap();
    let mut command = std::process::Command::new("prlimit");
    command.args(["--nofile=64:4096", crate::PROGRAM]).arg(folder.path());
    let server = Server::by(command, folder, &["--workers", "1"]);
    let mut all: Vec<_> = (0..200).map(|_| server.connect()).collect();
    assert!(all.iter_mut().all(|stream| is_answered(stream, REQUEST)));
}

#[test]
fn idle_connections_of_any_worker_make_room_for_new_ones() {
    let server = with_a(&["--workers", "4", "--connections", "3"]);
    let mut idle = Vec::new();
    for at in 0..300 {
        let mut stream = server.connect();
        assert!(is_answered(&mut stream, REQUEST), "{at}");
        idle.push(stream);
    }
    assert!(server.descriptors() < 100);
}

#[test]
#[ignore = "takes 20,000 descriptors and some seconds: `cargo xtask test long`, after a change to worker.rs or accept.rs"]
fn ten_thousand_idle_connections_leave_it_as_it_was() {
    const CONNECTIONS: usize = 10_000;
    // Here one each; the server, which inherits it, keeps two for each.
    const FILES: u64 = 2 * CONNECTIONS as u64 + 400;
    let own = getrlimit(Resource::Nofile);
    let maximum = own.maximum.map(|most| most.max(FILES));
    if setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        eprintln!("left out: it needs {FILES} descriptors, or the right to have them: {own:?}");
        return;
    }
    let server = with_a(&["--connections", "10100", "--workers", "2", "--idle-time", "3600"]);
    let before = server.descriptors();
    let mut idle: Vec<_> = (0..CONNECTIONS)
        .map(|at| {
            let mut stream = server.connect();
            assert!(is_answered(&mut stream, REQUEST), "{at}");
            stream
        })
        .collect();
    assert!(server.descriptors() >= CONNECTIONS);
    assert_eq!(server.get("/a", "").body, b"abc");
    // The first ones are still there, and are answered.
    for at in [0, 1, CONNECTIONS / 2, CONNECTIONS - 1] {
        assert!(is_answered(&mut idle[at], REQUEST), "{at}");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: usize = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 16 * CONNECTIONS, "{kib} KiB for {CONNECTIONS} connections");
    drop(idle);
    wait_until("all are closed", || server.descriptors() <= before + 2);
    assert_eq!(server.get("/a", "").status, 200);
}
