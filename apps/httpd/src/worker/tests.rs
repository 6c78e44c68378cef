//! A worker's connections, without its loop: no tick comes here.

use std::io::{Read, Write};
use std::net::TcpStream;

use clap::Parser;
use kumiki_parasc::{Config, Engine};

use super::*;
use crate::args::Args;
use crate::devices::Devices;

/// A worker of a folder with a file `a`, and its address.
fn worker(folder: &std::path::Path, most: usize) -> (Worker, std::net::SocketAddr) {
    let ([worker], address) = workers(folder, most);
    (worker, address)
}

/// Workers, of `most` connections together.
fn workers<const N: usize>(
    folder: &std::path::Path,
    most: usize,
) -> ([Worker; N], std::net::SocketAddr) {
    workers_by(folder, most, &[])
}

/// Workers by these arguments.
fn workers_by<const N: usize>(
    folder: &std::path::Path,
    most: usize,
    more: &[&str],
) -> ([Worker; N], std::net::SocketAddr) {
    std::fs::write(folder.join("a"), "abc").unwrap();
    let own = ["kumiki-httpd", folder.to_str().unwrap()];
    let args = Args::parse_from(own.iter().chain(more));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let site = Site::open(&args).unwrap();
    let (places, controls) =
        (Capacity::new(most), (0..N).map(|_| Control::new().unwrap()).collect());
    let counts = (0..N).map(|_| Counts::default()).collect();
    let shared = Shared { site, listeners: vec![listener], places, controls, counts };
    let engine = Arc::new(Engine::new(&Config::default()).unwrap());
    let files = Files::new(Arc::clone(&engine), Arc::new(Devices::new(engine)));
    let (shared, mut number) = (Arc::new(shared), 0..N);
    let worker = |()| {
        let number = number.next().unwrap();
        Worker::new(Arc::clone(&shared), number, files.clone(), None, KeptFiles::new(8)).unwrap()
    };
    ([(); N].map(worker), address)
}

/// Takes those that have come.
fn turn(worker: &mut Worker) {
    worker.accept(0, Instant::now()).unwrap();
}

/// Has a connection go on, by its calls that have ended or by itself.
fn go_on(worker: &mut Worker, at: usize) {
    worker.ended.extend(worker.completions.take().map(|(_, it)| it));
    match worker.ended.pop_front() {
        Some((at, done)) => {
            worker.with(at, Instant::now(), |connection, around| connection.done(done, around));
        }
        None => worker.go(at, Instant::now()),
    }
}

/// No tick comes here: what would wait for one hangs.
#[test]
fn who_frees_a_place_listens_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut worker, address) = worker(folder.path(), 2);
    // Amid their heads, none of them may be closed for another.
    let mut clients = [(); 4].map(|()| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /a").unwrap();
        stream
    });
    turn(&mut worker);
    (0..2).for_each(|at| worker.go(at, Instant::now()));
    turn(&mut worker);
    assert!(!worker.listens && worker.connections.len() == 2);
    worker.close(1);
    assert!(worker.listens);
    worker.reuse();
    turn(&mut worker);
    assert_eq!(worker.connections.iter().flatten().count(), 2);
    let rest = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    clients[2].write_all(rest).unwrap();
    worker.go(1, Instant::now());
    let mut answer = [0; 12];
    clients[2].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[test]
fn a_worker_without_an_idle_connection_asks_another_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let ([mut idle, mut full], address) = workers::<2>(folder.path(), 1);
    let mut first = TcpStream::connect(address).unwrap();
    let request = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    first.write_all(request).unwrap();
    turn(&mut idle);
    let mut answer = [0; 12];
    first.read_exact(&mut answer).unwrap();
    // The kernel has told one of them, which has no place for it and none to close.
    let mut second = TcpStream::connect(address).unwrap();
    turn(&mut full);
    assert!(!full.listens && full.connections.is_empty());
    let now = Instant::now();
    idle.obey(now).unwrap();
    assert!(first.read_to_end(&mut Vec::new()).is_ok() && idle.listens);
    idle.reuse();
    turn(&mut idle);
    second.write_all(request).unwrap();
    idle.go(0, now);
    second.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// A server that was stopped, or had no cpu, reads late what came in time.
