//! Connections of clients' own beside the NATS server: who is let in, and that calls run once by whichever way they go.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::{self, DirectOffer, Operation, Reply, Request};
use kumiki_places::{Client, Control, Error, Nats, Served, Server};
use kumiki_places_wire::transport::direct::dial;
use kumiki_places_wire::transport::near::Sent;
use kumiki_resource::Interface;
use tokio::time::{Instant, sleep};

use crate::nats::{Line, NatsServer};
use crate::scene::{Other, PATIENCE, block_on, client, interface, managing, server, stay, subject};

/// An address of this machine with a port that is free, or any.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A port that nobody has.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind(local(0)).unwrap().local_addr().unwrap().port()
}

/// Waits until calls of a place go by an own connection, or no more.
pub(crate) async fn has_direct(client: &Client, place: &str, has: bool) {
    let end = Instant::now() + PATIENCE;
    while client.has_direct(place) != has {
        assert!(Instant::now() < end, "{place} by its own connection: not {has}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// A place that listens, which clients reach by this line.
fn by_line(url: &str) -> (Interface, Served, String, Line) {
    let port = free_port();
    let line = Line::to_port(port);
    let server = server(url, "own").listening(local(port)).reached_at(local(line.port()));
    let (interface, served, place) = managing(server).unwrap();
    (interface, served, place, line)
}

const URL: &str = "KUMIKI_TEST_DIRECT_AT";

/// No test, but the process of the one below.
#[test]
fn a_machine_of_another_test() {
    let Ok(url) = std::env::var(URL) else { return };
    let _served = managing(server(&url, "far").listening(local(0))).unwrap();
    stay();
}

#[test]
fn a_process_that_listens_is_called_without_the_server_between_and_by_the_server_when_it_has_ended()
{
    let nats = NatsServer::start();
    let line = Line::to(&nats);
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let place = format!("far.core{cpu}");
    let start = || Other::start("direct::a_machine_of_another_test", &[(URL, &nats.url())]);
    let machine = start();
    block_on(async {
        let client = client(&line.url()).await;
        assert!(!client.has_direct(&place));
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        has_direct(&client, &place, true).await;
        // Nothing comes by the server, nor goes.
        line.down();
        sleep(Duration::from_millis(50)).await;
        for n in 1..=1000 {
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), n);
        }
        let sums = client.each::<Add>((0..300).map(|_| (&counter, 1))).await;
        assert_eq!(sums.into_iter().map(Result::unwrap).max(), Some(1300));
        line.up();
        // Killed, it is as dead as any place: what it had is gone, and the next one is another life.
        drop(machine);
        has_direct(&client, &place, false).await;
        let soon = client.with_timeout(Duration::from_secs(3));
        let gone = soon.call::<Add>(&counter, 1).await.unwrap_err();
        assert!(matches!(gone, Error::Gone { .. } | Error::Unknown { .. }), "{gone}");
        let _machine = start();
        let counter = client.create::<Counter>(&place, None, 7).await.unwrap();
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 7);
        has_direct(&client, &place, true).await;
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 8);
    });
}

#[test]
fn a_call_whose_connection_is_cut_is_asked_again_by_the_server_and_runs_once() {
    let nats = NatsServer::start();
    let (_interface, served, place, line) = by_line(&nats.url());
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        for n in 1..=40 {
            has_direct(&client, &place, true).await;
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 2 * n as i64 - 1);
            // In the middle of the request, of the answer, or between them.
            line.cut_after(n * 6);
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 2 * n as i64);
        }
        for n in 0..20 {
            has_direct(&client, &place, true).await;
            let before = client.call::<Get>(&counter, ()).await.unwrap();
            assert_eq!(before, 80 + 50 * n as i64);
            line.cut_after(n * 120);
            let sums = client.each::<Add>((0..50).map(|_| (&counter, 1))).await;
            let sums: Vec<_> = sums.into_iter().map(Result::unwrap).collect();
            assert_eq!(sums, (before + 1..=before + 50).collect::<Vec<_>>());
        }
        // Where it cannot be made, calls go on.
        line.cut_after(usize::MAX);
        line.down();
        has_direct(&client, &place, false).await;
        for n in 1..=10 {
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 1080 + n);
        }
        assert_eq!(served.figures()()[0].direct, 0);
        line.up();
        has_direct(&client, &place, true).await;
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 1090);
        assert_eq!(served.figures()()[0].direct, 1);
    });
}

/// What a place offers to who may publish to its subject.
async fn offer(nats: &async_nats::Client, place: &str) -> wire::Outcome {
    let subject = subject(nats, place).await;
    let operations = vec![(0, Operation::Direct)];
    let request = Request { life: 0, lease: 0, key: 0, first: 0, open: vec![], operations };
    let bytes = [&[wire::VERSION][..], &rmp_serde::to_vec(&request).unwrap()].concat();
    let reply = nats.request(subject, bytes.into()).await.unwrap();
    wire::parse::<Reply>(&reply.payload).unwrap().answers.remove(0)
}

