//! Chains by messages: what one place runs in one request, and what it asks other places for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kumiki_places::durable::{Disk, Folder};
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::chain::{ChainReply, MOST_STEPS, StepCall};
use kumiki_places::wire::{self, Granted, Operation, Reply, Request, Why};
use kumiki_places::{Allow, Client, Control, Error, Nats, Reference, Result, Served, Server};
use kumiki_resource::{Interface, Pattern};

use crate::chains::{Count, Positive, Wait, counters, more_parts, step};
use crate::five_places::Echo;
use crate::here::unique;
use crate::killed::durable;
use crate::nats::NatsServer;
use crate::scene::{PATIENCE, block_on, managing, subject};

fn control(url: &str) -> Control {
    Control::builder().nats(Nats::at(url)).build().unwrap().with_timeout(PATIENCE)
}

fn server(url: &str, host: &str) -> Server {
    Server::new(Nats::at(url), host).parts(more_parts()).allow(Allow::everything())
}

fn messages(served: &Served) -> u64 {
    served.figures()()[0].messages
}

/// A step as a message has it.
fn add(on: &Reference<Counter>, life: u64) -> StepCall {
    let (kind, part) = ("counter".to_owned(), "add".to_owned());
    let (place, id) = (on.place().to_owned(), on.id().to_u64());
    StepCall { place, life, id, kind, part, version: 1 }
}

#[test]
fn what_is_at_one_place_goes_in_one_request() {
    let nats = NatsServer::start();
    let (_interface, served, place) = managing(server(&nats.url(), "one")).unwrap();
    let control = control(&nats.url());
    let on = counters(&control, &[&*place; 5]);
    let chain = || {
        let chain = control.chain::<Add>(&on[0]).then::<Add>(&on[1]).then::<Add>(&on[2]);
        chain.then::<Add>(&on[3]).then::<Add>(&on[4])
    };
    let before = messages(&served);
    assert_eq!(chain().call(1).unwrap(), 1);
    assert_eq!(chain().call(1).unwrap(), 6, "2, 3, 4, 5, 6");
    assert_eq!(messages(&served) - before, 2, "one each");
    // One that blocks is asked for alone, and those behind it together again.
    let before = messages(&served);
    let waits = control.chain::<Wait>(&on[0]).then::<Wait>(&on[1]).then::<Wait>(&on[2]);
    assert_eq!(waits.call(1).unwrap(), 1);
    assert!(messages(&served) - before <= 12, "{}", messages(&served) - before);
    // A chain that is longer than a request may be, and answers that are.
    let mut long = control.chain::<Add>(&on[0]);
    for n in 1..3 * MOST_STEPS {
        long = long.then::<Add>(&on[n % 5]);
    }
    long.call(-7).unwrap();
    let bytes = vec![7; 400_000];
    let mut long = control.chain::<Echo>(&on[0]);
    for n in 1..8 {
        long = long.then::<Echo>(&on[n % 5]);
    }
    assert_eq!(long.call(bytes.clone()).unwrap(), bytes, "each answer is near a message's limit");
    // The one in the middle.
    let set = |on: &Reference<Counter>, to: i64| {
        let value = control.call::<Get>(on, ()).unwrap();
        control.call::<Add>(on, to - value).unwrap();
    };
    [(0, -7), (1, 0), (2, 0)].into_iter().for_each(|(at, to)| set(&on[at], to));
    let before = messages(&served);
    let chain = control.chain::<Add>(&on[0]).then::<Positive>(&on[1]).then::<Add>(&on[2]);
    let failed = step(chain.call(3));
    assert_eq!(messages(&served) - before, 1);
    assert_eq!((failed.number(), failed.last(), failed.has_run()), (2, 2, 1), "{failed}");
    assert!(matches!(failed.error(), Error::Refused { why: Why::Panicked, .. }), "{failed}");
    assert_eq!(failed.answer::<i64>(1).unwrap(), -4);
    assert_eq!(control.call::<Get>(&on[2], ()).unwrap(), 0, "it has not begun");
}