#[test]
fn who_has_sent_a_request_that_is_not_read_yet_is_not_idle() {
    let folder = tempfile::tempdir().unwrap();
    let (mut worker, address) = worker(folder.path(), 2);
    let request = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
    turn(&mut worker);
    assert_eq!(worker.connections.iter().flatten().count(), 2);
    // As if the worker had not run since.
    let late = Instant::now() + Duration::from_secs(3600);
    clients[0].write_all(request).unwrap();
    assert!(worker.make_room(late), "the second is idle");
    let read = |client: &mut TcpStream| {
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).map(|()| answer)
    };
    assert_eq!(&read(&mut clients[0]).unwrap(), b"HTTP/1.1 200");
    assert!(read(&mut clients[1]).is_err(), "which is closed without a word");
    // One that has gone is closed, too, and makes room.
    let (mut worker, address) = self::worker(folder.path(), 2);
    let mut clients = [(); 2].map(|()| TcpStream::connect(address).unwrap()).map(Some);
    turn(&mut worker);
    clients[0] = None;
    assert!(worker.make_room(late));
    assert_eq!(worker.connections.iter().flatten().count(), 1);
    // The times of a client that says nothing are the same.
    let mut last = clients[1].take().unwrap();
    last.write_all(request).unwrap();
    worker.tick(late);
    assert_eq!(&read(&mut last).unwrap(), b"HTTP/1.1 200");
    worker.tick(late + Duration::from_secs(3600));
    assert_eq!(worker.connections.iter().flatten().count(), 0);
}

/// An event comes for it each time that it has not read all, beside the turn that it has anyway.
#[test]
fn a_client_that_sends_much_has_one_turn_and_not_more_and_more() {
    let folder = tempfile::tempdir().unwrap();
    let (mut worker, address) = worker(folder.path(), 2);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000)).unwrap();
    let now = Instant::now();
    turn(&mut worker);
    for _ in 0..3 {
        worker.event(0, EventFlags::IN, now);
        assert_eq!(worker.turns, [0]);
        worker.take_turns(now);
        assert_eq!(worker.turns, [0]);
    }
    // Who comes next has none of its.
    worker.close(0);
    assert!(worker.turns.is_empty());
}

/// A worker that could add one of several sockets only adds the others later.
#[test]
fn listening_is_begun_anew_where_a_part_of_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (mut worker, address) = worker(folder.path(), 2);
    worker.listens = false;
    worker.tick(Instant::now());
    assert!(worker.listens && !worker.has_said);
    worker.listen(false).unwrap();
    worker.listens = true;
    worker.listen(false).unwrap();
    worker.tick(Instant::now());
    let _client = TcpStream::connect(address).unwrap();
    turn(&mut worker);
    assert_eq!(worker.connections.iter().flatten().count(), 1);
}

/// Pages that clients have not taken count together, and are free again once they have.
#[test]
fn pages_of_folders_are_bounded_over_all_connections() {
    let folder = tempfile::tempdir().unwrap();
    let name = "n".repeat(200);
    (0..2000).for_each(|at| std::fs::write(folder.path().join(format!("{name}{at}")), "").unwrap());
    let (mut worker, address) = worker(folder.path(), 3);
    // One page is of almost a megabyte.
    worker.pages = Pages::of_most(1_400_000);
    let mut clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
    turn(&mut worker);
    let mut ask = |worker: &mut Worker, at: usize, method: &str| {
        let connection = worker.connections[at].as_ref().unwrap();
        // The least that the kernel gives: the rest of a page waits for its client.
        rustix::net::sockopt::set_socket_send_buffer_size(connection, 1).unwrap();
        let request = format!("{method} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        clients[at].write_all(request.as_bytes()).unwrap();
        while !crate::accept::one_waits(&clients[at]) {
            go_on(worker, at);
        }
        clients[at].try_clone().unwrap()
    };
    let read = |worker: &mut Worker, at: usize, client: TcpStream| {
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let reads = std::thread::spawn(move || {
            let mut answer = String::new();
            (&client).read_to_string(&mut answer).unwrap();
            answer
        });
        while !reads.is_finished() {
            go_on(worker, at);
        }
        reads.join().unwrap()
    };
    let first = ask(&mut worker, 0, "GET");
    let second = ask(&mut worker, 1, "GET");
    let answer = read(&mut worker, 1, second);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer:.100}");
    assert!(answer.contains("\r\nRetry-After: 1\r\n"), "{answer:.400}");
    let answer = read(&mut worker, 0, first);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.len() > 800_000, "{answer:.100}");
    let third = ask(&mut worker, 2, "GET");
    let answer = read(&mut worker, 2, third);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("</ul>\n"), "{answer:.100}");
}

