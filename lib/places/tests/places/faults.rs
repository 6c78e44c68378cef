//! Servers that are not there, places that go, messages of strangers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::{self, Operation, Reply, Request, Why};
use kumiki_places::{Client, Error, Nats, News};

use crate::nats::{Line, NatsServer};
use crate::scene::{PATIENCE, block_on, client, interface, machine, managing, server, subject};

#[test]
fn a_server_that_is_not_there_is_named() {
    // Of a listener that has gone.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("nats://127.0.0.1:{port}");
    let error = server(&url, "m").serve(&interface(1)).unwrap_err();
    assert!(error.to_string().contains(&url), "{error}");
    let error = block_on(Client::connect(&Nats::at(&url))).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[test]
fn a_place_that_is_gone_is_said_at_once() {
    let nats = NatsServer::start();
    let (_interface, served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        drop(served);
        let start = Instant::now();
        let error = client.call::<Add>(&counter, 1).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        let error = client.create::<Counter>("nobody.core0", None, 0).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        assert!(start.elapsed() < PATIENCE / 2, "it waited for its patience");
        let error = client.create::<Counter>("no place", None, 0).await.unwrap_err();
        assert!(matches!(error, Error::NotSent { .. }), "{error}");
    });
}

#[test]
fn a_place_that_was_started_anew_knows_nothing_of_before() {
    let nats = NatsServer::start();
    let first = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&first.2, Some("a"), 0).await.unwrap();
        let place = first.2.clone();
        drop(first);
        let _second = machine(&nats.url(), "m");
        let error = client.call::<Add>(&counter, 1).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Stale, .. }), "{error}");
        // What has no reference from before goes on with another lease.
        let counter = client.create::<Counter>(&place, Some("a"), 5).await.unwrap();
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 6);
    });
}

/// The server knows the place when its start returns, not a moment later.
#[test]
fn a_place_answers_as_soon_as_it_serves() {
    let nats = NatsServer::start();
    block_on(async {
        for round in 0..100 {
            // Of its own: what is asked twice under a lease of the life before is rightly unknown.
            let client = client(&nats.url()).await;
            let (_interface, _served, place) = machine(&nats.url(), "m");
            let made = client.create::<Counter>(&place, None, 0).await;
            assert!(made.is_ok(), "round {round}: {made:?}");
        }
    });
}

#[test]
fn a_second_place_of_one_name_is_refused() {
    let nats = NatsServer::start();
    let (_interface, served, place) = machine(&nats.url(), "m");
    let error = server(&nats.url(), "m").serve(&interface(1)).unwrap_err();
    assert!(matches!(&error, Error::PlaceTaken { place: its } if *its == place), "{error}");
    drop(served);
    let _free = machine(&nats.url(), "m");
}

#[test]
fn a_line_that_is_down_is_waited_for_and_then_said() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url(), "m");
    let line = Line::to(&nats);
    block_on(async {
        let client = client(&line.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        line.down();
        let hasty = client.with_timeout(Duration::from_millis(300));
        // The client learns of it when it next looks at the line: until then calls leave, as far
        // as it knows.
        let end = Instant::now() + PATIENCE;
        loop {
            match hasty.call::<Add>(&counter, 1).await.unwrap_err() {
                Error::NotSent { .. } => break,
                Error::Unknown { .. } => assert!(Instant::now() < end),
                other => panic!("{other}"),
            }
        }
        let waiting = client.call::<Get>(&counter, ());
        let up = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            line.up();
        };
        let (value, ()) = tokio::join!(waiting, up);
        // Those that were sent may come yet, once each.
        assert!(value.unwrap() >= 0);
    });
}

#[test]
fn a_server_that_is_started_anew_is_found_again() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let port = i32::from(nats.port());
        drop(nats);
        let _again = NatsServer::start_at(port, &[]);
        // The place may come back later than the client: nobody is there until then.
        let end = Instant::now() + PATIENCE;
        let value = loop {
            match client.call::<Add>(&counter, 1).await {
                Ok(value) => break value,
                Err(Error::Gone { .. }) => assert!(Instant::now() < end),
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(value, 1);
    });
}

#[test]
fn too_much_for_a_message_is_refused_before_it_leaves() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let name = "a".repeat(2 << 20);
        let error = client.create::<Counter>(&place, Some(&name), 0).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: 1_048_576, .. }), "{error}");
        client.create::<Counter>(&place, None, 0).await.unwrap();
    });
}

