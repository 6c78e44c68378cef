//! Where it listens, who may come, and how it ends.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::scene::Server;

fn signal(server: &Server, signal: Signal) {
    kill_process(Pid::from_child(&server.child), signal).unwrap();
}

/// Two servers at one port would each have half of the keys.
#[test]
fn a_second_server_at_a_port_is_refused() {
    for cpus in [1, 2] {
        let first = Server::start(cpus, &[]);
        let port = first.address.port().to_string();
        // One that is not refused would serve for ever.
        let words = ["10", env!("CARGO_BIN_EXE_kumiki-kv"), "--port", &port];
        let second = Command::new("timeout").args(words).output().unwrap();
        let text = String::from_utf8_lossy(&second.stderr);
        assert!(text.contains("Address already in use"), "{text}");
        assert_eq!(second.status.code(), Some(2));
        let words = [&words[..], &["--cpus", "0"]].concat();
        let former = Command::new("timeout").args(words).output().unwrap();
        let text = String::from_utf8_lossy(&former.stderr);
        assert!(text.contains("`--cpus` is called `--cpu-list`"), "{text}");
    }
}

#[test]
fn who_does_not_know_the_password_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "open sesame\n").unwrap();
    let server = Server::start(1, &["--password-file", file.to_str().unwrap()]);
    let seen = server.ask(
        b"SET a 1\r\nNOPE\r\nHELLO 3\r\nAUTH wrong\r\nAUTH other 'open sesame'\r\n\
          MULTI\r\nAUTH 'open sesame'\r\nSET a 2\r\nGET a\r\nQUIT\r\n",
    );
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], "-NOAUTH Authentication required.");
    assert!(lines[1].starts_with("-ERR unknown command 'NOPE'"), "{seen}");
    assert!(lines[2].starts_with("-NOAUTH HELLO must be called"), "{seen}");
    assert!(lines[3].starts_with("-WRONGPASS") && lines[4].starts_with("-WRONGPASS"), "{seen}");
    assert_eq!(lines[5], "-NOAUTH Authentication required.");
    assert_eq!(&lines[6..], ["+OK", "+OK", "$1", "2", "+OK"]);
    let seen = server.ask(b"*2\r\n$3\r\nGET\r\n$100000\r\n");
    assert_eq!(seen, "-ERR Protocol error: unauthenticated bulk length\r\n");
    let seen =
        server.ask(b"HELLO 2 AUTH default 'open sesame' SETNAME me\r\nCLIENT GETNAME\r\nQUIT\r\n");
    assert!(seen.ends_with("$2\r\nme\r\n+OK\r\n"), "{seen}");
    // Another password, without a start.
    fs::write(&file, "other").unwrap();
    signal(&server, Signal::HUP);
    let begin = Instant::now();
    while server.ask(b"AUTH other\r\nQUIT\r\n") != "+OK\r\n+OK\r\n" {
        assert!(begin.elapsed() < Duration::from_secs(20), "it has not read the password anew");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_unix_socket_is_served_and_goes_with_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kv.sock");
    for cpus in [1, 2] {
        let mut server = Server::start(cpus, &["--unix", path.to_str().unwrap()]);
        for _ in 0..4 {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(b"INCR a\r\nCLIENT INFO\r\nQUIT\r\n").unwrap();
            let mut seen = String::new();
            client.read_to_string(&mut seen).unwrap();
            assert!(seen.starts_with(':') && seen.contains("flags=U"), "{seen}");
        }
        if cpus == 1 {
            // One that is killed leaves it behind, which the next one takes.
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            assert!(path.exists());
        } else {
            let second = Command::new(env!("CARGO_BIN_EXE_kumiki-kv"))
                .args(["--port", "0", "--unix", path.to_str().unwrap()])
                .output()
                .unwrap();
            assert!(String::from_utf8_lossy(&second.stderr).contains("already in use"));
            signal(&server, Signal::TERM);
            assert_eq!(server.child.wait().unwrap().code(), Some(0));
            assert!(!path.exists());
        }
    }
}

