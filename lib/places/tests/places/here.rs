//! Places of this machine's other processes, by the same calls.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use kumiki_places::standard::{Add, Counter, Get, parts};
use kumiki_places::wire::Why;
use kumiki_places::{Allow, Block, Choice, Client, Error, News, Part, Run, Served, Server, Work};
use kumiki_resource::{Interface, Name};

use crate::scene::{Other, PATIENCE, block_on, interface, managing, stay};
use crate::watch::{change, life, next};

/// Sleeps until its process is killed.
pub(crate) struct Never;

impl Part for Never {
    type Kind = Counter;
    const NAME: &'static str = "never";
    type In = ();
    type Out = ();
}

impl Block for Never {
    fn begin(counter: &mut Counter, (): &mut (), (): ()) -> Work<()> {
        counter.0 += 1;
        Box::new(|| std::thread::sleep(2 * PATIENCE))
    }
}

/// Keeps its owner's thread from all else for so many milliseconds.
pub(crate) struct Spin;

impl Part for Spin {
    type Kind = Counter;
    const NAME: &'static str = "spin";
    type In = u64;
    type Out = ();
}

impl Run for Spin {
    fn run(_: &mut Counter, (): &mut (), ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }
}

/// A place's name that no other process and test has.
pub(crate) fn unique(test: &str) -> String {
    format!("t{}{test}", std::process::id())
}

fn served(name: &str, allow: Option<Allow>) -> kumiki_places::Result<(Interface, Served, String)> {
    let server = Server::here(name).parts(parts().blocking::<Never>().part::<Spin>());
    managing(match allow {
        Some(allow) => server.allow(allow),
        None => server,
    })
}

const NAME: &str = "KUMIKI_TEST_PLACE_HERE";

/// A process that serves a place of this name until it is killed.
fn other(name: &str) -> Other {
    other_with(name, &[])
}

/// The same with more variables.
pub(crate) fn other_with(name: &str, more: &[(&str, &str)]) -> Other {
    Other::start("here::a_process_of_another_test", &[&[(NAME, name)], more].concat())
}

/// No test, but the process of others.
#[test]
fn a_process_of_another_test() {
    let Ok(name) = std::env::var(NAME) else { return };
    let _served = served(&name, Some(Allow::everything())).unwrap();
    stay();
}

#[test]
fn another_process_is_called_by_name_and_its_end_answers_every_pending_call() {
    let name = unique("called");
    let first = other(&name);
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let places = client.choose(&format!("{name}.*"), Choice::Any).await.unwrap();
        let place = places[0].clone();
        let hits = client.create::<Counter>(&place, Some("hits"), 40).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 2).await.unwrap(), 42);
        let each = client.each::<Add>((0..300).map(|_| (&hits, 1))).await;
        assert_eq!(each.last().unwrap().as_ref().unwrap(), &342);
        let opened: Name = format!("{place}/counter/hits").parse().unwrap();
        let opened = client.open::<Counter>(&opened).await.unwrap();
        assert_eq!(client.call::<Get>(&opened, ()).await.unwrap(), 342);
        let seen = client.places().await.unwrap();
        assert!(seen.iter().any(|seen| seen.place == place), "{seen:?}");
        assert_eq!(client.ls(&place, "**/counter/*").await.unwrap().len(), 1);

        // Several that block, and the process is killed under them.
        let all = [(); 8].map(|()| client.call::<Never>(&hits, ()));
        let kill = async {
            while client.call::<Get>(&hits, ()).await.unwrap() < 350 {}
            drop(first);
        };
        let begin = Instant::now();
        let (outcomes, ()) = tokio::join!(futures_util::future::join_all(all), kill);
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Unknown { .. }), "{error}");
        }
        let error = client.call::<Add>(&hits, 1).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        assert!(begin.elapsed() < PATIENCE / 2, "it waited for its patience");

        // Another life of the name knows nothing of before.
        let _again = other(&name);
        let error = client.call::<Add>(&hits, 1).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Stale, .. }), "{error}");
        let hits = client.create::<Counter>(&place, Some("hits"), 1).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 2);
    });
}

