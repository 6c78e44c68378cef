//! News of a place's names, and of the place.

use std::time::Duration;

use kumiki_places::standard::{Counter, parts};
use kumiki_places::wire::Why;
use kumiki_places::{Allow, Error, Nats, News, Server, Watch};

use crate::nats::{Line, NatsServer};
use crate::scene::{PATIENCE, block_on, client, interface, machine, managed};

pub(crate) async fn next(watch: &mut Watch) -> News {
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("news come")
}

/// The name that has come or gone.
pub(crate) async fn change(watch: &mut Watch) -> (String, bool) {
    match next(watch).await {
        News::Changed(change) => (change.name, change.created),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn life(watch: &mut Watch) -> u64 {
    match next(watch).await {
        News::Here { life } => life,
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_are_heard_of_as_they_come_and_go() {
    let nats = NatsServer::start();
    for (host, own_manager) in [("a", true), ("b", false)] {
        let made = if own_manager { managed } else { machine };
        let (its, _served, place) = made(&nats.url(), host);
        block_on(async {
            let client = client(&nats.url()).await;
            let before = client.create::<Counter>(&place, Some("before"), 0).await.unwrap();
            let pattern = format!("{place}/counter/*");
            let (mut first, mut second) = (
                client.watch(&place, &pattern).await.unwrap(),
                client.watch(&place, "**/counter/n*").await.unwrap(),
            );
            assert_eq!(life(&mut first).await, life(&mut second).await);
            // By another machine, by its own process, and none that the pattern has not.
            let name = |unique: &str| format!("{place}/counter/{unique}");
            let made = client.create::<Counter>(&place, Some("new"), 0).await.unwrap();
            let at = its.places()[0];
            let own = its.create::<Counter>(at, Some("own"), 0).unwrap();
            client.destroy(before).await.unwrap();
            client.destroy(made).await.unwrap();
            its.destroy(own).unwrap();
            let heard =
                [("new", true), ("own", true), ("before", false), ("new", false), ("own", false)];
            for (unique, created) in heard {
                assert_eq!(change(&mut first).await, (name(unique), created));
            }
            for created in [true, false] {
                assert_eq!(change(&mut second).await, (name("new"), created));
            }
        });
    }
}

#[test]
fn a_thousand_names_are_heard_of_in_their_order() {
    let nats = NatsServer::start();
    let (its, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let mut watch = client.watch(&place, "**/counter/*").await.unwrap();
        life(&mut watch).await;
        let at = its.places()[0];
        for number in 0..1000 {
            its.create::<Counter>(at, Some(&format!("n{number}")), 0).unwrap();
        }
        for number in 0..1000 {
            let name = format!("{place}/counter/n{number}");
            assert_eq!(change(&mut watch).await, (name, true));
        }
    });
}

#[test]
fn a_place_that_ends_and_one_that_takes_its_name_are_told() {
    let nats = NatsServer::start();
    let (its, served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let mut watch = client.watch(&place, "**").await.unwrap();
        let before = life(&mut watch).await;
        drop((served, its));
        assert_eq!(next(&mut watch).await, News::Gone);
        assert!(matches!(client.watch(&place, "**").await, Err(Error::Gone { .. })));

        let (its, _served, _) = machine(&nats.url(), "m");
        let after = life(&mut watch).await;
        assert_ne!(before, after);
        its.create::<Counter>(its.places()[0], Some("new"), 0).unwrap();
        assert_eq!(change(&mut watch).await, (format!("{place}/counter/new"), true));
    });
}

#[test]
fn what_a_broken_line_has_swallowed_is_said() {
    let nats = NatsServer::start();
    let (its, _served, place) = machine(&nats.url(), "m");
    let line = Line::to(&nats);
    block_on(async {
        let client = client(&line.url()).await;
        let mut watch = client.watch(&place, "**/counter/*").await.unwrap();
        let here = life(&mut watch).await;
        let at = its.places()[0];
        // Down for long: nobody knows whether it is there.
        line.down();
        assert_eq!(next(&mut watch).await, News::Unheard);
        its.create::<Counter>(at, Some("while-down"), 0).unwrap();
        line.up();
        assert_eq!(life(&mut watch).await, here);
        // For short: told by the number of the next message, or of the next beat.
        line.down();
        let lost = its.create::<Counter>(at, Some("lost"), 0).unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        line.up();
        assert_eq!(next(&mut watch).await, News::Missed);
        its.destroy(lost).unwrap();
        assert_eq!(change(&mut watch).await, (format!("{place}/counter/lost"), false));
    });
}

#[test]
fn what_may_not_be_listed_is_not_told() {
    let nats = NatsServer::start();
    let its = interface(1);
    let server = Server::new(Nats::at(nats.url()), "m").parts(parts()).allow(Allow::nothing());
    let served = server.serve(&its).unwrap();
    let place = served.names()[0].to_owned();
    block_on(async {
        let client = client(&nats.url()).await;
        match client.watch(&place, "**").await.unwrap_err() {
            Error::Refused { why, .. } => assert_eq!(why, Why::NotAllowed),
            other => panic!("{other}"),
        }
        assert!(matches!(client.watch(&place, "[").await, Err(Error::Value { .. })));
    });
}
