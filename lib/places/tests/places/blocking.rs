//! Program parts that block: their place serves others meanwhile, and each runs once.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use kumiki_places::standard::{Add, Counter, Get, parts};
use kumiki_places::wire::{self, Granted, Operation, Reply, Request, Why};
use kumiki_places::{
    Allow, Block, Error, MOST_BLOCKED, MOST_RECORDS, Nats, Part, Served, Server, Work,
};
use kumiki_resource::{Interface, Pattern};

use crate::nats::{Line, NatsServer};
use crate::scene::{PATIENCE, block_on, client, machine, managing, subject};

/// Gates by number, and how often each was gone through: a gate is closed until it is opened.
struct Gates {
    open: Mutex<Vec<u64>>,
    through: Mutex<Vec<u64>>,
    changed: Condvar,
}

static GATES: Gates = Gates {
    open: Mutex::new(Vec::new()),
    through: Mutex::new(Vec::new()),
    changed: Condvar::new(),
};

impl Gates {
    fn open(&self, gates: impl IntoIterator<Item = u64>) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).extend(gates);
        self.changed.notify_all();
    }

    fn pass(&self, gate: u64) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let shut = |open: &mut Vec<u64>| !open.contains(&gate);
        let (_open, waited) = self.changed.wait_timeout_while(open, PATIENCE, shut).unwrap();
        assert!(!waited.timed_out(), "nobody has opened gate {gate}");
        self.through.lock().unwrap().push(gate);
    }

    fn times(&self, gate: u64) -> usize {
        self.through.lock().unwrap().iter().filter(|one| **one == gate).count()
    }
}

/// Waits until a gate is open, and gives what the counter was when it began.
struct Pass;

impl Part for Pass {
    type Kind = Counter;
    const NAME: &'static str = "pass";
    type In = u64;
    type Out = i64;
}

impl Block for Pass {
    fn begin(counter: &mut Counter, (): &mut (), gate: u64) -> Work<i64> {
        counter.0 += 1;
        let value = counter.0;
        Box::new(move || {
            GATES.pass(gate);
            assert!(gate != u64::MAX, "a gate that leads nowhere");
            value
        })
    }
}

/// A machine with that part.
fn gated(url: &str, hold: Duration) -> (Interface, Served, String) {
    let server = Server::new(Nats::at(url), "g").parts(parts().blocking::<Pass>());
    managing(server.allow(Allow::everything()).leases(hold)).unwrap()
}

#[test]
fn a_part_that_blocks_holds_up_nobody() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = gated(&nats.url(), PATIENCE);
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let others = async {
            // Until all three have begun, which nothing but the counter tells.
            while client.call::<Get>(&counter, ()).await.unwrap() < 3 {}
            assert_eq!(client.call::<Add>(&counter, 10).await.unwrap(), 13);
            assert_eq!(GATES.times(1) + GATES.times(2) + GATES.times(3), 0);
            GATES.open([1, 2, 3]);
        };
        let batch = client.each::<Pass>([(&counter, 1), (&counter, 2)]);
        let (one, both, ()) = tokio::join!(client.call::<Pass>(&counter, 3), batch, others);
        let mut values: Vec<_> = both.into_iter().map(Result::unwrap).collect();
        assert!(values[0] < values[1], "they begin in their order");
        values.push(one.unwrap());
        values.sort_unstable();
        assert_eq!(values, [1, 2, 3]);
    });
}

#[test]
fn a_part_that_blocks_for_longer_than_a_request_is_waited_for_runs_once() {
    let nats = NatsServer::start();
    let line = Line::to(&nats);
    let (_interface, _served, place) = gated(&nats.url(), PATIENCE);
    block_on(async {
        let client = client(&line.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let later = async {
            // Longer than the client's patience for one message, with the line cut in between.
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                line.cut();
            }
            GATES.open([10]);
        };
        let (value, ()) = tokio::join!(client.call::<Pass>(&counter, 10), later);
        assert_eq!(value.unwrap(), 1);
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 1, "it began once");
        assert_eq!(GATES.times(10), 1);
    });
}

#[test]
fn a_part_that_blocks_and_panics_is_told_to_its_caller() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = gated(&nats.url(), PATIENCE);
    GATES.open([u64::MAX]);
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let error = client.call::<Pass>(&counter, u64::MAX).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Panicked, .. }), "{error}");
        assert!(error.to_string().contains("leads nowhere"), "{error}");
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 1, "it serves on");
    });
}

#[test]
fn a_lease_that_ends_during_a_call_leaves_it_unknown_and_it_does_not_run_again() {
    let nats = NatsServer::start();
    let line = Line::to(&nats);
    // So short that the client, which renews it every few seconds, is too late.
    let (interface, _served, place) = gated(&nats.url(), Duration::from_millis(200));
    block_on(async {
        let client = client(&line.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let ends = async {
            let pattern = kumiki_resource::Pattern::new("*/lease/*").unwrap();
            let end = Instant::now() + PATIENCE;
            while interface.ls(&pattern).unwrap().iter().any(|lease| lease.named) {
                assert!(Instant::now() < end, "its lease does not end");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            GATES.open([20]);
        };
        let (outcome, ()) = tokio::join!(client.call::<Pass>(&counter, 20), ends);
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }), "{error}");
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), 1, "it began once");
        assert_eq!(GATES.times(20), 1);
    });
}