#[test]
fn if_nothing_is_said_names_may_be_listed_and_nothing_else() {
    let (interface, _served, place) = served(&unique("listed"), None).unwrap();
    let own = interface.create::<Counter>(interface.places()[0], Some("a"), 1).unwrap();
    block_on(async {
        let client = Client::here();
        assert_eq!(client.ls(&place, "**/counter/a").await.unwrap().len(), 1);
        let name: Name = format!("{place}/counter/a").parse().unwrap();
        let opened = client.open::<Counter>(&name).await.unwrap();
        for error in [
            client.create::<Counter>(&place, None, 0).await.map(|_| ()).unwrap_err(),
            client.call::<Get>(&opened, ()).await.map(|_| ()).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Refused { why: Why::NotAllowed, .. }), "{error}");
        }
        client.watch(&place, "**").await.unwrap();
    });
    interface.destroy(own).unwrap();
}

#[test]
fn a_name_is_one_process_own_and_free_when_that_has_ended() {
    let name = unique("own");
    let first = served(&name, None).unwrap();
    let error = served(&name, None).map(|_| ()).unwrap_err();
    assert!(matches!(&error, Error::PlaceTaken { place } if *place == first.2), "{error}");
    drop(first);
    let (_interface, _served, place) = served(&name, None).unwrap();
    block_on(async {
        let error = Client::here().create::<Counter>("nobody.core0", None, 0).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        let outside = Client::here().create::<Counter>("../x.core0", None, 0).await.unwrap_err();
        assert!(matches!(outside, Error::Gone { .. }), "{outside}");
        Client::here().ls(&place, "**").await.unwrap();
    });
}

#[test]
fn what_a_stranger_sends_to_a_socket_harms_nobody() {
    use std::io::Write;
    let (_interface, _served, place) = served(&unique("noise"), Some(Allow::everything())).unwrap();
    let folder = kumiki_resource::published::folder().unwrap();
    let connect = || UnixStream::connect(folder.join(format!("{place}.place"))).unwrap();
    let frame = |bytes: u32, message: &[u8]| {
        [&7_u64.to_le_bytes()[..], &bytes.to_le_bytes(), message].concat()
    };
    // Half a frame, from one that stays.
    let mut half = connect();
    half.write_all(&frame(100, b"abc")).unwrap();
    // More than a message may be: its connection ends.
    let mut large = connect();
    large.write_all(&frame(u32::MAX, b"")).unwrap();
    large.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(large.read(&mut [0]).unwrap(), 0);
    // No message of ours: it is told.
    let mut noise = connect();
    noise.write_all(&frame(3, b"\x01\xff\xff")).unwrap();
    let mut reply = [0; 12];
    noise.set_read_timeout(Some(PATIENCE)).unwrap();
    noise.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], 7_u64.to_le_bytes());
    // One that asks without end and takes no reply waits for itself alone.
    let mut slow = connect();
    slow.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let many = frame(3, b"\x01\xff\xff").repeat(1000);
    let mut sent = 0;
    while slow.write_all(&many).is_ok() {
        sent += many.len();
        assert!(sent < 64 << 20, "somebody keeps it all");
    }
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 1);
    });
}

#[test]
fn names_are_heard_of_at_a_socket_and_the_place_s_death_at_once() {
    let name = unique("watched");
    let first = other(&name);
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let place = client.choose(&format!("{name}.*"), Choice::Any).await.unwrap().remove(0);
        let mut watch = client.watch(&place, "**/counter/*").await.unwrap();
        let before = life(&mut watch).await;
        // More than wait for a client that takes none: told in their order, or that some were missed.
        let named = |number| format!("n{number:03}");
        for number in 0..200 {
            let name = named(number);
            client.create::<Counter>(&place, Some(&name), 0).await.unwrap();
        }
        for number in 0..200 {
            let name = format!("{place}/counter/{}", named(number));
            assert_eq!(change(&mut watch).await, (name, true));
        }
        let begin = Instant::now();
        drop(first);
        assert_eq!(next(&mut watch).await, News::Gone);
        assert!(begin.elapsed() < PATIENCE / 2, "it was asked for, not told");
        let error = client.watch(&place, "**").await.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");

        let _again = other(&name);
        assert_ne!(life(&mut watch).await, before);
        client.create::<Counter>(&place, Some("new"), 0).await.unwrap();
        // Told, or missed where its new connection came later than that: then by the next one.
        match next(&mut watch).await {
            News::Changed(change) => assert_eq!(change.name, format!("{place}/counter/new")),
            other => assert_eq!(other, News::Missed),
        }
    });
}

