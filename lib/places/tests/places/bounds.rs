//! What one sender can take of a place: leases, and time for one message.

use bytes::Bytes;
use kumiki_places::standard::{Add, Counter};
use kumiki_places::wire::{self, Granted, Operation, Reply, Request, Why};
use kumiki_places::{Allow, Client, MOST_UNUSED, Nats, Server};
use kumiki_resource::{Interface, Pattern};

use crate::nats::NatsServer;
use crate::scene::{PATIENCE, block_on, client, interface, machine, subject};

fn message(lease: u64, key: u64, operations: Vec<(u64, Operation)>) -> Vec<u8> {
    let request = Request { life: 0, lease, key, first: 1, open: vec![], operations };
    [&[wire::VERSION][..], &rmp_serde::to_vec(&request).unwrap()].concat()
}

fn hello() -> Operation {
    Operation::Hello { key: 5, client: "many".to_owned() }
}

fn leases(interface: &Interface) -> usize {
    interface.ls(&Pattern::new("*/lease/*").unwrap()).unwrap().len()
}

async fn ask(stranger: &async_nats::Client, place: &str, message: Vec<u8>) -> Reply {
    let subject = subject(stranger, place).await;
    let reply = stranger.request(subject, message.into()).await.unwrap();
    wire::parse(&reply.payload).unwrap()
}

#[test]
fn who_uses_no_lease_takes_none_from_others() {
    let nats = NatsServer::start();
    let (interface, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let before = client(&nats.url()).await;
        let counter = before.create::<Counter>(&place, None, 0).await.unwrap();
        let own = leases(&interface);
        let stranger = async_nats::connect(nats.url()).await.unwrap();
        // One lease for one message, whatever that asks for.
        let all = message(0, 0, vec![(0, hello()); 4096]);
        let reply = ask(&stranger, &place, all).await;
        let granted = reply.answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!((granted, reply.answers.len(), leases(&interface)), (1, 4096, own + 1));
        for _ in 0..2 * MOST_UNUSED {
            ask(&stranger, &place, message(0, 0, vec![(0, hello())])).await;
        }
        assert_eq!(leases(&interface), own + MOST_UNUSED);
        // An operation that is no use of one: the place has no such part.
        let grants = ask(&stranger, &place, message(0, 0, vec![(0, hello())])).await;
        let grants: Granted = rmp_serde::from_slice(grants.answers[0].as_ref().unwrap()).unwrap();
        let call = Operation::Call {
            id: counter.id().to_u64(),
            kind: "counter".to_owned(),
            part: "no such".to_owned(),
            version: 1,
            input: Bytes::from_static(&[1]),
        };
        let refused = ask(&stranger, &place, message(grants.lease, 5, vec![(1, call)])).await;
        assert_eq!(refused.answers[0].as_ref().unwrap_err().why, Why::NoPart as u16);
        for _ in 0..MOST_UNUSED {
            ask(&stranger, &place, message(0, 0, vec![(0, hello())])).await;
        }
        let ended = ask(&stranger, &place, message(grants.lease, 5, vec![])).await;
        assert_eq!(ended.answers[0].as_ref().unwrap_err().why, Why::NoLease as u16);
        // Who has used one keeps it, and others are let in.
        assert_eq!(before.call::<Add>(&counter, 1).await.unwrap(), 1);
        let after = client(&nats.url()).await;
        assert_eq!(after.call::<Add>(&counter, 1).await.unwrap(), 2);
        assert!(leases(&interface) <= own + MOST_UNUSED + 1);
    });
}

/// Each answered by a client of ours, in as many messages as it takes.
#[test]
fn one_message_s_questions_hold_a_place_for_a_moment_and_no_longer() {
    let nats = NatsServer::start();
    let interface = interface(1);
    let server = Server::new(Nats::at(nats.url()), "m").allow(Allow::listing());
    let served = server.serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    let own = interface.places()[0];
    let held: Vec<_> =
        (0..1000).map(|_| interface.create::<Counter>(own, None, 0).unwrap()).collect();
    block_on(async {
        let stranger = async_nats::connect(nats.url()).await.unwrap();
        let list = Operation::List { pattern: "none/*/*".to_owned(), after: None };
        let mut left = 96;
        let mut messages = 0;
        while left > 0 {
            let reply = ask(&stranger, &place, message(0, 0, vec![(0, list.clone()); left])).await;
            let later = |answer: &wire::Outcome| {
                answer.as_ref().is_err_and(|refusal| refusal.why == Why::AskAgain as u16)
            };
            let later = reply.answers.iter().filter(|answer| later(answer)).count();
            assert!(later < left, "it goes on with each message");
            assert_eq!(reply.answers.len(), left);
            (left, messages) = (later, messages + 1);
        }
        assert!(messages > 4, "{messages} messages have looked at a hundred thousand names");
        // A pattern that could be matched in ever more ways, and is by none.
        let client = Client::connect(&Nats::at(nats.url())).await.unwrap().with_timeout(PATIENCE);
        let pattern = format!("{}z/**", "*?".repeat(100));
        assert!(client.ls(&place, &pattern).await.unwrap().is_empty());
        client.ls(&place, &"*".repeat(1025)).await.unwrap_err();
    });
    drop(held);
}

/// More names than one message has room for are listed by several.
#[test]
fn a_place_with_any_number_of_names_is_listed() {
    const NAMES: usize = 12_000;
    let nats = NatsServer::start();
    let (interface, _served, place) = machine(&nats.url(), "m");
    let own = interface.places()[0];
    let held: Vec<_> = (0..NAMES)
        .map(|n| interface.create::<Counter>(own, Some(&format!("c{n}")), 0).unwrap())
        .collect();
    block_on(async {
        let client = client(&nats.url()).await;
        let listed = client.ls(&place, "**/counter/*").await.unwrap();
        assert_eq!(listed.len(), NAMES);
        assert!(listed.windows(2).all(|two| two[0].name < two[1].name));
        let some = client.ls(&place, "**/counter/c1234").await.unwrap();
        assert_eq!(some.len(), 1);
    });
    drop(held);
}
