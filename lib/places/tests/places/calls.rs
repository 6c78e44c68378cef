//! Resources of another place: made, called, found, destroyed.

use kumiki_places::standard::{Add, Counter, Get, Read, Stretch, Write, Written, parts};
use kumiki_places::wire::Why;
use kumiki_places::{Allow, Choice, Error, Nats, Server};
use kumiki_resource::{Memory, Name, Rights};

use crate::nats::NatsServer;
use crate::scene::{PATIENCE, block_on, client, interface, machine, managed, server};

fn refused(error: &Error) -> Why {
    match error {
        Error::Refused { why, .. } => *why,
        other => panic!("{other}"),
    }
}

#[test]
fn a_resource_of_another_place_is_used_as_one_s_own() {
    let nats = NatsServer::start();
    let (interface, _served, place) = machine(&nats.url(), "hostb");
    let core = interface.place_name(interface.places()[0]).unwrap();
    assert_eq!(place, format!("hostb.{core}"));
    block_on(async {
        let client = client(&nats.url()).await;
        let hits = client.create::<Counter>(&place, Some("hits"), 41).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 42);
        // Whoever is on the other machine sees the same one.
        let name = Name::new(&core, "counter", "hits").unwrap();
        let here = interface.open::<Counter>(&name).unwrap();
        assert_eq!(interface.with(&here, |counter, ()| counter.0).unwrap(), 42);

        let name: Name = format!("{place}/counter/hits").parse().unwrap();
        let opened = client.open::<Counter>(&name).await.unwrap();
        assert_eq!(client.call::<Get>(&opened, ()).await.unwrap(), 42);
        // As by a name on one's own core: to use, not to destroy.
        let error = client.destroy(opened).await.unwrap_err();
        assert!(matches!(error, Error::Rights { .. }), "{error}");
        let weak = hits.share(Rights::empty()).unwrap();
        assert!(matches!(client.call::<Get>(&weak, ()).await, Err(Error::Rights { .. })));

        let listed = client.ls(&place, "*/counter/*").await.unwrap();
        let names: Vec<_> = listed.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, [name.to_string()]);
        assert_eq!((listed[0].id, listed[0].about.state.as_str()), (hits.id(), "42"));

        let taken = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap_err();
        assert_eq!(refused(&taken), Why::Taken, "{taken}");
        assert!(taken.to_string().contains("counter/hits exists already"), "{taken}");
        let twin = hits.clone();
        client.destroy(hits).await.unwrap();
        let stale = client.call::<Get>(&twin, ()).await.unwrap_err();
        assert_eq!(refused(&stale), Why::Stale, "{stale}");
        let absent = client.open::<Counter>(&name).await.unwrap_err();
        assert_eq!(refused(&absent), Why::NotFound, "{absent}");
    });
}

#[test]
fn the_thread_that_hears_requests_may_manage_the_place() {
    let nats = NatsServer::start();
    let (its, served, place) = managed(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, Some("a"), 1).await.unwrap();
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 2);
        // Threads of its own process ask it as ever.
        let core = its.place_name(its.places()[0]).unwrap();
        let here = its.open::<Counter>(&Name::new(&core, "counter", "a").unwrap()).unwrap();
        assert_eq!(its.with(&here, |counter, ()| counter.0).unwrap(), 2);
        drop(served);
        // With the thread its place is gone.
        assert!(its.with(&here, |counter, ()| counter.0).is_err());
    });
    // A place that somebody else manages is not taken.
    let error = server(&nats.url(), "m").managing().serve(&interface(1)).unwrap_err();
    assert!(error.to_string().contains("wants a manager"), "{error}");
}

