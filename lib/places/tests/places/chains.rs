//! Chains: what one part gives is what the next one takes, at whichever placements; what a step that fails leaves.

use std::time::Duration;

use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::Why;
use kumiki_places::{
    Allow, Block, Control, Error, FailedStep, Nats, Part, Parts, Reference, Result, Run, Server,
    Work,
};
use kumiki_resource::{Interface, Rights};

use crate::control::{other, served};
use crate::direct::local;
use crate::five_places::{Echo, Later, parts};
use crate::here::unique;
use crate::lines;
use crate::nats::{Line, NatsServer};
use crate::scene::{PATIENCE, block_on, managing};

/// The step that has failed.
pub(crate) fn step<T: std::fmt::Debug>(outcome: Result<T>) -> FailedStep {
    match outcome {
        Err(Error::Step(step)) => *step,
        other => panic!("{other:?}"),
    }
}

/// One counter at each of these places.
pub(crate) fn counters(control: &Control, places: &[&str]) -> Vec<Reference<Counter>> {
    places.iter().map(|place| control.create::<Counter>(place, None, 0).unwrap()).collect()
}

/// An interface of the calling thread's own core and another one, where there is one.
fn two_cores() -> Interface {
    let cpus = kumiki_sys::affinity::current().unwrap();
    let (own, other) = (cpus.iter().last().unwrap(), cpus.first().unwrap());
    let builder = Interface::builder().kind::<Counter>().adopted([own]);
    builder.cores(Some(other).filter(|other| *other != own)).per_core().unwrap()
}

#[test]
fn one_chain_crosses_five_placements_in_any_order() {
    let own = two_cores();
    let home: Vec<String> =
        own.places().into_iter().map(|place| own.place_name(place).unwrap()).collect();
    let cpu = kumiki_sys::affinity::current().unwrap().iter().last().unwrap();
    let managed = own.places().into_iter().find(|place| usize::from(place.0) == cpu).unwrap();
    let _manager = own.manage(managed).unwrap();
    let (_process, there) = other(&unique("chain"), None);
    let (memory, host) = (lines::memory(), unique("chainw"));
    let server = Server::here(&host).parts(parts()).allow(Allow::everything());
    let (_interface, _served, node) = managing(server.window(lines::whole(&memory))).unwrap();
    let (window, relay) = lines::lines(&host, &memory);
    let server = NatsServer::start();
    let (_machine, far) = other("chain", Some(&server.url()));
    let builder = Control::builder().home(&own, parts()).lines(window);
    let control = builder.nats(Nats::at(server.url())).build().unwrap().with_timeout(PATIENCE);

    let places: Vec<&str> =
        home.iter().map(String::as_str).chain([&*there, &*node, &*far]).collect();
    let all = counters(&control, &places);
    for n in (0..120).step_by(7) {
        let mut left: Vec<usize> = (0..all.len()).collect();
        let mut take = |rest: usize| left.remove(n / rest % left.len());
        let order: Vec<usize> =
            [24, 6, 2, 1, 1][5 - all.len()..].iter().map(|at| take(*at)).collect();
        for (at, on) in all.iter().enumerate() {
            let value = control.call::<Get>(on, ()).unwrap();
            control.call::<Add>(on, (at + 10 * n) as i64 - value).unwrap();
        }
        let mut chain = control.chain::<Add>(&all[order[0]]);
        for at in &order[1..] {
            chain = chain.then::<Add>(&all[*at]);
        }
        let gave = chain.call(1).unwrap();
        let mut sum = 1;
        for at in &order {
            sum += (at + 10 * n) as i64;
            let value = control.call::<Get>(&all[*at], ()).unwrap();
            assert_eq!(value, sum, "once, with what the one before gave: {order:?}");
        }
        assert_eq!(gave, sum, "{order:?}");
    }
    drop((chain_of_one(&control, &all[0]), control));
    relay.join().unwrap();
}