/// A place that its callers reach by one server, and another one that it alone reaches, by a second server.
struct Apart {
    _all: (Interface, Interface, NatsServer, NatsServer),
    first: Served,
    second: Option<Served>,
    near: Control,
    on: Vec<Reference<Counter>>,
}

/// `allow` says whom the first one may ask.
fn apart(allow: &str) -> Apart {
    let (one, two) = (NatsServer::start(), NatsServer::start());
    let far = control(&two.url());
    let allow = Allow::everything().chaining([Pattern::new(allow).unwrap()]);
    let first = server(&one.url(), "chaina").allow(allow).chains(&far);
    let (interface, first, a) = managing(first).unwrap();
    let (beyond, second, b) = managing(server(&two.url(), "chainb")).unwrap();
    let near = control(&one.url());
    let on = [counters(&near, &[&a, &a]), counters(&far, &[&b, &b])].concat();
    let all = (interface, beyond, one, two);
    Apart { _all: all, first, second: Some(second), near, on }
}

fn value(of: &Control, on: &Reference<Counter>) -> i64 {
    of.call::<Get>(on, ()).unwrap()
}

#[test]
fn a_place_asks_the_next_one_itself_where_it_may() {
    let Apart { _all, first, second, near, on } = apart("chainb.*");
    let far = control(&_all.3.url());
    let before = messages(&first);
    let chain = || {
        let chain = near.chain::<Add>(&on[0]).then::<Add>(&on[1]).then::<Add>(&on[2]);
        chain.then::<Add>(&on[3])
    };
    assert_eq!(chain().call(1).unwrap(), 1);
    assert_eq!(chain().call(1).unwrap(), 5, "2, 3, 4, 5");
    // Each is looked at when it has come, and when what it waited for has ended.
    assert_eq!(messages(&first) - before, 4, "and the caller reaches nobody else");
    assert_eq!([value(&near, &on[0]), value(&far, &on[3])], [2, 5]);
    // What is longer.
    assert_eq!(
        near.chain::<Echo>(&on[0]).then::<Echo>(&on[2]).call(vec![7; 3000]).unwrap().len(),
        3000
    );
    // A panic there is the step's.
    far.call::<Add>(&on[2], -1000).unwrap();
    let failed =
        step(near.chain::<Add>(&on[0]).then::<Add>(&on[2]).then::<Positive>(&on[3]).call(1));
    assert_eq!((failed.number(), failed.has_run()), (3, 2), "{failed}");
    assert!(matches!(failed.error(), Error::Refused { why: Why::Panicked, .. }), "{failed}");
    assert_eq!(failed.answer::<i64>(1).unwrap(), value(&near, &on[0]));
    assert_eq!(failed.answer::<i64>(2).unwrap(), value(&far, &on[2]));
    // One that has gone is the caller's to ask for, which does not reach it.
    let sum = value(&near, &on[0]);
    drop(second);
    let failed = step(near.chain::<Add>(&on[0]).then::<Add>(&on[2]).call(1));
    assert_eq!((failed.number(), failed.answer::<i64>(1).unwrap()), (2, sum + 1), "{failed}");
    assert!(matches!(failed.error(), Error::Gone { .. } | Error::Unknown { .. }), "{failed}");
}

#[test]
fn who_is_not_named_by_the_list_is_asked_by_nobody_else() {
    for allow in ["chainc.*", "chainb.core99", "[!a-z]*"] {
        let Apart { _all, first: _first, second: _second, near, on } = apart(allow);
        let failed = step(near.chain::<Add>(&on[0]).then::<Add>(&on[2]).call(1));
        assert_eq!((failed.number(), failed.has_run()), (2, 1), "{failed}");
        assert_eq!(failed.answer::<i64>(1).unwrap(), 1, "{failed}");
        assert!(matches!(failed.error(), Error::Gone { .. }), "{failed}");
        assert_eq!(value(&control(&_all.3.url()), &on[2]), 0);
    }
}