/// What has been sent before is answered, whatever else the client does.
#[test]
fn it_ends_when_its_answers_have_left() {
    for cpus in [1, 2] {
        let mut server = Server::start(cpus, &["--memory", "64M"]);
        let mut client = server.client();
        client.write_all(b"SET a 1\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).unwrap();
        let idle = server.client();
        signal(&server, Signal::TERM);
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        drop(idle);
        assert!(TcpStream::connect(server.address).is_err());
    }
}

/// Who does not want to wait for who takes no answers tells it once more.
#[test]
fn a_second_signal_ends_it_at_once() {
    let value = "v".repeat(1 << 20);
    in_one_of_three(|| {
        let mut server = Server::start(1, &[]);
        let set =
            format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n{value}\r\nQUIT\r\n", value.len());
        assert_eq!(server.ask(set.as_bytes()), "+OK\r\n+OK\r\n");
        let mut deaf = server.client();
        deaf.write_all("GET big\r\n".repeat(16).as_bytes()).unwrap();
        deaf.read_exact(&mut [0; 9]).unwrap();
        signal(&server, Signal::TERM);
        std::thread::sleep(Duration::from_millis(200));
        signal(&server, Signal::TERM);
        server.child.wait().unwrap().signal() == Some(15)
    });
}

/// A second is given to those who have not taken their answers, of which a busy machine may have none
/// for them: of three times one is enough. What is wrong is so each time.
fn in_one_of_three(is_so: impl Fn() -> bool) {
    assert!((0..3).any(|_| is_so()));
}

/// A worker without clients has nothing to wait for, and the other one has.
#[test]
fn it_ends_when_the_last_worker_has_sent_its_answers() {
    let value = "v".repeat(1 << 20);
    in_one_of_three(|| {
        let mut server = Server::start(2, &[]);
        let set =
            format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n{value}\r\nQUIT\r\n", value.len());
        assert_eq!(server.ask(set.as_bytes()), "+OK\r\n+OK\r\n");
        let mut client = server.client();
        client.write_all("GET big\r\n".repeat(16).as_bytes()).unwrap();
        // It has read them, and its socket takes no more of the answers.
        let mut first = [0; 9];
        client.read_exact(&mut first).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        signal(&server, Signal::TERM);
        std::thread::sleep(Duration::from_millis(200));
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
        rest.len() + first.len() == 16 * (value.len() + "$1048576\r\n\r\n".len())
    });
}

/// It has read thousands of commands at once, and answers some of them in each of the client's turns.
#[test]
fn it_ends_when_all_that_it_has_read_is_answered() {
    in_one_of_three(|| {
        let mut server = Server::start(1, &[]);
        let mut client = server.client();
        client.write_all(b"SETRANGE k 999 v\r\n").unwrap();
        client.read_exact(&mut [0; 7]).unwrap();
        client.write_all("GET k\r\n".repeat(9000).as_bytes()).unwrap();
        let mut seen = vec![0; 7];
        client.read_exact(&mut seen).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        signal(&server, Signal::TERM);
        std::thread::sleep(Duration::from_millis(200));
        let _ = client.read_to_end(&mut seen);
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
        seen.len() == 9000 * "$1000\r\n\r\n".len() + 9000 * 1000
    });
}

/// More clients than events are taken at once, all of which have sent something while it did nothing.
#[test]
fn who_has_sent_in_time_is_not_idle() {
    let server = Server::start(1, &[]);
    let mut clients: Vec<_> = (0..600).map(|_| server.client()).collect();
    let is_answered = |mut client: &TcpStream| {
        let mut answer = [0; 7];
        client.read_exact(&mut answer).is_ok_and(|()| answer == *b"+PONG\r\n")
    };
    clients.iter_mut().for_each(|client| client.write_all(b"PING\r\n").unwrap());
    assert!(clients.iter().all(is_answered));
    // From now on: to connect so many may take as long.
    assert_eq!(server.ask(b"CONFIG SET timeout 2\r\nQUIT\r\n"), "+OK\r\n+OK\r\n");
    signal(&server, Signal::STOP);
    clients.iter_mut().for_each(|client| client.write_all(b"PING\r\n").unwrap());
    std::thread::sleep(Duration::from_millis(2500));
    signal(&server, Signal::CONT);
    let answered = clients.iter().filter(|client| is_answered(client)).count();
    assert_eq!(answered, clients.len());
    // Who sends nothing is idle all the same.
    assert_eq!(clients[0].read(&mut [0]).unwrap(), 0);
}

#[test]
fn nobody_who_reads_what_it_says_is_no_fault() {
    let mut child = Command::new("sh")
        .args(["-c", "exec \"$0\" --port 0 >&- 2>&-", env!("CARGO_BIN_EXE_kumiki-kv")])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // It would have ended by now with a panic's status.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// When CLIENT KILL has its answer, its victim's connection has ended: what the victim sends from
/// then on is not run, whichever shard has it. Who kills itself has its answer, and no other one.
#[test]
fn who_is_killed_has_ended_when_the_killer_is_told() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &[]);
        let mut killer = BufReader::new(server.client());
        let mut ask = |command: &str| {
            killer.get_mut().write_all(command.as_bytes()).unwrap();
            let mut line = String::new();
            killer.read_line(&mut line).unwrap();
            line
        };
        for round in 0..400 {
            let mut victim = server.client();
            victim.write_all(b"CLIENT ID\r\n").unwrap();
            let mut id = String::new();
            BufReader::new(&victim).read_line(&mut id).unwrap();
            assert_eq!(ask(&format!("CLIENT KILL ID {}\r\n", &id[1..id.len() - 2])), ":1\r\n");
            let _ = victim.write_all(b"INCR late\r\n");
            assert_eq!(ask("EXISTS late\r\n"), ":0\r\n", "round {round}, {cpus} shards");
            let seen = victim.read(&mut [0; 1]).map_err(|error| error.kind());
            assert!(matches!(seen, Ok(0) | Err(ErrorKind::ConnectionReset)), "{round}: {seen:?}");
        }
        let own = server.ask(b"CLIENT KILL SKIPME no USER default\r\nINCR late\r\n");
        assert_eq!(
            (own.as_str(), server.ask(b"EXISTS late\r\nQUIT\r\n").as_str()),
            (":2\r\n", ":0\r\n+OK\r\n")
        );
    }
}

