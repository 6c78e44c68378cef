//! Calls while the line is cut and places are killed: each has its effect once, or not at all,
//! and its caller knows which, or is told that nobody does.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kumiki_places::{
    Allow, Error, Lease, Nats, Part, Parts, Portable, Reference, Run, Served, Server,
};
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Interface, Name, Place};

use crate::direct::{free_port, local};
use crate::nats::{Line, NatsServer};
use crate::scene::{Other, block_on, client, machine, stay};

/// Effects, one byte a call, in a file that outlives the place.
pub(crate) struct Ledger(File);

impl Kind for Ledger {
    const NAME: &'static str = "ledger";
    type Spec = String;
    type Pool = ();

    fn pool(_: Place) -> kumiki_resource::Result<()> {
        Ok(())
    }

    fn create(path: String, (): &mut ()) -> kumiki_resource::Result<Ledger> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        Ok(Ledger(file.unwrap()))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About::default()
    }
}

impl Portable for Ledger {}

/// Counts the effect of a call, and gives how many it has had.
pub(crate) struct Note;

impl Part for Note {
    type Kind = Ledger;
    const NAME: &'static str = "note";
    type In = u64;
    type Out = u8;
}

impl Run for Note {
    fn run(ledger: &mut Ledger, (): &mut (), call: u64) -> u8 {
        let mut count = [0];
        // Beyond its end the file has none.
        let _ = ledger.0.read_at(&mut count, call);
        count[0] += 1;
        ledger.0.write_all_at(&count, call).unwrap();
        count[0]
    }
}

const URL: &str = "KUMIKI_TEST_PLACE_AT";
const LEDGER: &str = "KUMIKI_TEST_LEDGER";
const LISTENS: &str = "KUMIKI_TEST_LISTENS_AT";
const REACHED: &str = "KUMIKI_TEST_REACHED_AT";

/// A place of this interface that keeps a ledger there.
pub(crate) fn serve(url: &str, ledger: &str) -> kumiki_places::Result<(Interface, Served)> {
    serve_by(Server::new(Nats::at(url), "m"), ledger)
}

fn serve_by(server: Server, ledger: &str) -> kumiki_places::Result<(Interface, Served)> {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let builder = Interface::builder().kind::<Ledger>().kind::<Lease>().cores([cpu]);
    let interface = builder.per_core().unwrap();
    interface.create::<Ledger>(interface.places()[0], Some("effects"), ledger.to_owned()).unwrap();
    let server = server.allow(Allow::everything());
    let served = server.parts(Parts::new().kind::<Ledger>().part::<Note>()).serve(&interface)?;
    Ok((interface, served))
}

/// A process that serves a place with a ledger, until it is killed.
pub(crate) fn machine_with(url: &str, ledger: &str) -> Other {
    Other::start("once::a_machine_of_another_test", &[(URL, url), (LEDGER, ledger)])
}

/// No test, but the process of the one below.
#[test]
fn a_machine_of_another_test() {
    let (Ok(url), Ok(ledger)) = (std::env::var(URL), std::env::var(LEDGER)) else { return };
    let address = |name| std::env::var(name).ok().map(|address| address.parse().unwrap());
    let server = Server::new(Nats::at(url), "m");
    let server = match (address(LISTENS), address(REACHED)) {
        (Some(at), Some(reached)) => server.listening(at).reached_at(reached),
        _ => server,
    };
    let _served = serve_by(server, &ledger).unwrap();
    stay();
}

#[derive(Debug, Default)]
struct Tally {
    done: AtomicU64,
    not_done: AtomicU64,
    unknown: AtomicU64,
}

/// Ways by which calls go.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// The server alone.
    Server,
    /// A connection of the client's own, and the server when that is cut.
    Own,
}

