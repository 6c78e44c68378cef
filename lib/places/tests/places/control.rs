//! The interface control: one program with its resources at five placements, and what it is told when a place ends.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::{self, Why};
use kumiki_places::{
    Allow, Binding, Control, Error, Nats, News, Part, PlaceNews, Result, Run, Served, Server,
};
use kumiki_resource::{Interface, Name, Rights};

use crate::five_places::{Echo, Fails, Later, parts, program, serve};
use crate::here::unique;
use crate::lines;
use crate::nats::NatsServer;
use crate::scene::{Other, PATIENCE, block_on, managing};

const HOST: &str = "KUMIKI_TEST_CONTROL_HOST";
const URL: &str = "KUMIKI_TEST_CONTROL_URL";

const CHAIN_FAILS: &str =
    "a chain whose second one is destroyed: step 2: it is stale, and 1 has run";

/// No test, but the process of others.
#[test]
fn a_process_of_another_test() {
    let Ok(host) = std::env::var(HOST) else { return };
    println!("it serves");
    serve(&host, std::env::var(URL).ok().as_deref()).unwrap();
}

/// A process that serves, and the name of its place.
pub(crate) fn other(host: &str, url: Option<&str>) -> (Other, String) {
    let mut variables = vec![(HOST, host)];
    variables.extend(url.map(|url| (URL, url)));
    let other = Other::start("control::a_process_of_another_test", &variables);
    let control = control(url);
    let core = kumiki_sys::affinity::current().unwrap().iter().last().unwrap();
    let place = format!("{host}.core{core}");
    // It says that it will, and then does.
    let end = std::time::Instant::now() + PATIENCE;
    while control.list(&place, "**").is_err() {
        assert!(std::time::Instant::now() < end, "it does not serve");
        std::thread::sleep(Duration::from_millis(5));
    }
    (other, place)
}

fn control(url: Option<&str>) -> Control {
    let builder = Control::builder();
    let builder = match url {
        Some(url) => builder.nats(Nats::at(url)),
        None => builder,
    };
    builder.build().unwrap().with_timeout(PATIENCE)
}

/// A place that this process serves at a socket, by this program's parts.
pub(crate) fn served(host: &str) -> (Interface, Served, String) {
    managing(Server::here(host).parts(parts()).allow(Allow::everything())).unwrap()
}

/// What the program prints with its resources in this process.
fn at_home(own: bool) -> Vec<String> {
    let interface = crate::five_places::interface(own).unwrap();
    let core = interface.places()[0];
    let _manager = own.then(|| interface.manage(core).unwrap());
    let control = Control::builder().home(&interface, parts()).build().unwrap();
    program(&control, &interface.place_name(core).unwrap()).unwrap()
}

#[test]
fn at_five_placements_one_program_prints_the_same_lines() {
    let lines = at_home(true);
    assert_eq!(lines.len(), 19, "{lines:#?}");
    let chain = ["a chain of three: 1144", CHAIN_FAILS];
    assert!(chain.iter().all(|own| lines.iter().any(|line| line == own)), "{lines:#?}");
    assert!(lines.iter().any(|line| line == "two that were started: 1042, 1042"), "{lines:#?}");
    let watched = "watched: it is here, + counter/seen, - counter/seen";
    assert!(lines.iter().any(|line| line == watched), "{lines:#?}");
    assert_eq!(lines[1], "1000 times 1 more: 1042");
    assert_eq!(at_home(false), lines, "another core");

    let (_process, place) = other(&unique("five"), None);
    let control = control(None);
    assert_eq!(program(&control, &place).unwrap(), lines, "another process");
    assert_eq!(format!("{control:?}"), format!("{{{place:?}: \"lines\"}}"));

    let server = NatsServer::start();
    let (_machine, place) = other("five", Some(&server.url()));
    let far = self::control(Some(&server.url()));
    assert_eq!(program(&far, &place).unwrap(), lines, "another machine");
    assert_eq!(format!("{far:?}"), format!("{{{place:?}: \"messages\"}}"));
}

/// A window between two kernels, as far as one has it: memory that both map, and a relay's stream.
#[test]
fn in_a_node_the_program_prints_the_same_lines() {
    let (memory, host) = (lines::memory(), unique("window"));
    let server = Server::here(&host).parts(parts()).allow(Allow::everything());
    let (_interface, _served, place) = managing(server.window(lines::whole(&memory))).unwrap();
    let (window, relay) = lines::lines(&host, &memory);
    // Given as it is: that its places are told is waited for.
    let control = Control::builder().lines(window).build().unwrap().with_timeout(PATIENCE);
    let said = program(&control, &place);
    assert_eq!(format!("{control:?}"), format!("{{{place:?}: \"lines\"}}"));
    assert_eq!(said.unwrap(), at_home(false));
    drop(control);
    relay.join().unwrap();
}

