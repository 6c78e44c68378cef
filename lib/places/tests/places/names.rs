//! Who has a place's name: two places of one name, beats of strangers, and who hears all and answers nothing.

use std::time::{Duration, Instant};

use async_nats::Client as Stranger;
use bytes::Bytes;
use futures_util::StreamExt;
use kumiki_places::standard::{Add, Counter};
use kumiki_places::wire::{self, Operation, Refusal, Reply, Request, Why};
use kumiki_places::{Error, Served};
use kumiki_resource::Pattern;

use crate::nats::{Line, NatsServer};
use crate::scene::{PATIENCE, block_on, client, interface, machine, server};

/// What a place of this name sends in its beats, from somebody else.
async fn forge(nats: &Stranger, place: &str, life: u64, age_ms: u64) {
    let beat = format!("{{\"life\":{life},\"age_ms\":{age_ms}}}");
    nats.publish(format!("kumiki.beat.{place}"), beat.into()).await.unwrap();
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

/// Whoever may publish to its beats says what he likes: a place that nobody rivals serves on.
#[test]
fn a_forged_beat_ends_no_place_whatever_it_says() {
    let nats = NatsServer::start();
    let (_interface, served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let stranger = async_nats::connect(nats.url()).await.unwrap();
        // The place asks who has its name, and not once for each beat.
        let mut questions = stranger.subscribe(format!("kumiki.place.{place}")).await.unwrap();
        for noise in ["", "{", "[1,2]", "{\"life\":-1}"] {
            stranger.publish(format!("kumiki.beat.{place}"), noise.into()).await.unwrap();
        }
        for life in 1..=1000 {
            forge(&stranger, &place, life, u64::MAX).await;
        }
        let asked = tokio::time::timeout(PATIENCE, questions.next()).await.unwrap().unwrap();
        // What answers, and is no place, or none that has the name, is none.
        let inbox = asked.reply.unwrap();
        let younger =
            Reply { life: u64::MAX, answers: vec![Ok(rmp_serde::to_vec(&0_u64).unwrap().into())] };
        let younger = [&[wire::VERSION][..], &rmp_serde::to_vec(&younger).unwrap()].concat();
        for answer in [vec![], b"PONG".to_vec(), younger] {
            stranger.publish(inbox.clone(), answer.into()).await.unwrap();
        }
        // Longer than it waits for answers.
        let end = Instant::now() + Duration::from_millis(2500);
        let mut value = 0;
        while Instant::now() < end {
            value += 1;
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), value);
            forge(&stranger, &place, value.unsigned_abs(), u64::MAX).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(served.endings().is_empty(), "{:?}", served.endings());
    });
}

/// Two servers, a leaf node and its hub, with a line between them that is down at first.
pub(crate) fn parted(folder: &std::path::Path) -> (NatsServer, NatsServer, Line) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let start = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        NatsServer::start_with(&["-c", path.to_str().unwrap()])
    };
    let line = Line::to_port(free.port());
    // The address that the hub tells its leaf, which would go round the line by another one.
    let told = line.url().replace("nats://", "");
    let text = format!("leafnodes {{ listen: \"{free}\", advertise: \"{told}\" }}\n");
    let hub = start("hub", text);
    line.down();
    let url = line.url().replace("nats://", "nats-leaf://");
    let text = format!("leafnodes {{ reconnect: 1, remotes: [{{ url: \"{url}\" }}] }}\n");
    let leaf = start("leaf", text);
    (hub, leaf, line)
}

#[test]
fn of_two_places_that_find_each_other_later_the_younger_one_ends_and_no_other_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, leaf, line) = parted(folder.path());
    let (_elder_interface, elder, place) = machine(&hub.url(), "m");
    // For longer than up to which their lives would decide.
    std::thread::sleep(Duration::from_millis(4500));
    let interface = interface(2);
    let younger = server(&leaf.url(), "m").serve(&interface).unwrap();
    let others: Vec<String> = younger.names().into_iter().map(str::to_owned).collect();
    line.up();
    let end = Instant::now() + PATIENCE;
    while younger.endings().is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = |served: &Served| -> Vec<String> {
        served.endings().into_iter().map(|(place, _)| place).collect()
    };
    assert_eq!(ended(&younger), [place.as_str()]);
    let error = younger.ended().unwrap();
    assert!(matches!(&*error, Error::PlaceTaken { place: its } if *its == place), "{error}");
    block_on(async {
        // Those that nobody rivals answer, at both sides of the line.
        for url in [hub.url(), leaf.url()] {
            let client = client(&url).await;
            for other in &others {
                client.create::<Counter>(other, None, 0).await.unwrap();
            }
        }
    });
    assert_eq!((ended(&elder), ended(&younger).len()), (vec![], 1));
}

/// Two processes have one name for a while, as after a line between their servers has healed. A request that has an
/// effect goes to the one whose lease it has, so that a refusal by the other is never taken for the answer.
#[test]
fn what_has_an_effect_is_asked_of_one_life_alone() {
    let nats = NatsServer::start();
    let (_interface, served, place) = machine(&nats.url(), "m");
    block_on(async {
        let rival = async_nats::connect(nats.url()).await.unwrap();
        let mut asked = rival.subscribe(format!("kumiki.place.{place}")).await.unwrap();
        rival.flush().await.unwrap();
        // It refuses at once whatever is not its own, as a place of another life does.
        let refuses = tokio::spawn(async move {
            let refusal = || Err(Refusal { why: Why::OtherLife as u16, text: "other".to_owned() });
            while let Some(message) = asked.next().await {
                let Ok(request) = wire::parse::<Request>(&message.payload) else { continue };
                if request.operations.iter().all(|(_, one)| matches!(one, Operation::Age)) {
                    continue;
                }
                let answers = request.operations.iter().map(|_| refusal()).collect();
                let reply = rmp_serde::to_vec(&Reply { life: 7, answers }).unwrap();
                let reply = [&[wire::VERSION][..], &reply].concat();
                rival.publish(message.reply.unwrap(), reply.into()).await.unwrap();
            }
        });
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        for value in 1..=300 {
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), value);
        }
        client.destroy(counter).await.unwrap();
        refuses.abort();
    });
    assert!(served.endings().is_empty());
}

/// Whoever asks at the name may reach any life: nothing is changed by that.
#[test]
fn what_has_an_effect_is_refused_at_the_name() {
    let nats = NatsServer::start();
    let (interface, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let stranger = async_nats::connect(nats.url()).await.unwrap();
        let (kind, version, spec) = ("counter".to_owned(), 1, Bytes::from_static(&[1]));
        let create = Operation::Create { kind, version, unique: None, spec };
        for operation in [create, Operation::Hello { key: 1, client: "c".to_owned() }] {
            let operations = vec![(1, operation)];
            let request = Request { life: 0, lease: 0, key: 0, first: 1, open: vec![], operations };
            let message = [&[wire::VERSION][..], &rmp_serde::to_vec(&request).unwrap()].concat();
            let subject = format!("kumiki.place.{place}");
            let reply = stranger.request(subject, message.into()).await.unwrap();
            let reply: Reply = wire::parse(&reply.payload).unwrap();
            assert_eq!(reply.answers[0].as_ref().unwrap_err().why, Why::OtherLife as u16);
        }
        assert!(interface.ls(&Pattern::all()).unwrap().iter().all(|one| one.owner == "core0"));
        assert!(interface.ls(&Pattern::new("*/lease/*").unwrap()).unwrap().is_empty());
    });
}
