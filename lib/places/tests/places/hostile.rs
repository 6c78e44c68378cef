//! Any messages, where a request or an answer should be: drawn by seed from what is right, with bytes changed, left
//! out, doubled. A place answers each and lives; a client says that nobody knows, or why not, and lives.

use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures_util::StreamExt;
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::{self, Granted, Operation, Outcome, Refusal, Reply, Request};
use kumiki_resource::Id;

use crate::nats::NatsServer;
use crate::scene::{PATIENCE, block_on, client, machine, subject};

/// Messages of each kind.
const MESSAGES: usize = 3000;

fn written(value: &impl serde::Serialize) -> Vec<u8> {
    [&[wire::VERSION][..], &rmp_serde::to_vec(value).unwrap()].concat()
}

/// A number that somebody may have thought of.
fn number(random: &mut Rng) -> u64 {
    let odd = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, u64::from(u32::MAX)];
    if random.bool() { odd[random.usize(..odd.len())] } else { random.u64(..) >> random.u32(..64) }
}

fn bytes(random: &mut Rng) -> Bytes {
    let count = random.usize(..60);
    std::iter::repeat_with(|| random.u8(..)).take(count).collect()
}

fn changed(mut message: Vec<u8>, random: &mut Rng) -> Vec<u8> {
    for _ in 0..random.usize(..4) {
        let at = random.usize(..message.len().max(1));
        match random.u8(..5) {
            0 => message.truncate(at),
            1 => message.insert(at.min(message.len()), random.u8(..)),
            2 => message.extend_from_within(..at.min(message.len())),
            _ if at < message.len() => message[at] = random.u8(..),
            _ => {}
        }
    }
    message
}

fn operation(random: &mut Rng, id: u64) -> Operation {
    let id = if random.bool() { id } else { number(random) };
    let kinds = ["counter", "memory", "lease", "", "nothing"];
    let kind = kinds[random.usize(..kinds.len())].to_owned();
    let parts = ["add", "get", "read", "write", ""];
    let part = parts[random.usize(..parts.len())].to_owned();
    let version = random.u32(..3);
    match random.u8(..10) {
        0 => Operation::Hello { key: number(random), client: "h\0st/*".to_owned() },
        1 => Operation::Create { kind, version, unique: Some(part), spec: bytes(random) },
        2 => Operation::Call { id, kind, part, version, input: bytes(random) },
        3 => {
            let call = [&[random.u8(..8)][..], &id.to_le_bytes(), &[random.u8(..); 8]].concat();
            let calls = call.repeat(random.usize(..40)).into();
            Operation::Each { kind, part, version, calls }
        }
        4 => Operation::Destroy { id, kind },
        5 => Operation::Open { kind, unique: part },
        6 => {
            let pattern = "*?[a-".chars().cycle().take(random.usize(..20)).collect();
            let after = random.bool().then(|| ("m.core0/counter/b".to_owned(), number(random)));
            Operation::List { pattern, after }
        }
        7 => Operation::Offers,
        8 => Operation::Watch,
        _ => Operation::Age,
    }
}