/// One look at the epoll has all of it: another client, and that the last one is gone.
#[test]
fn the_end_of_who_had_a_place_is_not_told_to_who_has_it_next() {
    let folder = tempfile::tempdir().unwrap();
    let (mut worker, address) = worker(folder.path(), 8);
    let first = TcpStream::connect(address).unwrap();
    turn(&mut worker);
    drop(first);
    // Its turn comes before its event.
    worker.go(0, Instant::now());
    assert!(worker.connections[0].is_none());
    let mut second = TcpStream::connect(address).unwrap();
    second.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    turn(&mut worker);
    // There it would end a call that is under way.
    assert!(worker.connections[0].is_none(), "a place is taken again amid the events");
    worker.event(0, EventFlags::HUP, Instant::now());
    let mut answer = [0; 12];
    second.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    worker.reuse();
    let _third = TcpStream::connect(address).unwrap();
    turn(&mut worker);
    assert!(worker.connections[0].is_some());
}

/// The input is not there any more when that panics which parses it.
#[test]
fn a_panic_of_head_is_answered_without_a_body() {
    let folder = tempfile::tempdir().unwrap();
    let (mut worker, address) = worker(folder.path(), 100);
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"HEAD /a HTTP/1.1\r\nHost: x\r\n").unwrap();
    turn(&mut worker);
    let now = Instant::now();
    worker.go(0, now);
    worker.with(0, now, |connection, _| {
        assert!(!connection.take_input().is_empty());
        panic!("made up")
    });
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn a_panic_ends_its_connection_by_500_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (mut worker, address) = worker(folder.path(), 100);
    let mut streams = [(); 2].map(|()| TcpStream::connect(address).unwrap());
    let now = Instant::now();
    worker.accept(0, now).unwrap();
    assert_eq!(worker.connections.len(), 2);
    for (at, stream) in streams.iter_mut().enumerate() {
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        if at == 0 {
            worker.with(0, now, |_, _| panic!("made up"));
        }
    }
    let mut answer = String::new();
    streams[0].read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.ends_with("</h1>\n"), "{answer}");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    worker.go(1, now);
    let mut answer = [0; 12];
    streams[1].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    // Amid an answer there is nothing that could be said.
    std::fs::write(folder.path().join("large"), vec![7; 50_000_000]).unwrap();
    streams[1].write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    while !worker.connections[1].as_ref().is_some_and(Connection::is_amid_answer) {
        worker.go(1, now);
    }
    worker.with(1, now, |_, _| panic!("made up"));
    assert!(worker.connections[1].is_none());
    let mut rest = Vec::new();
    let _ = streams[1].read_to_end(&mut rest);
    assert!(rest.len() < 50_000_000);
    assert!(!rest.windows(12).any(|bytes| bytes == b"HTTP/1.1 500"));
}

/// A certificate's chain may be longer than what a socket takes at once: the rest is sent when there is
/// room, though the client says nothing before it has all.
#[cfg(feature = "tls")]
#[test]
fn a_handshake_that_its_socket_does_not_take_at_once_goes_on() {
    use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("chain"), folder.path().join("key"));
    let words = "req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -keyout key -out chain \
                 -subj /CN=x -addext subjectAltName=DNS:x -addext basicConstraints=critical,CA:FALSE";
    let mut openssl = std::process::Command::new("openssl");
    let made = openssl.args(words.split_whitespace()).current_dir(folder.path()).output();
    let Ok(made) = made else { return eprintln!("skipped: there is no openssl") };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let certificate = std::fs::read_to_string(&chain).unwrap();
    std::fs::write(&chain, certificate.repeat(100)).unwrap();
    let tls = ["--tls", chain.to_str().unwrap(), key.to_str().unwrap()];
    let ([mut worker], address) = workers_by::<1>(folder.path(), 1, &tls);
    sockopt::set_socket_send_buffer_size(&worker.shared.listeners[0], 1).unwrap();

    let own = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&own, 1).unwrap();
    connect(&own, &address).unwrap();
    let mut stream = TcpStream::from(own);
    let mut roots = RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_file(&chain).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let client = builder.with_root_certificates(roots).with_no_client_auth();
    let mut session = ClientConnection::new(Arc::new(client), "x".try_into().unwrap()).unwrap();
    session.write_tls(&mut stream).unwrap();
    turn(&mut worker);
    assert_eq!(worker.connections[0].as_ref().unwrap().waits, EventFlags::OUT);

    let reads = std::thread::spawn(move || {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut both = StreamOwned::new(session, stream);
        let request = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        both.write_all(request).unwrap();
        let mut answer = String::new();
        both.read_to_string(&mut answer).unwrap();
        answer
    });
    while !reads.is_finished() {
        go_on(&mut worker, 0);
    }
    let answer = reads.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("abc"), "{answer}");
}