#[test]
fn a_chain_goes_to_a_place_by_an_own_connection() {
    let nats = NatsServer::start();
    let line = Line::to(&nats);
    let server = Server::new(Nats::at(nats.url()), "ownchain").parts(more_parts());
    let server = server.allow(Allow::everything()).listening(local(0));
    let (_interface, served, far) = managing(server).unwrap();
    let own = crate::five_places::interface(false).unwrap();
    let core = own.place_name(own.places()[0]).unwrap();
    let builder = Control::builder().home(&own, more_parts()).nats(Nats::at(line.url()));
    let control = builder.build().unwrap().with_timeout(PATIENCE);
    let on = counters(&control, &[&core, &far, &far, &core]);
    let end = std::time::Instant::now() + PATIENCE;
    while !format!("{control:?}").contains("own connection") {
        control.call::<Get>(&on[1], ()).unwrap();
        assert!(std::time::Instant::now() < end, "{control:?}");
    }
    // One step there alone, two in one request, one that blocks, and one that fails behind one that has run.
    let one = control.chain::<Add>(&on[0]).then::<Add>(&on[1]).then::<Add>(&on[3]);
    let two = control.chain::<Add>(&on[0]).then::<Add>(&on[1]).then::<Add>(&on[2]);
    let two = two.then::<Add>(&on[3]);
    let waits = control.chain::<Wait>(&on[1]).then::<Wait>(&on[0]).then::<Count>(&on[2]);
    let fails = control.chain::<Add>(&on[1]).then::<Positive>(&on[2]).then::<Add>(&on[0]);
    // Nothing comes by the server, nor goes.
    line.down();
    let before = served.figures()()[0].messages;
    let [mut a, mut b, mut c, mut d] = [0_i64; 4];
    for _ in 0..20 {
        (a, b, d) = (a + 1, b + a + 1, d + b + a + 1);
        assert_eq!(one.call(1).unwrap(), d);
        a += 1;
        (b, c) = (b + a, c + b + a);
        d += c;
        assert_eq!(two.call(1).unwrap(), d);
    }
    assert_eq!(served.figures()()[0].messages - before, 40, "one request each");
    assert_eq!(waits.call(3).unwrap(), 3);
    let failed = step(fails.call(-b - 1));
    assert_eq!((failed.number(), failed.has_run()), (2, 1), "{failed}");
    assert_eq!(failed.answer::<i64>(1).unwrap(), -1);
    let values: Vec<i64> = on.iter().map(|on| control.call::<Get>(on, ()).unwrap()).collect();
    assert_eq!(values, [a, -1, c, d]);
    assert_eq!(served.figures()()[0].direct, 1);
    line.up();
}

/// A chain of one is a call.
fn chain_of_one(control: &Control, on: &Reference<Counter>) {
    let before = control.call::<Get>(on, ()).unwrap();
    assert_eq!(control.chain::<Add>(on).call(1).unwrap(), before + 1);
}

/// Takes a counter's value as a text.
#[derive(Debug)]
struct Text;

impl Part for Text {
    type Kind = Counter;
    const NAME: &'static str = "text";
    type In = i64;
    type Out = Vec<u8>;
}

impl Run for Text {
    fn run(counter: &mut Counter, (): &mut (), more: i64) -> Vec<u8> {
        format!("{} and {more}", counter.0).into_bytes()
    }
}

/// Adds, and panics at a number that is negative.
#[derive(Debug)]
pub(crate) struct Positive;

impl Part for Positive {
    type Kind = Counter;
    const NAME: &'static str = "positive";
    type In = i64;
    type Out = i64;
}

impl Run for Positive {
    fn run(counter: &mut Counter, (): &mut (), more: i64) -> i64 {
        if more < 0 {
            std::panic::resume_unwind(Box::new("it is negative"));
        }
        counter.0 += more;
        counter.0
    }
}

/// Blocks for so many milliseconds, and gives their number.
#[derive(Debug)]
pub(crate) struct Wait;

impl Part for Wait {
    type Kind = Counter;
    const NAME: &'static str = "wait";
    type In = u64;
    type Out = u64;
}

impl Block for Wait {
    fn begin(_: &mut Counter, (): &mut (), ms: u64) -> Work<u64> {
        Box::new(move || {
            std::thread::sleep(Duration::from_millis(ms));
            ms
        })
    }
}

/// Gives back the number that it takes.
#[derive(Debug)]
pub(crate) struct Count;

impl Part for Count {
    type Kind = Counter;
    const NAME: &'static str = "count";
    type In = u64;
    type Out = u64;
}

impl Run for Count {
    fn run(_: &mut Counter, (): &mut (), n: u64) -> u64 {
        n
    }
}

pub(crate) fn more_parts() -> Parts {
    parts().part::<Text>().part::<Positive>().part::<Count>().blocking::<Wait>()
}

/// A control with a home, and the names of a place of it and of one at a socket.
fn here_and_there(host: &str) -> (Control, [String; 2], impl Sized) {
    let own = crate::five_places::interface(false).unwrap();
    let core = own.place_name(own.places()[0]).unwrap();
    let server = Server::here(unique(host)).parts(more_parts());
    let server = server.allow(Allow::everything());
    let (interface, served, there) = managing(server).unwrap();
    let control = Control::builder().home(&own, more_parts()).build().unwrap();
    (control.with_timeout(PATIENCE), [core, there], (own, interface, served))
}