#[test]
fn who_takes_no_news_costs_little_and_is_cut_when_it_has_missed_some() {
    use std::io::Write;
    let name = unique("missed");
    let interface = interface(1);
    let served = Server::here(&name).serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    let folder = kumiki_resource::published::folder().unwrap();
    let mut slow = UnixStream::connect(folder.join(format!("{place}.place"))).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = [0_u64.to_le_bytes().as_slice(), &0_u32.to_le_bytes()].concat();
    slow.write_all(&ask).unwrap();
    let mut back = [1; 12];
    slow.read_exact(&mut back).unwrap();
    assert_eq!(back[..], ask, "an empty frame comes back");
    block_on(async {
        let mut watch = Client::here().watch(&place, "**").await.unwrap();
        life(&mut watch).await;
        let at = interface.places()[0];
        let one = |unique: &str| {
            let made = interface.create::<Counter>(at, Some(unique), 0).unwrap();
            interface.destroy(made).unwrap();
        };
        // What fills its socket, and then more messages than wait for one that takes none.
        let long = "n".repeat(100);
        (0..4000).for_each(|number| one(&format!("{long}{number}")));
        for _ in 0..4000 {
            change(&mut watch).await;
            change(&mut watch).await;
        }
        for _ in 0..70 {
            one("small");
            change(&mut watch).await;
            change(&mut watch).await;
        }
    });
    // It takes what has left, and finds the end instead of the rest.
    let taken = std::io::copy(&mut slow, &mut std::io::sink()).unwrap();
    assert!(taken > 0);
}

#[test]
fn the_least_loaded_of_this_machine_s_places_is_chosen() {
    let name = unique("loads");
    let (_one, _served, _) = served(&format!("{name}.a"), Some(Allow::everything())).unwrap();
    let _b = other(&format!("{name}.b"));
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let places = format!("{name}.*");
        let of = async |choice| client.choose(&places, choice).await.unwrap();
        let all = of(Choice::Any).await;
        assert_eq!(all.len(), 2, "{all:?}");
        for busy in &all {
            let counter = client.create::<Counter>(busy, None, 0).await.unwrap();
            client.call::<Spin>(&counter, 3000).await.unwrap();
            // The other one had nothing to do for longer.
            assert_eq!(of(Choice::LeastLoaded).await[1], *busy);
            // Its share is of two seconds or more.
            tokio::time::sleep(Duration::from_millis(2500)).await;
            of(Choice::LeastLoaded).await;
        }
        let here = of(Choice::Here).await;
        assert_eq!(here.len(), 2, "{here:?}");
        client.create_among::<Counter>(&places, Choice::LeastLoaded, Some("x"), 1).await.unwrap();
    });
}

#[test]
fn what_was_only_asked_is_not_said_not_to_have_been_sent_and_what_was_not_sent_is() {
    let (_interface, _served, place) =
        served(&unique("only-asked"), Some(Allow::everything())).unwrap();
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        let hasty = client.with_timeout(Duration::from_millis(200));
        let other = Client::here().with_timeout(Duration::from_millis(200));
        let asked = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            // A question: it has left, and nothing can have been done by it.
            let error = hasty.ls(&place, "**").await.unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, Error::Unanswered { .. }) && error.is_passed_over(), "{said}");
            assert!(said.contains("was asked") && said.contains("nothing was done"), "{said}");
            assert!(!said.contains("not sent"), "{said}");
            // Who has no lease asks for one first: what it wants is not sent, and that is what is said.
            let error = other.create::<Counter>(&place, None, 0).await.unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, Error::NotSent { .. }) && error.is_passed_over(), "{said}");
            assert!(said.contains("it was asked first"), "{said}");
            assert!(!said.contains("it was sent"), "{said}");
        };
        let (spun, ()) = tokio::join!(client.call::<Spin>(&hits, 2000), asked);
        spun.unwrap();
    });
}