#[test]
fn a_place_answers_whatever_comes_and_lives() {
    let nats = NatsServer::start();
    let (_interface, served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 7).await.unwrap();
        let stranger = async_nats::connect(nats.url()).await.unwrap();
        let subject = subject(&stranger, &place).await;
        let ask = async |message: Vec<u8>| {
            let request = async_nats::Request::new().payload(message.into());
            let request = request.timeout(Some(PATIENCE));
            stranger.send_request(subject.clone(), request).await.unwrap().payload
        };
        let mut random = Rng::with_seed(59);
        for at in 0..MESSAGES {
            let hello = (0, Operation::Hello { key: 5, client: "h".to_owned() });
            let hello = Request {
                life: 0,
                lease: 0,
                key: 0,
                first: 0,
                open: vec![],
                operations: vec![hello],
            };
            let granted: Reply = wire::parse(&ask(written(&hello)).await).unwrap();
            let granted: Granted =
                rmp_serde::from_slice(granted.answers[0].as_ref().unwrap()).unwrap();
            let operations = (0..random.usize(..6)).map(|_| {
                // Another's counter is not to be changed by what is allowed: its id is somebody else's.
                (number(&mut random), operation(&mut random, counter.id().to_u64() ^ 1))
            });
            let operations = operations.collect();
            let lease = if random.u8(..5) == 0 { number(&mut random) } else { granted.lease };
            let first = number(&mut random) >> 32;
            let open = (0..random.usize(..4)).map(|_| (number(&mut random), number(&mut random)));
            let open = open.collect();
            let request = Request { life: 0, lease, key: 5, first, open, operations };
            let message = match random.bool() {
                true => written(&request),
                false => changed(written(&request), &mut random),
            };
            let reply = ask(message.clone()).await;
            assert!(wire::parse::<Reply>(&reply).is_ok(), "{at}: {message:?} has {reply:?}");
            let beat =
                changed(b"{\"life\":7,\"age_ms\":18446744073709551615}".to_vec(), &mut random);
            stranger.publish(format!("kumiki.beat.{place}"), beat.into()).await.unwrap();
        }
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 7);
    });
    assert!(served.endings().is_empty(), "{:?}", served.endings());
}

/// An answer of a place that means harm, or is broken.
fn answer(random: &mut Rng, life: u64) -> Vec<u8> {
    let outcome = |random: &mut Rng| -> Outcome {
        match random.u8(..5) {
            0 => Err(Refusal { why: random.u16(..24), text: "\u{1b}[2J\0".to_owned() }),
            1 => Ok(bytes(random)),
            2 => Ok(rmp_serde::to_vec(&number(random)).unwrap().into()),
            3 => {
                let (holds_ms, durable) = (number(random), random.bool());
                let granted = Granted { life, lease: number(random), holds_ms, durable };
                Ok(rmp_serde::to_vec_named(&granted).unwrap().into())
            }
            _ => Ok(rmp_serde::to_vec(&(bytes(random), vec![(random.u32(..9), bytes(random))]))
                .unwrap()
                .into()),
        }
    };
    let answers = (0..random.usize(..4)).map(|_| outcome(random)).collect();
    changed(written(&Reply { life, answers }), random)
}

#[test]
fn a_client_takes_whatever_is_answered_and_lives() {
    let nats = NatsServer::start();
    block_on(async {
        let liar = async_nats::connect(nats.url()).await.unwrap();
        let mut asked = liar.subscribe("kumiki.place.liar.>").await.unwrap();
        liar.flush().await.unwrap();
        let lie = tokio::spawn(async move {
            let mut random = Rng::with_seed(58);
            while let Some(request) = asked.next().await {
                let life = random.u64(1..3);
                let answer = answer(&mut random, life);
                let Some(reply) = request.reply else { continue };
                liar.publish(reply, answer.into()).await.unwrap();
            }
        });
        let client = client(&nats.url()).await.with_timeout(Duration::from_millis(20));
        let (mut made, mut failed) = (Vec::new(), 0);
        for at in 0..MESSAGES / 10 {
            match client.create::<Counter>("liar.core0", None, 0).await {
                Ok(counter) => made.push(counter),
                Err(_) => failed += 1,
            }
            failed += usize::from(client.ls("liar.core0", "**").await.is_err());
            failed += usize::from(client.offers("liar.core0").await.is_err());
            if let Some(counter) = made.last() {
                // Numbers, where they come, and ids are untrusted.
                let _: Result<i64, _> = client.call::<Add>(counter, 1).await;
                let _ = client.each::<Add>((0..3).map(|n| (counter, n))).await;
                let _ = Id::from_u64(counter.id().to_u64()).place();
            }
            if at % 50 == 0 {
                let _ = client.watch("liar.core0", "**").await;
            }
        }
        assert!(failed > 0, "it believes all of it");
        lie.abort();
    });
}