#[test]
fn parts_that_block_have_a_limit_and_it_is_told() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = gated(&nats.url(), PATIENCE);
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let most = MOST_BLOCKED as u64;
        let all = client.each::<Pass>((100..100 + most).map(|gate| (&counter, gate)));
        let beyond = async {
            while client.call::<Get>(&counter, ()).await.unwrap() < most as i64 {}
            let error = client.call::<Pass>(&counter, 99).await.unwrap_err();
            assert!(matches!(error, Error::Refused { why: Why::Full, .. }), "{error}");
            GATES.open(100..100 + most);
        };
        let (all, ()) = tokio::join!(all, beyond);
        assert!(all.into_iter().all(|one| one.is_ok()));
        assert_eq!(GATES.times(99), 0, "it did not run");
    });
}

/// A client that has one call under way for long has all its other answers forgotten as ever.
#[test]
fn a_call_that_takes_long_costs_its_client_no_other() {
    let nats = NatsServer::start();
    let (interface, _served, place) = gated(&nats.url(), PATIENCE);
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let others = async {
            while client.call::<Get>(&counter, ()).await.unwrap() < 1 {}
            for _ in 0..=2 * MOST_RECORDS / 256 {
                let calls = (0..256).map(|_| client.call::<Get>(&counter, ()));
                assert!(join_all(calls).await.into_iter().all(|value| value.is_ok()));
            }
            let bytes = interface.ls(&Pattern::new("*/lease/*").unwrap()).unwrap();
            let bytes: u64 = bytes.iter().map(|lease| lease.about.bytes).sum();
            assert!(bytes < 1 << 20, "{bytes} bytes of answers are kept");
            GATES.open([60]);
        };
        let (long, ()) = tokio::join!(client.call::<Pass>(&counter, 60), others);
        assert_eq!((long.unwrap(), GATES.times(60)), (1, 1));
    });
}

#[test]
fn a_batch_that_has_begun_is_not_refused_when_nothing_more_is_kept() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = gated(&nats.url(), PATIENCE);
    block_on(async {
        let made = client(&nats.url()).await;
        let counter = made.create::<Counter>(&place, None, 0).await.unwrap();
        let nats = async_nats::connect(nats.url()).await.unwrap();
        let its = subject(&nats, &place).await;
        let ask = async |lease: u64, operations: Vec<(u64, Operation)>| {
            let request = Request { life: 0, lease, key: 5, first: 1, open: vec![], operations };
            let bytes = [&[wire::VERSION][..], &rmp_serde::to_vec(&request).unwrap()].concat();
            let request = async_nats::Request::new().payload(bytes.into()).timeout(Some(PATIENCE));
            let reply = nats.send_request(its.clone(), request).await.unwrap();
            wire::parse::<Reply>(&reply.payload).unwrap().answers
        };
        let hello = Operation::Hello { key: 5, client: "keeps".to_owned() };
        let granted = ask(0, vec![(0, hello)]).await.remove(0).unwrap();
        let granted: Granted = rmp_serde::from_slice(&granted).unwrap();
        let (id, kind) = (counter.id().to_u64(), "counter".to_owned());
        let call =
            |gate: u8| [&[4][..], &id.to_le_bytes(), &u64::from(gate).to_le_bytes()].concat();
        let calls = [call(40), call(41)].concat().into();
        let both = Operation::Each { kind, part: "pass".to_owned(), version: 1, calls };
        let get = || Operation::Call {
            id,
            kind: "counter".to_owned(),
            part: "get".to_owned(),
            version: 1,
            input: Bytes::from_static(&[0xc0]),
        };
        let fills = async {
            while made.call::<Get>(&counter, ()).await.unwrap() < 2 {}
            // It says of none that it has seen it.
            let more = MOST_RECORDS as u64;
            for first in (10..10 + more).step_by(1024) {
                ask(granted.lease, (first..first + 1024).map(|n| (n, get())).collect()).await;
            }
            let full = ask(granted.lease, vec![(10 + 2 * more, get())]).await.remove(0);
            assert_eq!(full.unwrap_err().why, Why::Full as u16);
            GATES.open([40]);
            // It is looked at again, and its second call blocks yet.
            while GATES.times(40) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(1500)).await;
            GATES.open([41]);
        };
        let (answers, ()) = tokio::join!(ask(granted.lease, vec![(1, both)]), fills);
        let words = answers[0].as_ref().unwrap();
        assert!(words.len() >= 18, "an answer for each: {words:?}");
        assert_eq!((GATES.times(40), GATES.times(41)), (1, 1));
        assert_eq!(made.call::<Get>(&counter, ()).await.unwrap(), 2, "they began once");
    });
}

#[test]
fn a_place_that_ends_tells_those_whose_calls_block() {
    let nats = NatsServer::start();
    let (_interface, served, place) = gated(&nats.url(), PATIENCE);
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let ends = async {
            while client.call::<Get>(&counter, ()).await.unwrap() < 1 {}
            tokio::task::spawn_blocking(|| drop(served)).await.unwrap();
        };
        let begin = Instant::now();
        let (outcome, ()) = tokio::join!(client.call::<Pass>(&counter, 30), ends);
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }), "{error}");
        assert!(begin.elapsed() < PATIENCE / 2, "it waited for its patience");
        GATES.open([30]);
    });
}

#[test]
fn an_ordinary_place_refuses_a_part_that_it_does_not_have() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let error = client.call::<Pass>(&counter, 1).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::NoPart, .. }), "{error}");
    });
}