/// Messages that no client of ours would send.
#[test]
fn a_stranger_s_messages_change_nothing() {
    let nats = NatsServer::start();
    let (interface, _served, place) = machine(&nats.url(), "m");
    let leases = kumiki_resource::Pattern::new("*/lease/*").unwrap();
    block_on(async {
        let client = client(&nats.url()).await;
        let mut watch = client.watch(&place, "**").await.unwrap();
        let counter = client.create::<Counter>(&place, Some("a"), 0).await.unwrap();
        let lease = interface.ls(&leases).unwrap().remove(0);
        // Who calls is shown to nobody who calls: not listed, not told, not opened.
        let listed = client.ls(&place, "**").await.unwrap();
        assert!(listed.iter().all(|one| one.name.contains("/counter/")), "{listed:?}");
        assert!(matches!(watch.next().await, News::Here { .. }));
        let News::Changed(change) = watch.next().await else { panic!("no change was told") };
        assert_eq!(change.name, format!("{place}/counter/a"), "the lease came before it");
        let unique = lease.name.rsplit('/').next().unwrap().to_owned();
        assert!(lease.named, "{unique}");
        let open = Operation::Open { kind: "lease".to_owned(), unique };
        let error = client.ask(&place, open).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::NotAllowed, .. }), "{error}");
        let lease = lease.id.to_u64();
        let stranger = async_nats::connect(nats.url()).await.unwrap();
        let its = subject(&stranger, &place).await;
        let ask = async |bytes: Vec<u8>| {
            let reply = stranger.request(its.clone(), bytes.into()).await.unwrap();
            let reply: Reply = wire::parse(&reply.payload).unwrap();
            let first = reply.answers.into_iter().next().unwrap();
            Why::from(first.unwrap_err().why)
        };
        let add = || Operation::Call {
            id: counter.id().to_u64(),
            kind: "counter".to_owned(),
            part: "add".to_owned(),
            version: 1,
            input: Bytes::from_static(&[1]),
        };
        let message = |request: &Request| {
            let mut bytes = vec![wire::VERSION];
            bytes.extend(rmp_serde::to_vec(request).unwrap());
            bytes
        };
        let request = |lease, key, operation| Request {
            life: 0,
            lease,
            key,
            first: 1,
            open: vec![],
            operations: vec![(1, operation)],
        };
        let good = message(&request(lease, 1, add()));
        for (bytes, why) in [
            (vec![], Why::Unreadable),
            (vec![wire::VERSION], Why::Unreadable),
            (vec![wire::VERSION, 0xdd, 0xff, 0xff, 0xff, 0xff], Why::Unreadable),
            (good[..good.len() - 1].to_vec(), Why::Unreadable),
            ([&[wire::VERSION + 1], &good[1..]].concat(), Why::Unreadable),
            // Another's lease, without its secret; none; one of another kind.
            (good, Why::NoLease),
            (message(&request(0, 0, add())), Why::NoLease),
            (message(&request(counter.id().to_u64(), 0, add())), Why::NoLease),
            (message(&Request { life: 7, ..request(lease, 1, add()) }), Why::OtherLife),
        ] {
            assert_eq!(ask(bytes.clone()).await, why, "{bytes:?}");
        }
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 0);
        // Its own lease, and things that are not there.
        let hello = Operation::Hello { key: 5, client: "x/\u{202e}\n".to_owned() };
        let granted =
            stranger.request(its.clone(), message(&request(0, 0, hello)).into()).await.unwrap();
        let granted: Reply = wire::parse(&granted.payload).unwrap();
        let granted: wire::Granted =
            rmp_serde::from_slice(granted.answers[0].as_ref().unwrap()).unwrap();
        let call = |id: u64, kind: &str, part: &str, version| Operation::Call {
            id,
            kind: kind.to_owned(),
            part: part.to_owned(),
            version,
            input: Bytes::from_static(&[1]),
        };
        let id = counter.id().to_u64();
        let each = |kind: &str, version, calls: Vec<u8>| Operation::Each {
            kind: kind.to_owned(),
            part: "add".to_owned(),
            version,
            calls: calls.into(),
        };
        let one = [&[3][..], &id.to_le_bytes(), &[1; 8]].concat();
        for (serial, (operation, why)) in (1..).zip([
            (call(id, "counter", "add", 2), Why::OtherVersion),
            (call(id, "counter", "grow", 1), Why::NoPart),
            (call(id, "lease", "add", 1), Why::NoPart),
            (call(granted.lease, "counter", "add", 1), Why::NoResource),
            (call(!id, "counter", "add", 1), Why::NoResource),
            (call(id, "memory", "read", 1), Why::BadInput),
            (Operation::Destroy { id: granted.lease, kind: "lease".to_owned() }, Why::NoPart),
            (each("counter", 1, one[1..].to_vec()), Why::Unreadable),
            (each("counter", 1, one.repeat(4097)), Why::Unreadable),
            (each("counter", 2, one.clone()), Why::OtherVersion),
            (each("lease", 1, one.clone()), Why::NoPart),
            (Operation::List { pattern: "[".to_owned(), after: None }, Why::BadInput),
            (
                Operation::Open { kind: "counter".to_owned(), unique: "a/b".to_owned() },
                Why::BadInput,
            ),
        ]) {
            let operations = vec![(serial, operation)];
            let (lease, open) = (granted.lease, vec![]);
            let request = Request { life: 0, lease, key: 5, first: 1, open, operations };
            assert_eq!(ask(message(&request)).await, why, "{request:?}");
        }
        // A repeated one has the answer of the first, whatever it says now.
        let again = Request {
            life: 0,
            lease: granted.lease,
            key: 5,
            first: 1,
            open: vec![],
            operations: vec![(1, add())],
        };
        assert_eq!(ask(message(&again)).await, Why::OtherVersion);
        let operations = vec![(u64::MAX, each("counter", 1, one))];
        let beyond = Request { operations, ..again.clone() };
        assert_eq!(ask(message(&beyond)).await, Why::Unreadable, "it has no serial for its call");
        let before = Request { first: 20, ..again };
        assert_eq!(ask(message(&before)).await, Why::Forgotten);
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 0);
        drop(interface);
    });
}

