//! Durable places that move to another folder, core and process, while their callers go on.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use kumiki_places::durable::Disk;
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::{self, LeaveStep, Operation, Reply, Request, Why};
use kumiki_places::{
    Allow, Client, Control, Error, Lease, Nats, Parts, Reference, Result, Served, Server,
};
use kumiki_resource::{Interface, Name};

use crate::disks::Held;
use crate::here::unique;
use crate::killed::{End, durable_at, ended, parts};
use crate::nats::NatsServer;
use crate::scene::{PATIENCE, block_on, managing};

fn cpus() -> Vec<usize> {
    kumiki_sys::affinity::current().unwrap().iter().collect()
}

/// Serves a place on this cpu and disk.
fn serve(cpu: usize, server: Server, disk: &Held) -> Result<(Interface, Served, String)> {
    let disk = disk.clone();
    durable_at(cpu, server, move |_| Ok(Arc::new(disk.clone()) as Arc<dyn Disk>))
}

#[test]
fn a_place_moves_and_its_callers_go_on_by_the_same_references() {
    ended(End::Moved, "moved", (20, 5000), false);
}

#[test]
fn nor_does_a_nats_server_between_them_lose_anything() {
    ended(End::Moved, "moved-nats", (5, 1000), true);
}

/// Counts by a control until it is told to end: by its reference, and by what was bound by name and by reference. Each
/// sum is one more than the one before.
fn counts(control: &Control, hits: &Reference<Counter>, over: &AtomicBool) -> i64 {
    let name: Name = format!("{}/counter/hits", hits.place()).parse().unwrap();
    let mut by_name = control.bind_name::<Add>(&name).unwrap();
    let mut by_reference = control.bind::<Add>(hits).unwrap();
    let mut sum = control.call::<Get>(hits, ()).unwrap();
    while !over.load(SeqCst) {
        for n in 0..3 {
            sum += 1;
            let until = Instant::now() + PATIENCE;
            // A place is waited for for a second, and a busy machine may take longer; nothing was done then.
            let now = loop {
                let now = match n {
                    0 => control.call::<Add>(hits, 1),
                    1 => by_name.call(1),
                    _ => by_reference.call(1),
                };
                match now {
                    Err(Error::Gone { .. }) if Instant::now() < until => {}
                    now => break now.unwrap(),
                }
            };
            assert_eq!(now, sum, "{n}");
        }
    }
    sum
}

#[test]
fn an_interface_control_and_what_it_has_bound_go_on_after_a_move() {
    let (name, cpus) = (unique("control"), cpus());
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let mut disk = Held::default();
    let (interface, served, place) = serve(first, Server::here(&name), &disk).unwrap();
    let mut serving = (interface, served);
    let control = Control::builder().build().unwrap().with_timeout(PATIENCE);
    let hits = control.create::<Counter>(&place, Some("hits"), 0).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counts = scope.spawn(|| counts(&control, &hits, &over));
        for round in 0..6 {
            std::thread::sleep(Duration::from_millis(20));
            let next = Held::default();
            block_on(async {
                let client = Client::here().with_timeout(PATIENCE);
                client.take_place(&place, &next, "next").await.unwrap();
            });
            drop(serving);
            disk = next;
            let cpu = [last, first][round % 2];
            let (interface, served, _) =
                serve(cpu, Server::here(&name).called(&*place), &disk).unwrap();
            serving = (interface, served);
        }
        std::thread::sleep(Duration::from_millis(20));
        over.store(true, SeqCst);
        let sum = counts.join().unwrap();
        assert!(sum >= 7 * 3, "{sum}");
        assert_eq!(control.call::<Get>(&hits, ()).unwrap(), sum);
    });
    assert_eq!(format!("{control:?}"), format!("{{{place:?}: \"messages\"}}"));
}