#[test]
fn in_a_task_of_a_runtime_a_call_waits_and_does_not_panic() {
    let (_interface, _served, place) = served(&unique("task"));
    block_on(async {
        let control = control(None);
        let hits = control.create::<Counter>(&place, None, 1).unwrap();
        assert_eq!(control.call::<Add>(&hits, 1).unwrap(), 2);
        // Messages, too.
        assert_eq!(control.call::<Later>(&hits, 1).unwrap(), 2);
    });
}

/// Whether an outcome says that the place has another life, or none.
fn says_so<T: std::fmt::Debug>(outcome: Result<T>) -> bool {
    match outcome {
        Err(Error::Gone { .. } | Error::Unknown { .. }) => true,
        Err(Error::Refused { why, .. }) => why == Why::Stale,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}

/// A place that ends and comes again: a binding by its name says so once, and goes on.
fn another_life(control: &Control, serve: impl Fn() -> (Interface, Served, String)) {
    let (interface, first, place) = serve();
    let old = control.create::<Counter>(&place, Some("hits"), 40).unwrap();
    let name: Name = format!("{place}/counter/hits").parse().unwrap();
    let mut add: Binding<Add> = control.bind_name(&name).unwrap();
    assert_eq!(add.call(1).unwrap(), 41);
    drop((interface, first));
    let (_interface, _second, _) = serve();
    let new = control.create::<Counter>(&place, Some("hits"), 50).unwrap();
    assert!(says_so(add.call(1)), "it must not be done unsaid in another life");
    assert_eq!(add.call(1).unwrap(), 51, "said once");
    assert!(says_so(control.call::<Add>(&old, 1)), "a reference is of one life");
    assert!(says_so(control.bind::<Add>(&old)), "and so is what is bound by it");
    assert_eq!(control.call::<Get>(&new, ()).unwrap(), 51);
}

#[test]
fn a_binding_says_once_that_its_place_has_another_life() {
    let host = unique("life");
    another_life(&control(None), || served(&host));
    let server = NatsServer::start();
    another_life(&control(Some(&server.url())), || {
        let nats = Server::new(Nats::at(server.url()), &host);
        managing(nats.parts(parts()).allow(Allow::everything())).unwrap()
    });
}

#[test]
fn a_process_that_is_killed_is_unknown_to_who_waits_and_gone_to_others() {
    let (process, place) = other(&unique("killed"), None);
    let control = control(None);
    let hits = control.create::<Counter>(&place, None, 0).unwrap();
    let name: Name = format!("{place}/counter/more").parse().unwrap();
    control.create::<Counter>(&place, Some("more"), 0).unwrap();
    let mut add = control.bind_name::<Add>(&name).unwrap();
    assert_eq!(add.call(1).unwrap(), 1);
    let waits = std::thread::spawn({
        let (control, hits) = (control.clone(), hits.clone());
        move || control.call::<Later>(&hits, u64::from(u32::MAX))
    });
    // It has begun, or is about to.
    std::thread::sleep(Duration::from_millis(50));
    drop(process);
    let outcome = waits.join().unwrap();
    assert!(matches!(outcome, Err(Error::Unknown { .. } | Error::Gone { .. })), "{outcome:?}");
    for _ in 0..3 {
        let gone = control.call::<Add>(&hits, 1);
        assert!(matches!(gone, Err(Error::Gone { .. } | Error::Unknown { .. })), "{gone:?}");
        assert!(says_so(add.call(1)));
    }
    let gone = control.create::<Counter>(&place, None, 0).map(drop);
    assert!(matches!(gone, Err(Error::Gone { .. })), "{gone:?}");
}

#[test]
fn rights_and_limits_are_the_same_here_and_elsewhere() {
    let own = crate::five_places::interface(false).unwrap();
    let core = own.place_name(own.places()[0]).unwrap();
    let (_interface, _served, there) = served(&unique("limits"));
    let control = Control::builder().home(&own, parts()).host("me").build().unwrap();
    for place in [&core, &format!("me.{core}"), &there] {
        let hits = control.create::<Counter>(place, None, 7).unwrap();
        let none = hits.share(Rights::SHARE).unwrap();
        let refused = |error: Error| assert!(matches!(error, Error::Rights { .. }), "{error}");
        refused(control.call::<Add>(&none, 1).unwrap_err());
        refused(control.bind::<Add>(&none).map(drop).unwrap_err());
        refused(control.destroy(none).unwrap_err());
        // Beside other work a call may not have begun after so little.
        let limits = (0..8).map(|n| Duration::from_millis(30 << n));
        let late = limits.map(|limit| {
            let short = control.with_timeout(limit);
            short.call::<Later>(&hits, u64::from(u32::MAX)).unwrap_err()
        });
        let begun = late.into_iter().find(|error| !matches!(error, Error::NotSent { .. }));
        assert!(matches!(begun, Some(Error::Unknown { .. })), "{place}: {begun:?}");
        assert_eq!(control.call::<Get>(&hits, ()).unwrap(), 7);
    }
}

/// What is bound on the caller's own core, or another one of its process, is refused as elsewhere, and goes on.
fn bound_at_home(own: bool) {
    let interface = crate::five_places::interface(own).unwrap();
    let core = interface.places()[0];
    let _manager = own.then(|| interface.manage(core).unwrap());
    let place = interface.place_name(core).unwrap();
    let control = Control::builder().home(&interface, parts()).build().unwrap();
    // With a limit a call goes another way than without.
    for control in [control.clone(), control.with_timeout(PATIENCE)] {
        let hits = control.create::<Counter>(&place, None, 7).unwrap();
        let mut add = control.bind::<Add>(&hits).unwrap();
        let mut fails = control.bind::<Fails>(&hits).unwrap();
        let mut later = control.bind::<Later>(&hits).unwrap();
        for n in 0..3 {
            assert_eq!(add.call(1).unwrap(), 8 + n);
            let panicked = fails.call(()).unwrap_err();
            assert!(
                matches!(&panicked, Error::Refused { why: Why::Panicked, .. }),
                "own {own}: {panicked}"
            );
            assert_eq!(later.call(1).unwrap(), 8 + n);
        }
        control.destroy(hits).unwrap();
        for _ in 0..2 {
            let stale = add.call(1).unwrap_err();
            assert!(matches!(&stale, Error::Refused { why: Why::Stale, .. }), "own {own}: {stale}");
        }
    }
}

#[test]
fn what_is_bound_at_home_is_refused_as_elsewhere() {
    bound_at_home(true);
    bound_at_home(false);
}

#[test]
fn one_batch_crosses_this_process_and_others() {
    let own = crate::five_places::interface(false).unwrap();
    let core = own.place_name(own.places()[0]).unwrap();
    let (_interface, served, there) = served(&unique("each"));
    let server = NatsServer::start();
    let (_machine, far) = other("each", Some(&server.url()));
    let builder = Control::builder().home(&own, parts()).nats(Nats::at(server.url()));
    let control = builder.build().unwrap().with_timeout(PATIENCE);
    let places = [&core, &there, &far];
    let make = |n: i64| control.create::<Counter>(places[n as usize % 3], None, n).unwrap();
    let all: Vec<_> = (0..60).map(make).collect();
    let sums = control.each::<Add>(all.iter().zip(100..));
    for (n, sum) in sums.into_iter().enumerate() {
        assert_eq!(sum.unwrap(), 2 * n as i64 + 100);
    }
    // What goes as bytes.
    let input = |n: usize| vec![n as u8; 100 * n];
    let back = control.each::<Echo>(all.iter().enumerate().map(|(n, on)| (on, input(n))));
    for (n, bytes) in back.into_iter().enumerate() {
        assert_eq!(bytes.unwrap(), input(n));
    }
    // One that has ended is the error of its own alone.
    drop(served);
    for (n, sum) in control.each::<Get>(all.iter().map(|on| (on, ()))).into_iter().enumerate() {
        match n % 3 {
            1 => assert!(says_so(sum)),
            _ => assert_eq!(sum.unwrap(), 2 * n as i64 + 100),
        }
    }
}

/// The same names as [`Add`]'s, with another type: a program that knows no more than these.
struct AddAsText;

impl Part for AddAsText {
    type Kind = Counter;
    const NAME: &'static str = "add";
    type In = i8;
    type Out = String;
}

/// The same with another version.
struct AddOfLater;

impl Part for AddOfLater {
    type Kind = Counter;
    const NAME: &'static str = "add";
    const VERSION: u32 = 2;
    type In = i64;
    type Out = i64;
}

impl Run for AddOfLater {
    fn run(_: &mut Counter, (): &mut (), _: i64) -> i64 {
        unreachable!("no place has it")
    }
}

#[test]
fn a_part_is_known_by_its_names_at_home_as_elsewhere() {
    let own = crate::five_places::interface(false).unwrap();
    let core = own.place_name(own.places()[0]).unwrap();
    let (_interface, _served, there) = served(&unique("parts"));
    let control = Control::builder().home(&own, parts()).build().unwrap();
    for place in [&core, &there] {
        let hits = control.create::<Counter>(place, None, 1).unwrap();
        // What it gives is no text, and the caller is told so.
        let other = control.call::<AddAsText>(&hits, 1);
        assert!(matches!(other, Err(Error::Value { .. })), "{place}: {other:?}");
        assert_eq!(control.call::<Get>(&hits, ()).unwrap(), 2);
        let later = control.bind::<AddOfLater>(&hits).map(drop).unwrap_err();
        assert!(matches!(later, Error::Refused { why: Why::OtherVersion, .. }), "{later}");
    }
}

/// Writes a frame about lanes, and reads one.
fn say(stream: &mut UnixStream, message: &[u8]) {
    let head = [&u64::MAX.to_le_bytes()[..], &(message.len() as u32).to_le_bytes()].concat();
    stream.write_all(&[&head, message].concat()).unwrap();
}

#[test]
fn who_asks_for_memory_without_end_gets_one() {
    let (_interface, _served, place) = served(&unique("greedy"));
    let folder = kumiki_resource::published::folder().unwrap();
    let mut stream = UnixStream::connect(folder.join(format!("{place}.place"))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = [&[wire::VERSION][..], b"\x81\xa6Memory\x91\x00"].concat();
    for _ in 0..100 {
        say(&mut stream, &ask);
    }
    // One was given, and the others were refused, each by a frame.
    for n in 0..100 {
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        let mut message = vec![0; u32::from_le_bytes(head[8..].try_into().unwrap()) as usize];
        stream.read_exact(&mut message).unwrap();
        let text = String::from_utf8_lossy(&message).into_owned();
        assert_eq!(text.contains("Refused"), n != 0, "{n}: {text}");
    }
    // Words that are none end nobody.
    for word in [&b"\x81\xa6Memory"[..], b"", b"\xff\xff", b"\x81\xa4Long\x92\x00\xc4\x01\x00"] {
        say(&mut stream, &[&[wire::VERSION][..], word].concat());
    }
    let control = control(None);
    let hits = control.create::<Counter>(&place, None, 1).unwrap();
    assert_eq!(control.call::<Add>(&hits, 1).unwrap(), 2);
    assert_eq!(format!("{control:?}"), format!("{{{place:?}: \"lines\"}}"));
}

#[test]
fn what_is_started_goes_on_beside_its_caller_and_is_waited_for_by_threads_and_tasks() {
    let own = crate::five_places::interface(false).unwrap();
    let core = own.place_name(own.places()[0]).unwrap();
    let (_interface, served, there) = served(&unique("started"));
    let control = Control::builder().home(&own, parts()).build().unwrap().with_timeout(PATIENCE);
    for place in [&core, &there] {
        let hits = control.create::<Counter>(place, None, 7).unwrap();
        // Twenty that block for as long as one.
        let begin = std::time::Instant::now();
        let all: Vec<_> = (0..20).map(|_| control.start::<Later>(&hits, 1000)).collect();
        // One behind another take twenty seconds, on however busy a machine no less.
        assert!(begin.elapsed() < Duration::from_secs(10), "{place}: {:?}", begin.elapsed());
        for one in all {
            assert_eq!(one.wait().unwrap(), 7, "{place}");
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{place}: one behind another");
        let mut slow = control.start::<Later>(&hits, 200);
        assert!(slow.wait_timeout(Duration::from_millis(1)).is_none(), "{place}");
        assert_eq!(slow.wait_timeout(PATIENCE).unwrap().unwrap(), 7, "{place}");
        // It is given once, in whichever way it is asked for again.
        let again = slow.wait_timeout(PATIENCE).unwrap();
        assert!(matches!(again, Err(Error::Value { .. })), "{place}: {again:?}");
        let again = block_on(async { (&mut slow).await });
        assert!(matches!(again, Err(Error::Value { .. })), "{place}: {again:?}");
        let again = slow.wait();
        assert!(matches!(again, Err(Error::Value { .. })), "{place}: {again:?}");
        // One that nobody waits for has its effect.
        drop(control.start::<Add>(&hits, 1));
        let end = std::time::Instant::now() + PATIENCE;
        while control.call::<Get>(&hits, ()).unwrap() != 8 {
            assert!(std::time::Instant::now() < end, "{place}: it does not go on");
        }
        // A task of another runtime, and errors.
        let awaited = block_on(async { control.start::<Add>(&hits, 1).await });
        assert_eq!(awaited.unwrap(), 9, "{place}");
        let short = control.with_timeout(Duration::from_millis(30));
        let unknown = short.start::<Later>(&hits, u64::from(u32::MAX)).wait().unwrap_err();
        assert!(matches!(unknown, Error::Unknown { .. }), "{place}: {unknown}");
        let none = hits.share(Rights::SHARE).unwrap();
        let refused = control.start::<Add>(&none, 1).wait().unwrap_err();
        assert!(matches!(refused, Error::Rights { .. }), "{place}: {refused}");
        let panicked = control.start::<Fails>(&hits, ()).wait().unwrap_err();
        assert!(matches!(panicked, Error::Refused { why: Why::Panicked, .. }), "{panicked}");
        // A part whose types are not known here.
        let other = control.start::<AddAsText>(&hits, 0).wait();
        assert!(matches!(other, Err(Error::Value { .. })), "{place}: {other:?}");
    }
    // The control may go before what it has started.
    let hits = control.create::<Counter>(&there, None, 7).unwrap();
    let late = control.start::<Later>(&hits, 100);
    drop(control);
    assert_eq!(late.wait().unwrap(), 7);
    drop(served);
}

/// Names that have come, until one of this name.
fn news_until(news: &mut PlaceNews, last: &str) -> Vec<News> {
    let mut all = Vec::new();
    loop {
        let one = news.wait_timeout(PATIENCE).expect("news come");
        let is_last = matches!(&one, News::Changed(change) if change.name.ends_with(last));
        all.push(one);
        if is_last {
            return all;
        }
    }
}

#[test]
fn a_place_is_watched_by_the_control_wherever_it_is() {
    let own = crate::five_places::interface(false).unwrap();
    let core = own.place_name(own.places()[0]).unwrap();
    let (_interface, served, there) = served(&unique("watched"));
    let control = Control::builder().home(&own, parts()).host("me").build().unwrap();
    let control = control.with_timeout(PATIENCE);
    let bad = control.watch(&core, "[").map(drop).unwrap_err();
    assert!(matches!(bad, Error::Value { .. }), "{bad}");
    let gone = control.watch("nobody.core0", "**").map(drop).unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
    // By the name that all know, also of a core of this process.
    let mine = format!("me.{core}");
    for place in [&mine, &there] {
        let mut news = control.watch(place, &format!("{place}/counter/s*")).unwrap();
        assert!(matches!(news.wait(), News::Here { .. }), "{place}");
        assert!(news.wait_timeout(Duration::from_millis(100)).is_none(), "{place}");
        let other = control.create::<Counter>(place, Some("other"), 0).unwrap();
        let seen = control.create::<Counter>(place, Some("seen"), 0).unwrap();
        let id = seen.id();
        control.destroy(other).unwrap();
        control.destroy(seen).unwrap();
        for created in [true, false] {
            let News::Changed(change) = block_on(news.next()) else { panic!("{place}") };
            assert_eq!((change.name, change.id), (format!("{place}/counter/seen"), id));
            assert_eq!(change.created, created);
        }
    }
    // Who takes no news for long is told so, at one place of this process in a few words.
    let mut news = control.watch(&mine, "**/counter/*").unwrap();
    for n in 0..1000 {
        control.create::<Counter>(&mine, Some(&format!("n{n}")), 0).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(matches!(news.wait(), News::Here { .. }));
    assert!(matches!(news.wait(), News::Changed(_)));
    // The next one after there is room again.
    std::thread::sleep(Duration::from_millis(200));
    control.create::<Counter>(&mine, Some("last"), 0).unwrap();
    let all = news_until(&mut news, "/last");
    assert!(all.len() < 400, "{}", all.len());
    assert_eq!(all.iter().filter(|one| **one == News::Missed).count(), 1);
    assert_eq!(all[all.len() - 2], News::Missed);
    // A place that ends says so.
    let mut news = control.watch(&there, "**").unwrap();
    assert!(matches!(news.wait(), News::Here { .. }));
    drop(served);
    assert_eq!(news.wait_timeout(PATIENCE), Some(News::Gone));
}