#[test]
fn a_stranger_without_a_token_is_let_in_by_nobody() {
    use std::io::{Read, Write};
    let nats = NatsServer::start();
    let (_interface, served, place) =
        managing(server(&nats.url(), "own").listening(local(0))).unwrap();
    block_on(async {
        let own = async_nats::connect(nats.url()).await.unwrap();
        let offered = async || {
            let offered = offer(&own, &place).await.unwrap();
            rmp_serde::from_slice::<DirectOffer>(&offered).unwrap()
        };
        let good = offered().await;
        // No TLS, half of a greeting, and nothing at all.
        for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0, 200, 1], &[0; 4096], &[]] {
            let address = good.address.clone();
            let ends = tokio::task::spawn_blocking(move || {
                let mut stranger = std::net::TcpStream::connect(address).unwrap();
                stranger.set_read_timeout(Some(PATIENCE)).unwrap();
                let _ = stranger.write_all(said);
                // It may be told why by TLS, and then its connection ends.
                let _ = stranger.read_to_end(&mut Vec::new());
            });
            ends.await.unwrap();
        }
        // A token that was never given, one of another length, and one that was used.
        for token in [vec![1; 16], vec![], vec![1; 15], vec![1; 17], vec![1; 4096]] {
            let stranger = DirectOffer { token: token.into(), ..good.clone() };
            dial(&stranger).await.unwrap_err();
        }
        assert_eq!(served.figures()()[0].direct, 0);
        let one = dial(&good).await.unwrap();
        dial(&good).await.unwrap_err();
        // Who was let in may ask what NATS would let it ask, and a message that is none does not harm.
        assert!(matches!(one.ask(b"\x03\xc1").await, Sent::Answered(_)));
        assert_eq!(served.figures()()[0].direct, 1);
        // A second token that is none ends it.
        assert!(one.say(0, &[9; 16]).await);
        one.ended().await;
        // Others are not held up by any of it.
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        has_direct(&client, &place, true).await;
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 1);
    });
}

#[test]
fn a_place_that_does_not_listen_says_so_and_is_called_by_the_server() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = crate::scene::machine(&nats.url(), "m");
    block_on(async {
        let own = async_nats::connect(nats.url()).await.unwrap();
        let refused = offer(&own, &place).await.unwrap_err();
        assert!(refused.text.contains("listens to nobody"), "{}", refused.text);
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        for n in 1..=100 {
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), n);
        }
        assert!(!client.has_direct(&place));
    });
}

#[test]
fn who_answers_there_with_another_key_is_told_nothing() {
    let nats = NatsServer::start();
    let (port, other) = (free_port(), free_port());
    // Whoever is at the address that the first one tells is another place, with a key of its own.
    let told = server(&nats.url(), "own").listening(local(port)).reached_at(local(other));
    let (_interface, served, place) = managing(told).unwrap();
    let (_other, stranger, _) =
        managing(server(&nats.url(), "stranger").listening(local(other))).unwrap();
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let end = Instant::now() + Duration::from_millis(500);
        let mut n = 0;
        while Instant::now() < end {
            n += 1;
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), n);
            assert!(!client.has_direct(&place));
        }
        let why = client.why_not_direct(&place).unwrap();
        assert!(why.contains("another key") && why.contains(&other.to_string()), "{why}");
        assert_eq!(stranger.figures()()[0].direct + served.figures()()[0].direct, 0);
        assert_eq!(stranger.figures()()[0].messages, 0);
    });
}

#[test]
fn who_may_not_ask_by_the_server_any_more_has_its_connection_no_longer() {
    let nats = NatsServer::start();
    let line = Line::to(&nats);
    let holds = Duration::from_secs(2);
    let own = server(&nats.url(), "own").listening(local(0)).leases(holds);
    let (_interface, served, place) = managing(own).unwrap();
    block_on(async {
        let client = client(&line.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        has_direct(&client, &place, true).await;
        // As long as it may ask it holds, also where nothing is called.
        sleep(3 * holds).await;
        assert!(client.has_direct(&place));
        assert_eq!(served.figures()()[0].direct, 1);
        within(holds, async || {
            has_direct(&client, &place, true).await;
            line.down();
            let begin = Instant::now();
            let (mut calls, mut last) = (0, Duration::ZERO);
            while client.has_direct(&place) {
                // What is under way when it ends waits for the server.
                let soon = client.with_timeout(Duration::from_millis(500));
                if soon.call::<Add>(&counter, 1).await.is_ok() {
                    (calls, last) = (calls + 1, begin.elapsed());
                }
                assert!(begin.elapsed() < PATIENCE, "it has a connection without end");
            }
            line.up();
            // Who makes none sees nothing of it.
            if calls > 10 { last } else { Duration::MAX }
        })
        .await;
    });
}

/// Checks that something has ended within this time, by five tries: on a busy machine one sees it late, so that half of it is
/// added.
async fn within(limit: Duration, mut ended: impl AsyncFnMut() -> Duration) {
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(ended().await);
        if all.iter().any(|took| *took <= limit * 3 / 2) {
            return;
        }
    }
    panic!("it holds for longer than {limit:?}, at each try: {all:?}");
}