#[test]
fn a_control_finds_a_place_that_has_moved_from_a_socket_to_a_nats_server_and_back() {
    let (name, nats) = (unique("finds"), NatsServer::start());
    let cpu = cpus()[0];
    let (home, away, back) = (Held::default(), Held::default(), Held::default());
    let (interface, served, place) = serve(cpu, Server::here(&name), &home).unwrap();
    let builder = Control::builder().nats(Nats::at(nats.url()));
    let control = builder.build().unwrap().with_timeout(PATIENCE);
    let hits = control.create::<Counter>(&place, Some("hits"), 0).unwrap();
    let called: Name = format!("{place}/counter/hits").parse().unwrap();
    let mut by_name = control.bind_name::<Add>(&called).unwrap();
    let mut by_reference = control.bind::<Add>(&hits).unwrap();
    let mut sum = 0;
    let mut count = |control: &Control, first: usize| {
        // Whichever is first meets the old way.
        for n in 0..6 {
            sum += 1;
            let now = match (n + first) % 3 {
                0 => control.call::<Add>(&hits, 1),
                1 => by_name.call(1),
                _ => by_reference.call(1),
            };
            assert_eq!(now.unwrap(), sum, "{n}, first {first}");
        }
        let all = control.each::<Add>([(&hits, 1)]);
        sum += 1;
        assert_eq!(*all[0].as_ref().unwrap(), sum);
        let listed = control.list(&place, "**/counter/*").unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
    };
    count(&control, 0);
    block_on(async {
        let here = Client::here().with_timeout(PATIENCE);
        here.take_place(&place, &away, "away").await.unwrap();
    });
    drop((interface, served));
    let server = Server::new(Nats::at(nats.url()), &name);
    let (interface, served, _) = serve(cpu, server, &away).unwrap();
    count(&control, 1);

    block_on(async {
        let far = Client::connect(&Nats::at(nats.url())).await.unwrap().with_timeout(PATIENCE);
        far.take_place(&place, &back, "back").await.unwrap();
    });
    drop((interface, served));
    let (_interface, _served, _) = serve(cpu, Server::here(&name), &back).unwrap();
    count(&control, 2);
    assert_eq!(control.start::<Get>(&hits, ()).wait().unwrap(), 21);
}

#[test]
fn what_has_left_is_refused_in_its_former_folder_and_may_come_back() {
    let (name, cpus) = (unique("left"), cpus());
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let (home, away) = (Held::default(), Held::default());
    let (_interface, served, place) = serve(first, Server::here(&name), &home).unwrap();
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let hits = client.create::<Counter>(&place, Some("hits"), 40).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 41);
        client.take_place(&place, &away, "away").await.unwrap();
        let error = served.ended().unwrap();
        assert!(matches!(*error, Error::HandedOver { .. }), "{error}");
        drop(served);
        let error = serve(first, Server::here(&name), &home).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Moved { to, .. } if to == "away"), "{error}");
        // Its own core's former place would have its name.
        let error = serve(last, Server::here(&name).called("x.core0"), &away).map(|_| ());
        assert!(matches!(error.unwrap_err(), Error::NotDurable { .. }));

        let server = Server::here(&name).called(&*place);
        let (_interface, served, now) = serve(last, server, &away).unwrap();
        assert_eq!((&*now, served.restored()[0].resources), (&*place, 1));
        // The same reference; what is made here; each way in which an id goes.
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 42);
        let new = client.create::<Counter>(&place, Some("new"), 7).await.unwrap();
        assert_eq!(new.id().place(), hits.id().place());
        let opened: Name = format!("{place}/counter/new").parse().unwrap();
        assert_eq!(client.open::<Counter>(&opened).await.unwrap().id(), new.id());
        let all = client.each::<Add>([(&hits, 1), (&new, 1)]).await;
        let all: Vec<i64> = all.into_iter().map(|one| one.unwrap()).collect();
        assert_eq!(all, [43, 8]);
        let listed = client.ls(&place, &format!("{place}/*/*")).await.unwrap();
        let listed: Vec<_> = listed.into_iter().map(|one| (one.name, one.id)).collect();
        let name_of = |unique| format!("{place}/counter/{unique}");
        assert_eq!(listed, [(name_of("hits"), hits.id()), (name_of("new"), new.id())]);

        client.take_place(&place, &home, "home").await.unwrap();
        drop(served);
        let (_interface, served, _) = serve(first, Server::here(&name), &home).unwrap();
        assert_eq!(served.restored()[0].resources, 2);
        assert_eq!(client.call::<Get>(&hits, ()).await.unwrap(), 43);
        client.destroy(new).await.unwrap();
        drop(served);
        let server = Server::here(&name).called(&*place);
        let error = serve(last, server, &away).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Moved { to, .. } if to == "home"), "{error}");
    });
}

