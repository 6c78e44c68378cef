//! Batches whose calls take a word each, whatever they give.

use kumiki_places::standard::{Add, Counter, Get, parts};
use kumiki_places::wire::{Operation, Why};
use kumiki_places::{Allow, Error, Nats, Part, Run, Server};

use crate::nats::NatsServer;
use crate::scene::{block_on, client, managing};

/// Gives so many bytes, none for an even number, and panics below zero.
struct Bytes;

impl Part for Bytes {
    type Kind = Counter;
    const NAME: &'static str = "bytes";
    type In = i64;
    type Out = Option<String>;
}

impl Run for Bytes {
    fn run(counter: &mut Counter, (): &mut (), bytes: i64) -> Option<String> {
        counter.0 += 1;
        assert!(bytes >= 0, "fewer than none");
        (bytes % 2 == 1).then(|| "a".repeat(bytes as usize))
    }
}

#[test]
fn words_bytes_and_refusals_come_in_one_order() {
    let nats = NatsServer::start();
    let server = Server::new(Nats::at(nats.url()), "m").parts(parts().part::<Bytes>());
    let (_interface, _served, place) = managing(server.allow(Allow::everything())).unwrap();
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let gone = client.create::<Counter>(&place, None, 0).await.unwrap();
        let stale = gone.clone();
        client.destroy(gone).await.unwrap();
        let why = |error: &Error| match error {
            Error::Refused { why, .. } => *why,
            other => panic!("{other}"),
        };
        // Some words, some bytes, one that panics, one that is stale.
        let all = [(&counter, 2), (&counter, 3), (&counter, -1), (&stale, 4), (&counter, 5)];
        let given = client.each::<Bytes>(all).await;
        assert_eq!(given[0].as_ref().unwrap(), &None);
        assert_eq!(given[1].as_ref().unwrap().as_deref(), Some("aaa"));
        let panicked = given[2].as_ref().unwrap_err();
        assert_eq!(why(panicked), Why::Panicked);
        assert!(panicked.to_string().contains("fewer than none"), "{panicked}");
        assert_eq!(why(given[3].as_ref().unwrap_err()), Why::Stale);
        assert_eq!(given[4].as_ref().unwrap().as_deref(), Some("aaaaa"));
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 4);
        // Together they are many replies, and each has run once.
        let given = client.each::<Bytes>((0..5000).map(|_| (&counter, 1001))).await;
        assert!(given.into_iter().all(|one| one.unwrap().unwrap().len() == 1001));
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 5004);
        // One that finds room in no message has run, and says so; the others come.
        let given = client.each::<Bytes>([(&counter, 2_000_001), (&counter, 1)]).await;
        assert_eq!(why(given[0].as_ref().unwrap_err()), Why::AnswerTooLarge);
        assert_eq!(given[1].as_ref().unwrap().as_deref(), Some("a"));
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 5006);
        let (kind, part, calls) = ("counter".to_owned(), "add".to_owned(), Default::default());
        let batch = Operation::Each { kind, part, version: 1, calls };
        let error = client.ask(&place, batch).await.unwrap_err();
        assert!(matches!(error, Error::Value { .. }), "{error}");
    });
}

/// Panics with what panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb");
    }
}

/// Counts, and throws a bomb for 2.
struct Throw;

impl Part for Throw {
    type Kind = Counter;
    const NAME: &'static str = "throw";
    type In = i64;
    type Out = i64;
}

impl Run for Throw {
    fn run(counter: &mut Counter, (): &mut (), which: i64) -> i64 {
        counter.0 += 1;
        if which == 2 {
            std::panic::panic_any(Bomb);
        }
        counter.0
    }
}

#[test]
fn a_panic_whose_payload_panics_is_one_call_s_own() {
    let nats = NatsServer::start();
    let server = Server::new(Nats::at(nats.url()), "m").parts(parts().part::<Throw>());
    let (_interface, _served, place) = managing(server.allow(Allow::everything())).unwrap();
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let given = client.each::<Throw>([(&counter, 1), (&counter, 2), (&counter, 3)]).await;
        let given: Vec<_> = given.into_iter().map(Result::ok).collect();
        assert_eq!(given, [Some(1), None, Some(3)]);
        client.call::<Throw>(&counter, 2).await.unwrap_err();
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 4, "each ran once");
    });
}

#[test]
fn a_batch_of_a_life_that_is_over_or_of_a_part_that_is_not_there_is_refused_whole() {
    let nats = NatsServer::start();
    let serve = || {
        let server = Server::new(Nats::at(nats.url()), "m").parts(parts());
        managing(server.allow(Allow::everything())).unwrap()
    };
    let (interface, served, place) = serve();
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let refused = |all: Vec<Result<_, Error>>, why| {
            assert_eq!(all.len(), 2);
            for one in all {
                let error = one.unwrap_err();
                assert!(
                    matches!(&error, Error::Refused { why: its, .. } if *its == why),
                    "{error}"
                );
            }
        };
        let given = client.each::<Bytes>([(&counter, 2), (&counter, 3)]).await;
        refused(given.into_iter().map(|one| one.map(drop)).collect(), Why::NoPart);
        drop((interface, served));
        let _second = serve();
        let given = client.each::<Add>([(&counter, 2), (&counter, 3)]).await;
        refused(given.into_iter().map(|one| one.map(drop)).collect(), Why::Stale);
    });
}