#[test]
fn a_lease_ends_with_its_client_and_is_renewed_by_one_that_lives() {
    let nats = NatsServer::start();
    let interface = interface(1);
    let leases = kumiki_resource::Pattern::new("*/lease/*").unwrap();
    let server = server(&nats.url(), "m").leases(Duration::from_millis(200));
    let served = server.serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    block_on(async {
        let watcher = client(&nats.url()).await;
        for _ in 0..20 {
            client(&nats.url()).await.create::<Counter>(&place, None, 0).await.unwrap();
        }
        let end = Instant::now() + PATIENCE;
        while !interface.ls(&leases).unwrap().is_empty() {
            assert!(Instant::now() < end, "leases of clients that are gone stay");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // One whose lease has ended while it did nothing gets another one, and runs once.
        let counter = watcher.create::<Counter>(&place, None, 0).await.unwrap();
        while !interface.ls(&leases).unwrap().is_empty() {
            assert!(Instant::now() < end);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(watcher.call::<Add>(&counter, 1).await.unwrap(), 1);
    });
}

/// Threads and descriptors of this process.
fn held() -> (usize, usize) {
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

const ALONE: &str = "KUMIKI_TEST_ALONE";

/// In a process of its own: threads and descriptors of other tests come and go.
#[test]
fn ten_thousand_clients_of_which_half_vanish_leave_nothing() {
    if std::env::var_os(ALONE).is_some() {
        return vanish();
    }
    let name = "faults::ten_thousand_clients_of_which_half_vanish_leave_nothing";
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn vanish() {
    const CLIENTS: usize = 10_000;
    let nats = NatsServer::start();
    let interface = interface(1);
    let server = server(&nats.url(), "m").leases(Duration::from_secs(10));
    let served = server.serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    block_on(async {
        // One connection for all: a client is its lease.
        let all = async_nats::connect(nats.url()).await.unwrap();
        let subject = subject(&all, &place).await;
        let ask = async |lease, key, operations| {
            let request = Request { life: 0, lease, key, first: 1, open: vec![], operations };
            let mut bytes = vec![wire::VERSION];
            bytes.extend(rmp_serde::to_vec(&request).unwrap());
            let request = async_nats::Request::new().payload(bytes.into()).timeout(Some(PATIENCE));
            let reply = all.send_request(subject.clone(), request).await.unwrap();
            wire::parse::<Reply>(&reply.payload).unwrap().answers
        };
        let hello = async |key: u64| {
            let hello = Operation::Hello { key, client: format!("client-{key}") };
            let answers = ask(0, 0, vec![(0, hello)]).await;
            let answer = answers[0].as_ref().unwrap();
            let granted: wire::Granted = rmp_serde::from_slice(answer).unwrap();
            // An answer that is kept for it.
            let spec = Bytes::from_static(&[7]);
            let (kind, version, unique) = ("counter".to_owned(), 1, None);
            let create = Operation::Create { kind, version, unique, spec };
            ask(granted.lease, key, vec![(1, create)]).await[0].as_ref().unwrap();
            (granted.lease, key)
        };
        hello(u64::MAX).await;
        let before = held();
        let mut clients = Vec::new();
        for from in (1..=CLIENTS as u64).step_by(500) {
            let some = (from..from + 500).map(&hello);
            clients.extend(futures_util::future::join_all(some).await);
        }
        let leases = || {
            let pattern = kumiki_resource::Pattern::new("*/lease/*").unwrap();
            let listed = interface.ls(&pattern).unwrap();
            (listed.len(), listed.iter().map(|lease| lease.about.bytes).sum::<u64>())
        };
        let (_, bytes) = leases();
        assert!(bytes <= 128 * CLIENTS as u64, "{bytes} bytes of answers");
        // Half of them go on until the others' leases have gone.
        let (living, _) = clients.split_at(CLIENTS / 2);
        let end = Instant::now() + PATIENCE;
        while leases().0 > CLIENTS / 2 {
            assert!(Instant::now() < end, "{} leases stay", leases().0);
            for some in living.chunks(500) {
                let renewed = some.iter().map(|(lease, key)| ask(*lease, *key, vec![]));
                futures_util::future::join_all(renewed).await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        while leases().0 > 0 {
            assert!(Instant::now() < end, "{} leases stay", leases().0);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(leases().1, 0);
        let after = held();
        assert!(after.0 <= before.0 && after.1 <= before.1, "{before:?}, then {after:?}");
    });
}

/// Holds its owner's thread until a file is there, and notes that it has run.
struct Hold;

impl kumiki_places::Part for Hold {
    type Kind = Counter;
    const NAME: &'static str = "hold";
    type In = String;
    type Out = i64;
}

impl kumiki_places::Run for Hold {
    fn run(counter: &mut Counter, (): &mut (), path: String) -> i64 {
        counter.0 += 1;
        let end = Instant::now() + PATIENCE;
        while !std::path::Path::new(&path).exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        counter.0
    }
}

#[test]
fn a_place_that_its_server_cuts_as_a_slow_consumer_comes_back_and_answers_once() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // A monitor's port that is free.
    let monitor = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!("max_pending: 2MB\nwrite_deadline: \"200ms\"\nhttp: \"{monitor}\"\n");
    std::fs::write(path("config"), text).unwrap();
    let nats = NatsServer::start_with(&["-c", &path("config")]);
    let parts = kumiki_places::standard::parts().part::<Hold>();
    // The thread that hears requests is held, so that it does not read.
    let (_interface, _served, place) = managing(server(&nats.url(), "m").parts(parts)).unwrap();
    let slow_consumers = || {
        let mut stream = std::net::TcpStream::connect(monitor).unwrap();
        stream.write_all(b"GET /varz HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<serde_json::Value>(body).unwrap()["slow_consumers"].as_u64().unwrap()
    };
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let flood = async {
            let stranger = async_nats::connect(nats.url()).await.unwrap();
            let end = Instant::now() + PATIENCE;
            while slow_consumers() == 0 {
                assert!(Instant::now() < end, "its server does not cut it");
                let noise = Bytes::from(vec![0; 500_000]);
                stranger.publish(format!("kumiki.place.{place}"), noise).await.unwrap();
                stranger.flush().await.unwrap();
            }
            std::fs::write(path("go"), "").unwrap();
        };
        let (held, ()) = tokio::join!(client.call::<Hold>(&counter, path("go")), flood);
        assert_eq!(held.unwrap(), 1);
        // What the flood has left may have it cut once more.
        let end = Instant::now() + PATIENCE;
        let value = loop {
            match client.call::<Get>(&counter, ()).await {
                Err(Error::Gone { .. }) if Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                value => break value.unwrap(),
            }
        };
        assert_eq!(value, 1, "it has run once");
    });
}