#[test]
fn bytes_go_into_another_machine_s_memory_and_come_back() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let memory = client.create::<Memory>(&place, None, 2).await.unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        let written = Written { frame: 1, at: 4096 - 256, bytes: bytes.clone().into() };
        client.call::<Write>(&memory, written.clone()).await.unwrap().unwrap();
        let stretch = Stretch { frame: 1, at: 4096 - 256, bytes: 256 };
        assert_eq!(client.call::<Read>(&memory, stretch).await.unwrap().unwrap(), bytes);
        for wrong in [
            Stretch { frame: 2, ..stretch },
            Stretch { at: 4096 - 255, ..stretch },
            Stretch { at: usize::MAX, ..stretch },
        ] {
            let said = client.call::<Read>(&memory, wrong).await.unwrap().unwrap_err();
            assert!(said.contains("2 frames of 4096 bytes"), "{said}");
        }
        client.call::<Write>(&memory, Written { at: 3841, ..written }).await.unwrap().unwrap_err();
        client.destroy(memory).await.unwrap();
    });
}

#[test]
fn many_are_made_at_once_and_each_has_its_outcome() {
    let nats = NatsServer::start();
    let (interface, _served, place) = machine(&nats.url(), "hostb");
    block_on(async {
        let client = client(&nats.url()).await;
        client.create::<Counter>(&place, Some("n4000"), 7).await.unwrap();
        // More than one message has room for.
        let wishes = (0..10_000).map(|number| (Some(format!("n{number}")), number));
        let made = client.create_each::<Counter>(&place, wishes).await;
        assert_eq!(made.len(), 10_000);
        for (number, one) in made.iter().enumerate() {
            match one {
                Ok(_) => assert_ne!(number, 4000),
                Err(error) => assert_eq!((number, refused(error)), (4000, Why::Taken)),
            }
        }
        for number in [0, 3999, 4001, 9999] {
            let value = client.call::<Get>(made[number].as_ref().unwrap(), ()).await.unwrap();
            assert_eq!(value, number as i64);
        }
        let names = interface.ls(&kumiki_resource::Pattern::new("*/counter/*").unwrap()).unwrap();
        assert_eq!(names.len(), 10_000);
        assert!(client.create_each::<Counter>(&place, []).await.is_empty());
        let unnamed = client.create_each::<Counter>(&place, [(None, 1), (None, 2)]).await;
        assert!(unnamed.iter().all(Result::is_ok));
    });
}

#[test]
fn a_batch_has_its_answers_in_its_order() {
    let nats = NatsServer::start();
    let one = machine(&nats.url(), "one");
    let two = machine(&nats.url(), "two");
    block_on(async {
        let client = client(&nats.url()).await;
        let mut counters = Vec::new();
        for n in 0..10 {
            let place = if n % 3 == 0 { &one.2 } else { &two.2 };
            counters.push(client.create::<Counter>(place, None, n * 1000).await.unwrap());
        }
        // More than a request may have for one of them, and one that is refused in the middle.
        let weak = counters[4].share(Rights::empty()).unwrap();
        let all: Vec<_> = (0..10_000_i64)
            .map(|n| if n == 5000 { (&weak, n) } else { (&counters[n as usize % 10], 1) })
            .collect();
        let sums = client.each::<Add>(all).await;
        assert_eq!(sums.len(), 10_000);
        for (n, sum) in (0..10_000_i64).zip(sums) {
            match sum {
                Ok(sum) => {
                    let refused = i64::from(n % 10 == 0 && n > 5000);
                    assert_eq!(sum, n % 10 * 1000 + n / 10 + 1 - refused, "{n}");
                }
                Err(error) => {
                    assert!(n == 5000 && matches!(error, Error::Rights { .. }), "{n}: {error}");
                }
            }
        }
        let large = "a".repeat(300_000);
        let memory = client.create::<Memory>(&one.2, None, 1).await.unwrap();
        let big = Written { frame: 0, at: 0, bytes: large.into() };
        // Together they are more than a message may be.
        let all = client.each::<Write>((0..9).map(|_| (&memory, big.clone()))).await;
        assert_eq!(all.len(), 9);
        assert!(all.into_iter().all(|one| one.unwrap().is_err()), "beyond the frame");
    });
}