#[test]
fn a_place_whose_taker_vanishes_goes_on_and_is_not_taken_later() {
    let (name, disk) = (unique("vanishes"), Held::default());
    let (_interface, _served, place) = serve(cpus()[0], Server::here(&name), &disk).unwrap();
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        let step = |step| Operation::Leave { ticket: 7, step };
        let commit = || step(LeaveStep::Commit { to: "nowhere".to_owned() });
        let error = client.ask(&place, commit()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Full, .. }), "{error}");
        client.ask(&place, step(LeaveStep::Freeze)).await.unwrap();
        let other = Operation::Leave { ticket: 8, step: LeaveStep::Freeze };
        let error = client.ask(&place, other).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Taken, .. }), "{error}");
        // It stands still, and goes on by itself.
        let call = client.call::<Add>(&hits, 1);
        let early = tokio::time::timeout(Duration::from_millis(200), call).await;
        assert!(early.is_err(), "it answers while it stands still");
        let sum = client.call::<Add>(&hits, 1).await.unwrap();
        assert!(sum <= 2, "{sum}");
        let error = client.ask(&place, commit()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Full, .. }), "{error}");
        // Given up, it goes on at once; and who asks for other files than its own gets none.
        client.ask(&place, step(LeaveStep::Freeze)).await.unwrap();
        client.ask(&place, step(LeaveStep::GiveUp)).await.unwrap();
        client.call::<Add>(&hits, 1).await.unwrap();
        let file = "../../../etc/passwd".to_owned();
        let read = step(LeaveStep::Read { file, at: 0, bytes: 100 });
        let error = client.ask(&place, read).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::NotFound, .. }), "{error}");
    });
}

#[test]
fn what_is_held_while_a_place_stands_still_is_bounded() {
    let (name, disk, nats) = (unique("held"), Held::default(), NatsServer::start());
    let server = Server::new(Nats::at(nats.url()), &name);
    let (_interface, _served, place) = serve(cpus()[0], server, &disk).unwrap();
    block_on(async {
        let client = Client::connect(&Nats::at(nats.url())).await.unwrap();
        let others = async_nats::connect(nats.url()).await.unwrap();
        let mut inbox = others.subscribe("_INBOX.held").await.unwrap();
        let open = Operation::Open { kind: "counter".to_owned(), unique: "x".repeat(900 << 10) };
        let operations = vec![(0, open)];
        let request = Request { life: 0, lease: 0, key: 0, first: 0, open: vec![], operations };
        let bytes = [&[wire::VERSION][..], &rmp_serde::to_vec(&request).unwrap()].concat();
        let bytes = bytes::Bytes::from(bytes);
        let client = client.with_timeout(PATIENCE);
        let step = async |step| client.ask(&place, Operation::Leave { ticket: 7, step }).await;
        step(LeaveStep::Freeze).await.unwrap();
        const MANY: usize = 30;
        for _ in 0..MANY {
            let subject = format!("kumiki.place.{place}");
            others.publish_with_reply(subject, "_INBOX.held", bytes.clone()).await.unwrap();
        }
        others.flush().await.unwrap();
        let why = |message: async_nats::Message| {
            let reply: Reply = wire::parse(&message.payload).unwrap();
            Why::from(reply.answers[0].as_ref().unwrap_err().why)
        };
        let until = Instant::now() + PATIENCE;
        // It stands still for as long as this takes.
        let first = loop {
            let soon = Duration::from_millis(500);
            if let Ok(reply) = tokio::time::timeout(soon, inbox.next()).await {
                break reply.unwrap();
            }
            assert!(Instant::now() < until, "all of it is held");
            step(LeaveStep::Freeze).await.unwrap();
        };
        assert_eq!(why(first), Why::AskAgain);
        step(LeaveStep::GiveUp).await.unwrap();
        let mut answered = 0;
        for _ in 1..MANY {
            let reply = tokio::time::timeout(PATIENCE, inbox.next()).await.unwrap().unwrap();
            answered += usize::from(why(reply) != Why::AskAgain);
        }
        assert!(answered > MANY / 3, "{answered}: what was held is answered when it goes on");
    });
}