#[test]
fn types_change_from_step_to_step_and_a_part_may_block_or_be_long() {
    let (control, places, _all) = here_and_there("types");
    for place in &places {
        for then in &places {
            let on = counters(&control, &[place, then]);
            control.call::<Add>(&on[1], 5).unwrap();
            let chain = control.chain::<Add>(&on[0]).then::<Text>(&on[1]).then::<Echo>(&on[0]);
            assert_eq!(chain.call(2).unwrap(), b"5 and 2");
            // A chain may be called often, and in a task.
            assert_eq!(block_on(async { chain.call(2).unwrap() }), b"5 and 4");
            let long = control.chain::<Echo>(&on[0]).then::<Echo>(&on[1]);
            assert_eq!(long.call(vec![7; 50_000]).unwrap(), vec![7; 50_000]);
            assert_eq!(control.chain::<Later>(&on[0]).then::<Add>(&on[1]).call(1).unwrap(), 9);
        }
    }
}

#[test]
fn a_step_that_fails_is_named_and_what_has_run_is_not_lost() {
    let (control, places, _all) = here_and_there("fails");
    for place in &places {
        for then in &places {
            let on = counters(&control, &[place, then, place]);
            control.call::<Add>(&on[0], -7).unwrap();
            // A panic in the middle.
            let chain = control.chain::<Add>(&on[0]).then::<Positive>(&on[1]).then::<Add>(&on[2]);
            let failed = step(chain.call(3));
            assert_eq!((failed.number(), failed.has_run()), (2, 1), "{failed}");
            assert_eq!(failed.answer::<i64>(1).unwrap(), -4);
            assert!(
                matches!(failed.error(), Error::Refused { why: Why::Panicked, .. }),
                "{failed}"
            );
            assert_eq!(control.call::<Get>(&on[0], ()).unwrap(), -4, "it has run, once");
            assert_eq!(control.call::<Get>(&on[2], ()).unwrap(), 0, "it has not begun");
            // Rights are looked at before anything runs.
            let none = on[2].share(Rights::SHARE).unwrap();
            let failed = step(control.chain::<Add>(&on[0]).then::<Add>(&none).call(100));
            assert_eq!((failed.number(), failed.has_run()), (2, 0), "{failed}");
            assert!(matches!(failed.into_error(), Error::Rights { .. }));
            assert_eq!(control.call::<Get>(&on[0], ()).unwrap(), -4, "no step has run");
            // One that has gone.
            let gone = on[2].share(on[2].rights()).unwrap();
            let chain = control.chain::<Add>(&on[1]).then::<Add>(&on[1]).then::<Add>(&gone);
            control.destroy(on[2].clone()).unwrap();
            let failed = step(chain.call(2));
            assert_eq!((failed.number(), failed.has_run()), (3, 2), "{failed}");
            let gave = [failed.answer::<i64>(1).unwrap(), failed.answer::<i64>(2).unwrap()];
            assert_eq!(gave, [2, 4]);
            assert!(matches!(failed.error(), Error::Refused { why: Why::Stale, .. }), "{failed}");
        }
    }
}

#[test]
fn a_limit_is_the_whole_chains() {
    let (control, places, _all) = here_and_there("limit");
    for place in &places {
        let on = counters(&control, &[place, place]);
        let short = control.with_timeout(Duration::from_secs(1));
        // Each step alone would have its time.
        let mut chain = short.chain::<Wait>(&on[0]).then::<Wait>(&on[1]);
        for _ in 0..4 {
            chain = chain.then::<Wait>(&on[0]);
        }
        let failed = step(chain.call(400));
        assert!(failed.number() <= 3, "three take longer than a second: {failed}");
        assert_eq!(failed.has_run(), failed.number() - 1, "{failed}");
        assert!(
            matches!(failed.error(), Error::Unknown { .. } | Error::NotSent { .. }),
            "{failed}"
        );
    }
}

#[test]
fn a_place_that_has_gone_is_its_step() {
    let (_interface, served, there) = served(&unique("gonechain"));
    let own = crate::five_places::interface(false).unwrap();
    let core = own.place_name(own.places()[0]).unwrap();
    let control = Control::builder().home(&own, parts()).build().unwrap().with_timeout(PATIENCE);
    let on = counters(&control, &[&core, &there]);
    let chain = control.chain::<Add>(&on[0]).then::<Add>(&on[1]);
    assert_eq!(chain.call(1).unwrap(), 1);
    drop(served);
    for n in 2..4 {
        let failed = step(chain.call(1));
        assert_eq!((failed.number(), failed.answer::<i64>(1).unwrap()), (2, n), "{failed}");
        assert!(matches!(failed.error(), Error::Gone { .. } | Error::Unknown { .. }), "{failed}");
    }
}