#[test]
fn a_forwarded_step_that_takes_too_long_is_unknown_from_the_first_on() {
    let Apart { _all, first, second: _second, near, on } = apart("chainb.*");
    let far = control(&_all.3.url());
    // The first one is quick, so that what is behind it is asked for by its place.
    let chain = near.chain::<Count>(&on[0]).then::<Wait>(&on[2]);
    assert_eq!(chain.call(20).unwrap(), 20);
    let short = near.with_timeout(Duration::from_millis(300));
    let failed = step(short.chain::<Count>(&on[0]).then::<Wait>(&on[2]).call(2000));
    assert_eq!((failed.number(), failed.last(), failed.has_run()), (1, 2, 0), "{failed}");
    assert!(matches!(failed.error(), Error::Unknown { .. }), "{failed}");
    assert!(failed.to_string().contains("steps up to 2 went along"), "{failed}");
    // It serves others meanwhile.
    assert_eq!(near.call::<Add>(&on[0], 1).unwrap(), 1);
    assert_eq!(far.call::<Add>(&on[2], 1).unwrap(), 1);
    drop(first);
}

/// Sends a request twice, as one that has lost its answer is.
#[test]
fn a_chain_that_is_sent_twice_runs_once() {
    let Apart { _all, first, second: _second, near, on } = apart("chainb.*");
    let far = control(&_all.3.url());
    let before = messages(&first);
    block_on(async {
        let nats = async_nats::connect(_all.2.url()).await.unwrap();
        let subject = subject(&nats, on[0].place()).await;
        let ask = async |request: &Request| {
            let bytes = [&[wire::VERSION][..], &rmp_serde::to_vec(request).unwrap()].concat();
            let reply = nats.request(subject.clone(), bytes.into()).await.unwrap();
            wire::parse::<Reply>(&reply.payload).unwrap()
        };
        let request = |lease: u64, operations| Request {
            life: 0,
            lease,
            key: 7,
            first: 1,
            open: vec![],
            operations,
        };
        let hello = Operation::Hello { key: 7, client: "twice".to_owned() };
        let reply = ask(&request(0, vec![(0, hello)])).await;
        let granted: Granted = rmp_serde::from_slice(reply.answers[0].as_ref().unwrap()).unwrap();
        let lives = [granted.life, on[2].life()];
        let steps = vec![add(&on[0], lives[0]), add(&on[1], lives[0]), add(&on[2], lives[1])];
        let input = rmp_serde::to_vec(&1_i64).unwrap();
        let chain = Operation::Chain { steps, input: input.into() };
        let twice = request(granted.lease, vec![(1, chain)]);
        let replies = [ask(&twice).await, ask(&twice).await, ask(&twice).await];
        for reply in &replies {
            let reply: ChainReply =
                rmp_serde::from_slice(reply.answers[0].as_ref().unwrap()).unwrap();
            let gave = reply.answers.iter().map(|one| rmp_serde::from_slice::<i64>(one).unwrap());
            assert_eq!((gave.collect::<Vec<_>>(), reply.refusal), (vec![1, 1, 1], None));
        }
    });
    assert!(messages(&first) > before);
    assert_eq!([value(&near, &on[0]), value(&near, &on[1]), value(&far, &on[2])], [1; 3]);
}

#[test]
fn a_durable_place_keeps_what_a_chain_has_done_and_asks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (name, path) = (unique("chainkept"), folder.path().to_owned());
    let serve = |path: &Path| {
        let path = path.to_owned();
        let disk = move |core: &str| Ok(Arc::new(Folder::open(&path.join(core))?) as Arc<dyn Disk>);
        let nobody = Control::builder().build().unwrap();
        durable(Server::here(&name).chains(&nobody), disk)
    };
    let (_interface, served, place) = serve(&path).unwrap();
    let control = Control::builder().build().unwrap().with_timeout(PATIENCE);
    let on = counters(&control, &[&*place; 3]);
    let chain = control.chain::<Add>(&on[0]).then::<Add>(&on[1]).then::<Add>(&on[2]);
    let before = messages(&served);
    assert_eq!((chain.call(3).unwrap(), chain.call(1).unwrap()), (3, 10), "3 3 3, 4 7 10");
    assert_eq!(messages(&served) - before, 2);
    drop(served);
    let (_interface, _served, _) = serve(&path).unwrap();
    let values: Vec<i64> = on.iter().map(|on| value(&control, on)).collect();
    assert_eq!(values, [4, 7, 10]);
    assert_eq!(chain.call(0).unwrap(), 21, "4 11 21");
}