/// An address of this machine that is not loopback; what goes there does not leave it.
fn own_address() -> Option<IpAddr> {
    // Nothing is sent: only the way there is looked up.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}

/// Without a password only this machine's clients are taken; with one, or where nobody minds, all.
#[test]
fn protected_mode_refuses_who_is_not_of_this_machine() {
    let Some(own) = own_address() else {
        eprintln!("passed over: this machine has no address but loopback");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, "secret").unwrap();
    let password = password.to_str().unwrap();
    let answer = |server: &Server| {
        let mut client = TcpStream::connect((own, server.address.port())).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = client.write_all(b"PING\r\nQUIT\r\n");
        let mut seen = Vec::new();
        let _ = client.read_to_end(&mut seen);
        String::from_utf8(seen).unwrap()
    };
    for cpus in [1, 2] {
        let server = Server::start(cpus, &["--bind", "0.0.0.0"]);
        let near = |server: &Server, bytes: &[u8]| {
            let at = ("127.0.0.1", server.address.port());
            let mut client = TcpStream::connect(at).unwrap();
            client.write_all(bytes).unwrap();
            let mut seen = String::new();
            client.read_to_string(&mut seen).unwrap();
            seen
        };
        let refused = answer(&server);
        assert!(refused.starts_with("-DENIED kumiki-kv is running in protected mode"), "{refused}");
        assert_eq!(refused.matches("\r\n").count(), 1, "{refused}");
        let seen = near(&server, b"PING\r\nINFO stats\r\nCONFIG SET protected-mode no\r\nQUIT\r\n");
        assert!(seen.starts_with("+PONG") && seen.contains("rejected_connections:1\r\n"), "{seen}");
        assert_eq!(answer(&server), "+PONG\r\n+OK\r\n");
        near(&server, b"CONFIG SET protected-mode yes\r\nQUIT\r\n");
        assert_eq!(answer(&server), refused);
        let server = Server::start(cpus, &["--bind", "0.0.0.0", "--password-file", password]);
        assert_eq!(answer(&server), "-NOAUTH Authentication required.\r\n+OK\r\n");
        let server = Server::start(cpus, &["--bind", "0.0.0.0", "--protected-mode", "no"]);
        assert_eq!(answer(&server), "+PONG\r\n+OK\r\n");
    }
}

/// Too many are told; without a descriptor they wait, and no cpu burns meanwhile.
#[test]
fn too_many_are_told_or_wait() {
    let server = Server::start(1, &["--clients", "3"]);
    let held: Vec<TcpStream> = (0..3).map(|_| server.client()).collect();
    for mut client in &held {
        client.write_all(b"PING\r\n").unwrap();
        assert_eq!(BufReader::new(client).lines().next().unwrap().unwrap(), "+PONG");
    }
    assert_eq!(server.ask(b"PING\r\n"), "-ERR max number of clients reached\r\n");
    drop(held);

    let server = Server::start(1, &[]);
    let pid = server.child.id().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, "--nofile=20:20"]).status();
    assert!(set.expect("util-linux has prlimit").success());
    let held: Vec<TcpStream> = (0..100).map(|_| server.client()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let before = server.cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    let burnt = server.cpu_time() - before;
    assert!(burnt < 30, "{burnt} ticks of 100 a second beside clients that wait");
    drop(held);
    assert_eq!(server.ask(b"PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
}

/// The limit that it is started with, as most services are, is the lower one of two.
#[test]
fn more_clients_than_its_first_limit_of_descriptors_are_served() {
    let mut command = Command::new("prlimit");
    command.args(["--nofile=64:4096", crate::PROGRAM, "--port", "0"]);
    let server = Server::of(command);
    let clients: Vec<TcpStream> = (0..200).map(|_| server.client()).collect();
    for mut client in &clients {
        client.write_all(b"PING\r\n").unwrap();
        assert_eq!(BufReader::new(client).lines().next().unwrap().unwrap(), "+PONG");
    }
}

#[test]
fn metrics_and_info_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics");
    let server = Server::start(1, &["--metrics", &format!("unix:{}", path.display())]);
    let seen = server.ask(b"SET a 1\r\nGET a\r\nGET b\r\nINFO\r\nQUIT\r\n");
    for line in ["keyspace_hits:1", "keyspace_misses:1", "db0:keys=1,", "loading:0", "role:master"]
    {
        assert!(seen.contains(&format!("\r\n{line}")), "{line}: {seen}");
    }
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut seen = String::new();
    client.read_to_string(&mut seen).unwrap();
    assert!(seen.starts_with("HTTP/1.1 200 OK\r\n") && seen.ends_with("# EOF\n"), "{seen}");
    for line in
        ["keyspace_hits_total 1", "keyspace_misses_total 1", "keys 1", "memory_max_bytes 268435456"]
    {
        assert!(seen.contains(&format!("\nkumiki_kv_{line}\n")), "{line}: {seen}");
    }
}