/// Calls with each line cut and the place killed so many times each.
fn calls(count: u64, faults: u64, by: By) {
    const CALLERS: u64 = 16;
    let nats = NatsServer::start();
    let line = Line::to(&nats);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("effects").to_str().unwrap().to_owned();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let name: Name = format!("m.core{cpu}/ledger/effects").parse().unwrap();
    let port = free_port();
    let own = Line::to_port(port);
    let at = [port, own.port()].map(|port| local(port).to_string());
    let variables = [(URL, &*nats.url()), (LEDGER, &*path), (LISTENS, &*at[0]), (REACHED, &*at[1])]
        .map(|(name, value)| (name, value.to_owned()));
    let start = || {
        let variables = variables.each_ref().map(|(name, value)| (*name, &**value));
        let some = if by == By::Own { &variables[..] } else { &variables[..2] };
        Other::start("once::a_machine_of_another_test", some)
    };
    let by_own = &AtomicU64::new(0);
    let (next, tally) = (AtomicU64::new(0), Tally::default());
    // What each call's caller knows of it: 0 not done, 1 done, 2 nobody knows.
    let known: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    let (next, tally, known) = (&next, &tally, &known);
    block_on(async {
        let client = client(&line.url()).await;
        let mut machine = Some(start());
        let (client, name) = (&client, &name);
        // One calls by itself, the next one by batches.
        let caller = |size: u64| async move {
            let mut ledger: Option<Reference<Ledger>> = None;
            loop {
                let Some(its) = &ledger else {
                    match client.open::<Ledger>(name).await {
                        Ok(its) => ledger = Some(its),
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                    continue;
                };
                let number = next.fetch_add(size, Ordering::SeqCst);
                let numbers = number..(number + size).min(count);
                by_own.fetch_add(
                    u64::from(client.has_direct(name.place())) * numbers.clone().count() as u64,
                    Ordering::SeqCst,
                );
                let outcomes = match size {
                    _ if numbers.is_empty() => return,
                    1 => vec![client.call::<Note>(its, number).await],
                    _ => client.each::<Note>(numbers.clone().map(|number| (its, number))).await,
                };
                assert_eq!(outcomes.len() as u64, numbers.end - number);
                for (number, outcome) in numbers.zip(outcomes) {
                    let (state, counter) = match outcome {
                        Ok(times) => {
                            assert_eq!(times, 1, "call {number} has had its effect {times} times");
                            (1, &tally.done)
                        }
                        Err(Error::Unknown { .. }) => (2, &tally.unknown),
                        Err(
                            Error::Gone { .. }
                            | Error::NotSent { .. }
                            | Error::Unanswered { .. }
                            | Error::Refused { .. },
                        ) => (0, &tally.not_done),
                        Err(other) => panic!("{other}"),
                    };
                    known[number as usize].store(state, Ordering::SeqCst);
                    counter.fetch_add(1, Ordering::SeqCst);
                    if state != 1 {
                        ledger = None;
                    }
                }
            }
        };
        let chaos = async {
            let mut random = fastrand::Rng::with_seed(47);
            for fault in 0..3 * faults {
                // Spread over the calls, in the middle of whatever then goes on.
                let at = (fault + 1) * count / (3 * faults + 1);
                while next.load(Ordering::SeqCst) < at {
                    tokio::time::sleep(Duration::from_micros(100)).await;
                }
                match fault % 3 {
                    0 => line.cut_after(random.usize(..4000)),
                    1 => own.cut_after(random.usize(..4000)),
                    _ => {
                        drop(machine.take());
                        machine = Some(start());
                    }
                }
            }
            machine
        };
        let all = futures_util::future::join_all((0..CALLERS).map(|n| caller(1 + n % 2 * 6)));
        let (_, machine) = tokio::join!(all, chaos);
        drop(machine);
    });
    let mut effects = std::fs::read(&path).unwrap();
    effects.resize(count as usize, 0);
    let mut found = 0;
    for (number, (times, known)) in effects.iter().zip(known).enumerate() {
        let known = known.load(Ordering::SeqCst);
        let fits = match known {
            0 => *times == 0,
            1 => *times == 1,
            _ => *times <= 1,
        };
        assert!(fits, "call {number}: its caller knows {known}, and it had {times} effects");
        found += u64::from(*times);
    }
    let by_own = by_own.load(Ordering::SeqCst);
    println!("{count} calls, {by_own} by a connection of their own: {tally:?}, {found} effects");
    assert_eq!(by == By::Own, by_own > count / 10, "{by_own} by their own");
    let done = tally.done.load(Ordering::SeqCst);
    assert!(done > count / 2, "most of them found a place: {tally:?}");
}

#[test]
fn ten_thousand_calls_run_once_or_not_at_all_or_nobody_knows() {
    calls(10_000, 5, By::Server);
}

#[test]
fn ten_thousand_calls_by_a_connection_of_their_own_run_once_or_not_at_all_or_nobody_knows() {
    calls(10_000, 10, By::Own);
}

#[test]
#[ignore = "a minute: `cargo xtask stress places`, after a change to the protocol"]
fn a_hundred_thousand_calls_run_once_or_not_at_all_or_nobody_knows() {
    calls(100_000, 10, By::Server);
}

#[test]
#[ignore = "a minute: `cargo xtask stress places`, after a change to the protocol"]
fn a_hundred_thousand_calls_by_a_connection_of_their_own_run_once_or_not_at_all_or_nobody_knows() {
    calls(100_000, 20, By::Own);
}

/// A repeated request finds the answer, though it was lost on the way.
#[test]
fn an_answer_that_was_lost_comes_again() {
    use kumiki_places::standard::{Add, Counter};
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url(), "m");
    let line = Line::to(&nats);
    block_on(async {
        let client = client(&line.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        for n in 1..=30 {
            // In the middle of the request, of the answer, or between them.
            line.cut_after(n * 12);
            assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), n as i64);
        }
        for n in 0..30 {
            line.cut_after(n * 60);
            let sums = client.each::<Add>((0..50).map(|_| (&counter, 1))).await;
            let sums: Vec<_> = sums.into_iter().map(Result::unwrap).collect();
            let before = 30 + 50 * n as i64;
            assert_eq!(sums, (before + 1..=before + 50).collect::<Vec<_>>());
        }
    });
}

/// What a place keeps for its clients, and what they hold, does not grow with the calls.
#[test]
fn nothing_stays_of_calls_that_were_answered() {
    use kumiki_places::standard::{Add, Counter};
    let nats = NatsServer::start();
    let (interface, _served, place) = machine(&nats.url(), "m");
    block_on(async {
        let client = client(&nats.url()).await;
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        let calls = async |count: u64| {
            for _ in 0..count {
                client.call::<Add>(&counter, 1).await.unwrap();
            }
        };
        calls(10).await;
        let look = || {
            let pattern = kumiki_resource::Pattern::new("*/lease/*").unwrap();
            let leases = interface.ls(&pattern).unwrap();
            assert_eq!(leases.len(), 1);
            leases[0].about.clone()
        };
        let before = look();
        calls(500).await;
        for _ in 0..50 {
            let batch = client.each::<Add>((0..300).map(|_| (&counter, 1))).await;
            assert!(batch.into_iter().all(|sum| sum.is_ok()));
        }
        calls(1).await;
        let about = look();
        assert_eq!(about.state, before.state);
        assert!(about.bytes < 200, "{about:?}");
        assert!(about.state.starts_with("1 answer"), "{about:?}");
    });
}