#[test]
fn a_move_whose_last_answer_does_not_come_is_unknown_and_nothing_else_is_said_of_it() {
    let (name, home, away) = (unique("last-answer"), Held::default(), Held::default());
    let (_interface, served, place) = serve(cpus()[0], Server::here(&name), &home).unwrap();
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let hits = client.create::<Counter>(&place, Some("hits"), 40).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 41);
        // From here on its last word is not flushed.
        home.close(true);
        let hasty = Client::here().with_timeout(Duration::from_millis(500));
        let error = hasty.take_place(&place, &away, "away").await.unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::Unknown { .. }), "{said}");
        assert!(said.contains("whether it has left"), "{said}");
        for wrong in ["nothing was done", "not sent", "only a question"] {
            assert!(!said.contains(wrong), "{said}");
        }
        assert!(away.names().iter().any(|name| name == "arriving"), "its copy is not served");
        // And its former folder says so.
        home.close(false);
        drop(served);
        let error = serve(cpus()[0], Server::here(&name), &home).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Moved { to, .. } if to == "away"), "{error}");
    });
}

#[test]
fn a_place_moves_only_where_it_is_allowed_and_into_a_folder_that_has_none() {
    let (name, disk) = (unique("may-not"), Held::default());
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let taken = Held::default();
        let refused = async |place: &str, why: Why| {
            let error = client.take_place(place, &taken, "here").await.unwrap_err();
            assert!(matches!(&error, Error::Refused { why: its, .. } if *its == why), "{error}");
            assert!(taken.names().is_empty(), "{:?}", taken.names());
        };
        let (interface, served, place) =
            managing(Server::here(&name).allow(Allow::everything())).unwrap();
        refused(&place, Why::NotAllowed).await;
        drop((interface, served));
        let kept = disk.clone();
        let server = Server::here(&name).parts(parts()).allow(Allow::listing());
        let server = server.durable_on(move |_| Ok(Arc::new(kept.clone()) as Arc<dyn Disk>));
        let (interface, served, place) = managing(server).unwrap();
        refused(&place, Why::NotAllowed).await;
        drop((interface, served));

        let (_interface, served, place) =
            serve(cpus()[0], Server::here(&name), &Held::default()).unwrap();
        let error = client.take_place(&place, &disk, "here").await.unwrap_err();
        assert!(error.to_string().contains("has a place already"), "{error}");
        // A copy of which nobody knows whether it is the place.
        disk.create("arriving", 0).unwrap();
        let error = client.take_place(&place, &disk, "here").await.unwrap_err();
        assert!(error.to_string().contains("was not heard of to its end"), "{error}");
        drop(served);
        let error = serve(cpus()[0], Server::here(&name), &disk).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("was not heard of to its end"), "{error}");
    });
}

/// A server that is to serve a place from this disk, and its interface.
fn taker(
    server: Server,
    place: &str,
    disk: &Held,
    kinds: impl FnOnce(kumiki_resource::Builder) -> kumiki_resource::Builder,
) -> (Interface, Server) {
    let interface = kinds(Interface::builder()).cores([]).adopted([cpus()[0]]).per_core().unwrap();
    let disk = disk.clone();
    let server = server.parts(parts()).allow(Allow::everything()).managing().called(place);
    (interface, server.durable_on(move |_| Ok(Arc::new(disk.clone()) as Arc<dyn Disk>)))
}