#[test]
fn answers_that_do_not_fit_into_one_reply_come_by_several() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let memory = client.create::<Memory>(&place, None, 1).await.unwrap();
        let stretch = Stretch { frame: 0, at: 0, bytes: 4096 };
        let read = client.each::<Read>((0..1000).map(|_| (&memory, stretch))).await;
        assert!(read.into_iter().all(|one| one.unwrap().unwrap().len() == 4096));
    });
}

#[test]
fn a_place_allows_what_its_list_says() {
    let nats = NatsServer::start();
    let interface = interface(1);
    let text = "[kind.counter]\ncreate = true\nparts = [\"add\"]\n";
    let allow = Allow::parse(text, &parts()).unwrap();
    let server = Server::new(Nats::at(nats.url()), "m").parts(parts()).allow(allow);
    let served = server.serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, Some("a"), 1).await.unwrap();
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 2);
        let name = format!("{place}/counter/a").parse().unwrap();
        for error in [
            client.call::<Get>(&counter, ()).await.unwrap_err(),
            client.ls(&place, "**").await.unwrap_err(),
            client.open::<Counter>(&name).await.unwrap_err(),
            client.create::<Memory>(&place, None, 1).await.map(|_| ()).unwrap_err(),
            client.destroy(counter).await.unwrap_err(),
        ] {
            assert_eq!(refused(&error), Why::NotAllowed, "{error}");
        }
        let offers = client.offers(&place).await.unwrap();
        let allowed: Vec<_> = offers.iter().filter(|offer| offer.allowed).collect();
        assert_eq!(allowed.len(), 2, "{allowed:?}");
    });
}

#[test]
fn places_are_found_by_nats_own_service_protocol() {
    let nats = NatsServer::start();
    block_on(async {
        assert_eq!(client(&nats.url()).await.places().await.unwrap(), []);
    });
    let one = machine(&nats.url(), "one");
    let two = machine(&nats.url(), "two");
    block_on(async {
        let client = client(&nats.url()).await;
        // One to its name, one to its life.
        client.offers(&one.2).await.unwrap();
        client.create::<Counter>(&one.2, None, 0).await.unwrap();
        let end = tokio::time::Instant::now() + PATIENCE;
        // A request is counted after its answer has gone.
        loop {
            let seen = client.places().await.unwrap();
            let names: Vec<_> = seen.iter().map(|seen| seen.place.as_str()).collect();
            assert_eq!(names, [one.2.as_str(), two.2.as_str()]);
            if seen[0].requests >= 2 && seen[0].busy_ns > 0 {
                break;
            }
            assert!(tokio::time::Instant::now() < end, "{seen:?}");
        }
        drop(one);
        let seen = client.places().await.unwrap();
        assert_eq!(seen.len(), 1, "{seen:?}");
    });
}