#[test]
fn a_chain_that_is_none_is_refused_and_runs_nothing() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = managing(server(&nats.url(), "none")).unwrap();
    let control = control(&nats.url());
    let on = &counters(&control, &[&place])[0];
    let own = add(on, on.life());
    let input = || rmp_serde::to_vec(&1_i64).unwrap().into();
    block_on(async {
        let client = Client::connect(&Nats::at(nats.url())).await.unwrap();
        let ask = async |steps: Vec<StepCall>| {
            let answer = client.ask(&place, Operation::Chain { steps, input: input() }).await;
            match answer {
                Ok(answer) => Ok(rmp_serde::from_slice::<ChainReply>(&answer).unwrap()),
                Err(Error::Refused { why, .. }) => Err(why),
                Err(error) => panic!("{error}"),
            }
        };
        let of = |place: &str| StepCall { place: place.to_owned(), ..own.clone() };
        assert_eq!(ask(vec![]).await, Err(Why::Unreadable));
        assert_eq!(ask(vec![of("other.core0"), own.clone()]).await, Err(Why::Unreadable));
        assert_eq!(ask(vec![StepCall { life: 7, ..own.clone() }]).await, Err(Why::Unreadable));
        assert_eq!(ask(vec![own.clone(); MOST_STEPS + 1]).await, Err(Why::Unreadable));
        let part = |part: &str| StepCall { part: part.to_owned(), ..own.clone() };
        assert_eq!(ask(vec![part("none"), own.clone()]).await, Err(Why::NoPart));
        assert_eq!(ask(vec![part("wait"), own.clone()]).await, Err(Why::Blocks));
        assert_eq!(ask(vec![StepCall { id: 9, ..own.clone() }]).await, Err(Why::NoResource));
        assert_eq!(value(&control, on), 0, "nothing has run");
        // What is behind those that have run is the client's to go on with, or says why not.
        for (next, refused) in [
            (of("other.core0"), None),
            (StepCall { life: 7, ..own.clone() }, None),
            (part("wait"), None),
            (part("none"), Some(Why::NoPart)),
            (part("echo"), Some(Why::BadInput)),
            (StepCall { version: 9, ..own.clone() }, Some(Why::OtherVersion)),
        ] {
            let before = value(&control, on);
            let reply = ask(vec![own.clone(), next, own.clone()]).await.unwrap();
            assert_eq!(reply.answers.len(), 1);
            assert_eq!(reply.refusal.map(|refusal| Why::from(refusal.why)), refused);
            assert_eq!(value(&control, on), before + 1);
        }
    });
}

/// An allow-list that has one part alone: a chain is no way around it.
#[test]
fn a_step_that_is_not_allowed_is_refused_in_a_chain_as_alone() -> Result<()> {
    let nats = NatsServer::start();
    let list = "[kind.counter]\ncreate = true\nparts = [\"add\", \"get\"]";
    let allow = Allow::parse(list, &more_parts()).unwrap();
    let (_interface, _served, place) = managing(server(&nats.url(), "some").allow(allow))?;
    let control = control(&nats.url());
    let on = counters(&control, &[&place, &place]);
    let failed =
        step(control.chain::<Add>(&on[0]).then::<Positive>(&on[1]).then::<Add>(&on[0]).call(1));
    assert_eq!((failed.number(), failed.has_run()), (2, 1), "{failed}");
    assert!(matches!(failed.error(), Error::Refused { why: Why::NotAllowed, .. }), "{failed}");
    let failed = step(control.chain::<Positive>(&on[1]).then::<Add>(&on[0]).call(1));
    assert_eq!((failed.number(), failed.has_run()), (1, 0), "{failed}");
    assert!(matches!(failed.error(), Error::Refused { why: Why::NotAllowed, .. }), "{failed}");
    Ok(())
}