#[test]
fn who_could_not_serve_a_place_does_not_take_it() {
    let (name, home, away) = (unique("could-not"), Held::default(), Held::default());
    let (_interface, served, place) = serve(cpus()[0], Server::here(&name), &home).unwrap();
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let hits = client.create::<Counter>(&place, Some("hits"), 41).await.unwrap();
        let its = |builder: kumiki_resource::Builder| builder.kind::<Counter>().kind::<Lease>();
        let refused = async |(interface, server): (Interface, Server), why: &str| {
            let error = client.take_place_for(&server, &interface, "away").await.unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(away.names().is_empty(), "{:?}", away.names());
            // It was not ended, and does not stand still.
            let quick = Client::here().with_timeout(Duration::from_secs(1));
            assert_eq!(quick.call::<Get>(&hits, ()).await.unwrap(), 41);
        };
        let others = |builder: kumiki_resource::Builder| builder.kind::<Lease>().kind::<Counter>();
        let other = taker(Server::here(&name), &place, &away, others);
        refused(other, "kind counter has number 0 in its ids, and 1 here").await;
        let (interface, server) = taker(Server::here(&name), &place, &away, its);
        refused((interface, server.parts(Parts::new())), "which is not kept here").await;
        let (interface, server) = taker(Server::here(&name), &place, &away, its);
        let parts = parts().kind::<kumiki_resource::Memory>();
        refused((interface, server.parts(parts)), "it allows kind memory").await;
        let (interface, server) = taker(Server::here("x"), &place, &away, its);
        refused((interface, server), "is called HOST.coreN").await;
        // And who can, does.
        let (interface, server) = taker(Server::here(&name), &place, &away, its);
        client.take_place_for(&server, &interface, "away").await.unwrap();
        drop(served);
        let _served = server.serve(&interface).unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 42);
    });
}

/// Users of a server: one that serves places of this name, and one that calls them.
fn users(host: &str) -> String {
    format!(
        r#"authorization: {{users: [
            {{user: all, password: a}}
            {{user: calls, password: a, permissions: {{
                publish: ["kumiki.place.{host}.>", "_INBOX.>"], subscribe: "_INBOX.>"}}}}
            {{user: mute, password: a, permissions: {{
                publish: ["kumiki.place.{host}.>", "_INBOX.>"], subscribe: ">"}}}}
        ]}}"#
    )
}

#[test]
fn who_may_not_serve_a_place_at_its_nats_server_does_not_take_it() {
    let folder = tempfile::tempdir().unwrap();
    let (name, home, away) = (unique("may-not-serve"), Held::default(), Held::default());
    let path = folder.path().join("nats.conf");
    std::fs::write(&path, users(&name)).unwrap();
    let nats = NatsServer::start_with(&["-c", path.to_str().unwrap()]);
    let at = |user: &str| Nats::at(nats.url().replace("//", &format!("//{user}:a@")));
    let server = Server::new(at("all"), &name);
    let (_interface, served, place) = serve(cpus()[0], server, &home).unwrap();
    block_on(async {
        let its = |builder: kumiki_resource::Builder| builder.kind::<Counter>().kind::<Lease>();
        let client = Client::connect(&at("all")).await.unwrap().with_timeout(PATIENCE);
        let hits = client.create::<Counter>(&place, Some("hits"), 41).await.unwrap();
        for (user, denied) in [
            ("calls", format!("\"calls\" to subscribe to kumiki.place.{place}")),
            ("mute", format!("\"mute\" to publish to kumiki.beat.{place}")),
        ] {
            let mine = Client::connect(&at(user)).await.unwrap().with_timeout(PATIENCE);
            let (interface, server) = taker(Server::new(at(user), &name), &place, &away, its);
            let error = mine.take_place_for(&server, &interface, "away").await.unwrap_err();
            assert!(error.to_string().contains(&denied), "{error}");
            assert!(away.names().is_empty(), "{:?}", away.names());
            assert_eq!(mine.call::<Add>(&hits, 0).await.unwrap(), 41);
        }
        let (interface, server) = taker(Server::new(at("all"), &name), &place, &away, its);
        client.take_place_for(&server, &interface, "away").await.unwrap();
        drop(served);
        let _served = server.serve(&interface).unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 42);
    });
}