#[test]
fn a_resource_is_made_at_whichever_place_or_the_least_loaded() {
    let nats = NatsServer::start();
    let (_a, _served_a, a) = machine(&nats.url(), "a");
    let (_b, _served_b, b) = machine(&nats.url(), "b");
    // One that allows nothing is passed over.
    let its = interface(1);
    let nothing = Server::new(Nats::at(nats.url()), "c").parts(parts()).allow(Allow::nothing());
    let _served_c = nothing.serve(&its).unwrap();
    block_on(async {
        let client = client(&nats.url()).await;
        let busy = client.create::<Counter>(&a, None, 0).await.unwrap();
        let mut places = client.choose("*.core*", Choice::Any).await.unwrap();
        places.sort();
        assert_eq!(places.len(), 3);
        let end = tokio::time::Instant::now() + PATIENCE;
        // Until a beat has told that a is busy.
        loop {
            for _ in 0..200 {
                client.call::<Add>(&busy, 1).await.unwrap();
            }
            let order = client.choose("[ab].*", Choice::LeastLoaded).await.unwrap();
            if order == [b.clone(), a.clone()] {
                break;
            }
            assert!(tokio::time::Instant::now() < end, "{order:?}");
        }
        let made =
            client.create_among::<Counter>("[abc].*", Choice::LeastLoaded, Some("x"), 1).await;
        assert!([&*a, &*b].contains(&made.unwrap().place()));
        let made = client.create_among::<Counter>("b.*", Choice::Any, Some("y"), 1).await.unwrap();
        assert_eq!(made.place(), b);
        let none = client.create_among::<Counter>("nobody.*", Choice::Any, None, 1).await;
        assert!(matches!(none, Err(Error::Gone { .. })), "{none:?}");
        let refused =
            client.create_among::<Counter>("c.*", Choice::Any, None, 1).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { why: Why::NotAllowed, .. }), "{refused}");
        // A name that is taken there is the caller's affair.
        let taken =
            client.create_among::<Counter>("b.*", Choice::Any, Some("y"), 1).await.unwrap_err();
        assert!(matches!(taken, Error::Refused { why: Why::Taken, .. }), "{taken}");
    });
}

#[test]
fn a_place_that_has_no_memory_of_its_share_left_is_passed_over() {
    let nats = NatsServer::start();
    let (first, _served, full) = machine(&nats.url(), "full");
    let (_second, _served, other) = machine(&nats.url(), "other");
    first.limit::<Memory>(first.places()[0], 2 * 4096).unwrap();
    block_on(async {
        let client = client(&nats.url()).await;
        let two = client.create::<Memory>(&full, Some("two"), 2).await.unwrap();
        let error = client.create::<Memory>(&full, None, 1).await.unwrap_err();
        assert_eq!(refused(&error), Why::Full, "{error}");
        assert!(error.to_string().contains("share of 8192"), "{error}");
        // Whichever is asked first.
        for _ in 0..8 {
            let made = client.create_among::<Memory>("*.*", Choice::Any, None, 1).await.unwrap();
            assert_eq!(made.place(), other);
        }
        client.destroy(two).await.unwrap();
        client.create::<Memory>(&full, None, 2).await.unwrap();
    });
}

#[test]
fn a_name_that_was_called_is_called_by_one_request_until_it_is_another_resource() {
    let nats = NatsServer::start();
    let (_interface, served, place) = managed(&nats.url(), "named");
    block_on(async {
        let client = client(&nats.url()).await;
        let name: Name = format!("{place}/counter/hits").parse().unwrap();
        client.create_named(&name, &41.into()).await.unwrap();
        assert_eq!(client.call_named(&name, "add", &1.into()).await.unwrap(), 42);
        let requests = async || {
            let places = client.places().await.unwrap();
            places.iter().find(|seen| seen.place == place).unwrap().requests
        };
        let before = requests().await;
        for sum in 43..=52 {
            assert_eq!(client.call_named(&name, "add", &1.into()).await.unwrap(), sum);
        }
        let asked = requests().await - before;
        assert!((10..20).contains(&asked), "{asked} requests for ten calls");
        // The same name, and another resource.
        client.destroy_named(&name).await.unwrap();
        let error = client.call_named(&name, "add", &1.into()).await.unwrap_err();
        assert_eq!(refused(&error), Why::NotFound, "{error}");
        client.create_named(&name, &0.into()).await.unwrap();
        assert_eq!(client.call_named(&name, "add", &1.into()).await.unwrap(), 1);
        assert_eq!(client.call_named(&name, "get", &().into()).await.unwrap(), 1);
        // Another life of the place.
        drop((served, _interface));
        let (_interface, _served, _) = managed(&nats.url(), "named");
        client.create_named(&name, &7.into()).await.unwrap();
        assert_eq!(client.call_named(&name, "add", &1.into()).await.unwrap(), 8);
    });
}