#[test]
fn a_token_that_was_kept_has_a_connection_hold_for_no_longer() {
    let nats = NatsServer::start();
    let holds = Duration::from_secs(1);
    let own = server(&nats.url(), "own").listening(local(0)).leases(holds);
    let (_interface, _served, place) = managing(own).unwrap();
    block_on(async {
        let own = async_nats::connect(nats.url()).await.unwrap();
        let offered = async || {
            let offered = offer(&own, &place).await.unwrap();
            rmp_serde::from_slice::<DirectOffer>(&offered).unwrap()
        };
        within(holds, async || {
            let near = dial(&offered().await).await.unwrap();
            let (kept, given) = (offered().await, Instant::now());
            sleep(holds * 3 / 4).await;
            assert!(near.say(0, &kept.token).await);
            near.ended().await;
            given.elapsed()
        })
        .await;
    });
}

#[test]
fn an_address_that_is_none_for_callers_is_refused() {
    let nats = NatsServer::start();
    let refused = |server: Server| server.serve(&interface(1)).unwrap_err().to_string();
    let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let said = refused(server(&nats.url(), "a").listening(all));
    assert!(said.contains("name the address by which they reach it"), "{said}");
    let taken = TcpListener::bind(local(0)).unwrap();
    let at = taken.local_addr().unwrap();
    let said = refused(server(&nats.url(), "a").listening(at));
    assert!(said.contains(&at.to_string()), "{said}");
    let said = refused(Server::here("a").listening(local(0)));
    assert!(said.contains("NATS"), "{said}");
    // At all of this machine's, reached by one.
    let served = server(&nats.url(), "a").listening(all).reached_at(local(0)).serve(&interface(1));
    let place = served.as_ref().unwrap().names()[0].to_owned();
    block_on(async {
        let client = Client::connect(&Nats::at(nats.url())).await.unwrap();
        client.create::<Counter>(&place, None, 0).await.unwrap();
        has_direct(&client, &place, true).await;
    });
}

#[test]
fn who_may_not_publish_to_the_place_gets_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let users = "authorization: {users: [
        {user: host, password: p},
        {user: may, password: p, permissions: {publish: \"kumiki.place.own.>\", subscribe: \"_INBOX.>\"}}
        {user: may_not, password: p, permissions: {publish: \"kumiki.place.other.>\", subscribe: \"_INBOX.>\"}}]}";
    let path = folder.path().join("nats.conf");
    std::fs::write(&path, users).unwrap();
    let nats = NatsServer::start_with(&["-c", path.to_str().unwrap()]);
    let at = |user: &str| nats.url().replace("//", &format!("//{user}:p@"));
    let (_interface, served, place) =
        managing(server(&at("host"), "own").listening(local(0))).unwrap();
    block_on(async {
        let stranger = client(&at("may_not")).await;
        let refused = stranger.create::<Counter>(&place, None, 0).await.unwrap_err();
        assert!(matches!(refused, Error::NotSent { .. }), "{refused}");
        let by = async |user: &str| {
            let options =
                async_nats::ConnectOptions::with_user_and_password(user.into(), "p".into());
            options.connect(nats.url()).await.unwrap()
        };
        let subject = subject(&by("host").await, &place).await;
        let its = by("may_not").await;
        let asked = its.request(subject, "".into());
        assert!(tokio::time::timeout(Duration::from_millis(300), asked).await.is_err());
        let client = client(&at("may")).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        has_direct(&client, &place, true).await;
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 1);
        assert!(!stranger.has_direct(&place));
        assert_eq!(served.figures()()[0].direct, 1);
    });
}

#[test]
fn a_control_goes_by_it_and_shows_it() {
    let nats = NatsServer::start();
    let (_interface, served, place) =
        managing(server(&nats.url(), "own").listening(local(0))).unwrap();
    let control = Control::builder().nats(Nats::at(nats.url())).build().unwrap();
    let counter = control.create::<Counter>(&place, None, 0).unwrap();
    let mut bound = control.bind::<Add>(&counter).unwrap();
    let (end, mut n) = (std::time::Instant::now() + PATIENCE, 0);
    while !format!("{control:?}").contains("own connection") {
        n += 1;
        assert_eq!(bound.call(1).unwrap(), n);
        assert!(std::time::Instant::now() < end, "{control:?}");
    }
    assert_eq!(served.figures()()[0].direct, 1);
    let all = control.each::<Add>((0..300).map(|_| (&counter, 1)));
    assert_eq!(all.into_iter().map(Result::unwrap).max(), Some(n + 300));
    // Nobody uses it any more, and it ends.
    drop((bound, control));
    while served.figures()()[0].direct > 0 {
        assert!(std::time::Instant::now() < end, "it is there without a client");
        std::thread::sleep(Duration::from_millis(5));
    }
}
