//! Keys that outlive the server: killed under its clients, it has each value that it has answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::scene::Server;

/// Clients that write.
const CLIENTS: usize = 8;
/// Commands that a client sends at once.
const AT_ONCE: usize = 16;

/// A folder in memory, if there is one: who is killed loses nothing that was written, flushed or not, so that a disk would
/// only take its time. That flushes come before answers shows a disk that forgets (`src/kept/tests.rs`).
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Counts by INCR, several at once, wherever the server is, until it is over. Each answer must be the one before and one
/// more, and more only by what was sent and not answered; what was answered last, and what may have run beside it.
fn count(key: &str, at: &Mutex<SocketAddr>, over: &AtomicBool) -> (u64, u64, u64) {
    let (mut last, mut maybe, mut done) = (0, 0, 0);
    while !over.load(SeqCst) {
        let address = *at.lock().unwrap();
        let Ok(client) = TcpStream::connect(address) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (mut to, mut from) = (client.try_clone().unwrap(), BufReader::new(client));
        while !over.load(SeqCst) {
            let mut left = AT_ONCE as u64;
            if to.write_all(format!("INCR {key}\r\n").repeat(AT_ONCE).as_bytes()).is_err() {
                // Some of it may have come.
                maybe += left;
                break;
            }
            let mut line = String::new();
            while left > 0
                && from.read_line(&mut line).is_ok_and(|bytes| bytes > 0 && line.ends_with('\n'))
            {
                let now: u64 = line[1..].trim().parse().unwrap_or_else(|_| panic!("{line:?}"));
                assert!(
                    now > last && now <= last + 1 + maybe,
                    "{now} after {last}, {maybe} unknown"
                );
                (last, maybe) = (now, 0);
                (done, left) = (done + 1, left - 1);
                line.clear();
            }
            if left > 0 {
                maybe += left;
                break;
            }
        }
    }
    (last, maybe, done)
}

/// Kills a server with one to two shards so many times.
fn killed(times: usize) {
    let folder = folder();
    let durable = ["--durable", folder.path().to_str().unwrap()];
    let mut server = Server::start(2, &durable);
    let (at, over) = (Mutex::new(server.address), AtomicBool::new(false));
    let keys: Vec<String> = (0..CLIENTS).map(|client| format!("count{client}")).collect();
    let counts = std::thread::scope(|threads| {
        let (at, over) = (&at, &over);
        let count = |key| move || count(key, at, over);
        let clients: Vec<_> = keys.iter().map(|key| threads.spawn(count(key))).collect();
        for kill in 0..times {
            std::thread::sleep(Duration::from_millis(60 + 17 * (kill as u64 % 7)));
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            // As many shards as the folder had before, and others.
            server = Server::start(1 + kill % 2, &durable);
            *at.lock().unwrap() = server.address;
            if kill % 3 == 1 {
                assert_eq!(
                    server.ask(b"BGSAVE\r\nQUIT\r\n"),
                    "+Background saving started\r\n+OK\r\n"
                );
            }
        }
        std::thread::sleep(Duration::from_millis(60));
        over.store(true, SeqCst);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    for (key, (last, maybe, _)) in keys.iter().zip(&counts) {
        let answer = server.ask(format!("GET {key}\r\nQUIT\r\n").as_bytes());
        let value: u64 = answer.lines().nth(1).unwrap().parse().unwrap();
        assert!(
            value >= *last && value <= last + maybe,
            "{value}: {last} answered, {maybe} unknown"
        );
    }
    let done: u64 = counts.iter().map(|(.., done)| done).sum();
    println!("killed {times} times: {done} answered");
    assert!(done > 100 * times as u64, "most of them found a server");
}

#[test]
fn a_server_that_is_killed_has_each_value_that_it_has_answered() {
    killed(6);
}

#[test]
#[ignore = "some minutes: `cargo xtask test long`, after a change to how keys are kept"]
fn killed_a_hundred_times_it_loses_nothing() {
    killed(100);
}

#[test]
fn a_restart_has_keys_values_and_times() {
    let folder = folder();
    let durable = ["--durable", folder.path().to_str().unwrap()];
    let mut server = Server::start(2, &durable);
    let said = server.ask(
        b"SET a 1\r\nAPPEND a 2\r\nSETRANGE a 4 x\r\nSET b 5\r\nPEXPIREAT b 99999999999999\r\nSET c 1 PX 1\r\n\
          SET d 1 EX 1000\r\nPERSIST d\r\nMSET e 1 f 2 g 3\r\nDEL f\r\nRENAME {e}1 {e}2\r\nSET {m}1 a\r\nMULTI\r\n\
          INCR {m}2\r\nCOPY {m}1 {m}3\r\nEXEC\r\nGETDEL g\r\nGETEX d PXAT 99999999999998\r\nQUIT\r\n",
    );
    assert!(said.contains("ERR no such key") && said.ends_with("+OK\r\n"), "{said}");
    std::thread::sleep(Duration::from_millis(5));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    for shards in [2, 1] {
        let mut server = Server::start(shards, &durable);
        let asked = b"GET a\r\nGET b\r\nPEXPIRETIME b\r\nGET c\r\nPEXPIRETIME d\r\nGET e\r\nGET f\r\nGET g\r\n\
                      GET {m}2\r\nGET {m}3\r\nDBSIZE\r\nQUIT\r\n";
        let said = server.ask(asked);
        let expected = "$5\r\n12\0\0x\r\n$1\r\n5\r\n:99999999999999\r\n$-1\r\n:99999999999998\r\n$1\r\n1\r\n$-1\r\n\
                        $-1\r\n$1\r\n1\r\n$1\r\na\r\n:7\r\n+OK\r\n";
        assert_eq!(said, expected, "{shards} shards");
        // Who ends it by a signal has said so in the log.
        let pid = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(server.child.wait().unwrap().success());
    }
    let server = Server::start(1, &durable);
    let info = server.ask(b"INFO persistence\r\nLASTSAVE\r\nSAVE\r\nQUIT\r\n");
    for line in ["aof_enabled:1", "aof_last_write_status:ok", "rdb_last_bgsave_status:ok"] {
        assert!(info.contains(line), "{line}: {info}");
    }
    assert!(info.ends_with("+OK\r\n+OK\r\n"), "{info}");
    // Another server of the same folder is told.
    let mut second = std::process::Command::new(env!("CARGO_BIN_EXE_kumiki-kv"));
    let output = second.args(["--port", "0"]).args(durable).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("another process serves from it"), "{said}");
    // Without it nothing is kept, and nothing is said to be.
    let server = Server::start(1, &[]);
    let said = server.ask(b"BGSAVE\r\nQUIT\r\n");
    assert!(said.starts_with("-ERR Nothing is kept on a disk"), "{said}");
}

/// Its answers wait for the disk when it is to go, and it goes behind them.
#[test]
fn who_kills_itself_has_its_answers_once_they_are_flushed() {
    for shards in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(shards, &["--durable", folder.path().to_str().unwrap()]);
        for _ in 0..20 {
            let mut client = BufReader::new(server.client());
            let mut line = String::new();
            client.get_mut().write_all(b"CLIENT ID\r\n").unwrap();
            client.read_line(&mut line).unwrap();
            let id = line[1..].trim();
            let ends = format!("SET a 1\r\nCLIENT KILL ID {id} SKIPME no\r\nSET a 2\r\n");
            client.get_mut().write_all(ends.as_bytes()).unwrap();
            let mut seen = String::new();
            let _ = client.read_to_string(&mut seen);
            assert_eq!(seen, "+OK\r\n:1\r\n", "{shards} shards");
        }
    }
}
