//! Lines to places of another kernel: the same parts, each call once, and the other side's end and whatever it
//! writes harm nobody here.
//!
//! A memfd stands for the window between two kernels; `apps/cli/tests/node` has the window.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_places::standard::{Add, Counter, Get, parts};
use kumiki_places::wire::Why;
use kumiki_places::{Allow, Error, Line, Lines, Part, Run, Served, Server, relay};
use kumiki_resource::{Interface, Name, Pattern};
use kumiki_sys::shm::{Huge, Shared, Window};

use crate::here::{Never, Spin, unique};
use crate::scene::{Other, PATIENCE, block_on, managing, stay};

const LANE: usize = 4096;
/// Lanes of all channels, and of one.
const ALL: usize = 16;
const OWN: usize = 4;

/// The memory between two kernels.
pub(crate) fn memory() -> Shared {
    Shared::new("kumiki-test-window", ALL * LANE, Huge::Policy).unwrap()
}

pub(crate) fn whole(memory: &Shared) -> Window {
    Window::map(memory.fd(), 0, ALL * LANE).unwrap()
}

/// Gives back what it takes.
struct Echo;

impl Part for Echo {
    type Kind = Counter;
    const NAME: &'static str = "echo";
    type In = Vec<u8>;
    type Out = Vec<u8>;
}

impl Run for Echo {
    fn run(_: &mut Counter, (): &mut (), bytes: Vec<u8>) -> Vec<u8> {
        match bytes[..] {
            // What has one byte is to have many, and 2 more than a message may.
            [1] => vec![1; 10_000],
            [2] => vec![2; 2 << 20],
            _ => bytes,
        }
    }
}

/// Panics.
struct Panics;

impl Part for Panics {
    type Kind = Counter;
    const NAME: &'static str = "panics";
    type In = ();
    type Out = ();
}

impl Run for Panics {
    fn run(_: &mut Counter, (): &mut (), (): ()) {
        panic!("it was asked to");
    }
}

/// A place of a name that nobody else has, with lines in this window.
fn serve(host: &str, window: Window) -> (Interface, Served, String) {
    let parts = parts().blocking::<Never>().part::<Spin>().part::<Echo>().part::<Panics>();
    let server = Server::here(host).parts(parts).allow(Allow::everything());
    managing(server.window(window)).unwrap()
}

/// Lines to `host` by the second channel's part of the memory, and the relay's thread.
pub(crate) fn lines(host: &str, memory: &Shared) -> (Lines, JoinHandle<()>) {
    let (near, far) = UnixStream::pair().unwrap();
    let its = host.to_owned();
    let relay = thread::spawn(move || {
        block_on(async {
            far.set_nonblocking(true).unwrap();
            let (from, to) = tokio::net::UnixStream::from_std(far).unwrap().into_split();
            relay(&its, None, from, to).await.unwrap();
        });
    });
    let base = (OWN * LANE) as u64;
    let window = Window::map(memory.fd(), base, OWN * LANE).unwrap();
    let mut lines = Lines::open(host, near, window, base).unwrap();
    lines.set_timeout(PATIENCE);
    (lines, relay)
}

fn refusal<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Why {
    match outcome.unwrap_err() {
        Error::Refused { why, .. } => why,
        other => panic!("{other}"),
    }
}

#[test]
fn parts_are_called_by_a_line_as_at_a_socket() {
    let (memory, host) = (memory(), unique("line"));
    let (interface, served, place) = serve(&host, whole(&memory));
    let (lines, relay) = lines(&host, &memory);
    assert_eq!(lines.all_places(), [&*place]);
    let mut line = lines.line(&place).unwrap();
    let hits = line.create::<Counter>(Some("hits"), &40).unwrap();
    let listed = line.ls("**/counter/*").unwrap();
    assert_eq!((&*listed[0].name, listed.len()), (&*format!("{place}/counter/hits"), 1));
    for n in 1..=1000 {
        assert_eq!(line.call::<Add>(&hits, &1).unwrap(), 40 + n);
    }
    let name: Name = format!("{place}/counter/hits").parse().unwrap();
    let opened = line.open::<Counter>(&name).unwrap();
    assert_eq!(line.call::<Get>(&opened, &()).unwrap(), 1040);
    // By names and JSON, as a person calls.
    assert_eq!(line.call_named(&name, "add", &2.into()).unwrap(), 1042);
    // Messages of every length up to the room that there is, and answers.
    for length in (0..3600).step_by(37).filter(|length| *length != 1) {
        let bytes: Vec<u8> = (0..length).map(|n| (n % 120) as u8).collect();
        assert_eq!(line.call::<Echo>(&hits, &bytes).unwrap(), bytes);
    }
    assert!(matches!(
        line.call::<Echo>(&hits, &vec![0; 5000]).unwrap_err(),
        Error::TooLarge { bytes: 5003, .. }
    ));
    // An answer that the line has no room for comes by the stream, if that has.
    assert_eq!(line.call::<Echo>(&hits, &vec![1]).unwrap(), vec![1; 10_000]);
    assert_eq!(refusal(line.call::<Echo>(&hits, &vec![2])), Why::AnswerTooLarge);
    assert_eq!(refusal(line.call::<Panics>(&hits, &())), Why::Panicked);
    assert_eq!(refusal(line.call::<Never>(&hits, &())), Why::Blocks);
    assert_eq!(refusal(line.create::<Counter>(Some("hits"), &0)), Why::Taken);
    // More parts than a line has numbers for, each with two.
    let many: Vec<_> = (0..300).map(|n| line.create::<Counter>(None, &n).unwrap()).collect();
    for (n, counter) in many.iter().enumerate() {
        assert_eq!(line.call::<Add>(counter, &1).unwrap(), n as i64 + 1);
        assert_eq!(line.call::<Get>(&many[0], &()).unwrap(), 1);
    }
    line.destroy(hits.clone()).unwrap();
    assert_eq!(refusal(line.call::<Add>(&hits, &1)), Why::Stale);
    // By several answers: a line has room for some thirty.
    let listed = line.ls("**/counter/*").unwrap();
    assert_eq!(listed.len(), 300);
    assert!(listed.is_sorted_by_key(|one| (one.name.clone(), one.id.to_u64())));
    // The place's own threads have it as ever.
    assert_eq!(interface.ls(&Pattern::new("*/counter/*").unwrap()).unwrap().len(), 300);
    // Its end is told to who has lines to it.
    drop(served);
    let gone = |line: &mut Line| {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            match line.call::<Get>(&many[0], &()).unwrap_err() {
                Error::Gone { .. } => return,
                Error::Unknown { .. } => {}
                other => panic!("{other}"),
            }
        }
        panic!("its end was not heard of");
    };
    gone(&mut line);
    drop((line, lines));
    relay.join().unwrap();
}

#[test]
fn who_sleeps_is_woken_and_lanes_are_used_again() {
    let (memory, host) = (memory(), unique("sleeps"));
    let (_interface, _served, place) = serve(&host, whole(&memory));
    let (mut lines, _relay) = lines(&host, &memory);
    for _ in 0..4 * OWN {
        let mut line = lines.line(&place).unwrap();
        let hits = line.create::<Counter>(None, &0).unwrap();
        // The place is asleep, as it looks for less than this; then the caller.
        thread::sleep(Duration::from_millis(2));
        assert_eq!(line.call::<Add>(&hits, &1).unwrap(), 1);
        line.call::<Spin>(&hits, &3).unwrap();
    }
    // All lanes at once, and one more.
    let held: Vec<Line> = (0..OWN).map(|_| lines.line(&place).unwrap()).collect();
    assert_eq!(refusal(lines.line(&place)), Why::Full);
    drop(held);
    lines.line(&place).unwrap();
    // A place that is not there is waited for a while.
    let none = format!("{host}.core999");
    lines.set_timeout(Duration::from_millis(10));
    assert!(matches!(lines.line(&none).unwrap_err(), Error::Gone { .. }));
}

#[test]
fn calls_of_many_threads_have_their_effect_once() {
    const CALLS: i64 = 3000;
    let (memory, host) = (memory(), unique("many"));
    let (_interface, _served, place) = serve(&host, whole(&memory));
    let (lines, _relay) = lines(&host, &memory);
    let hits = lines.line(&place).unwrap().create::<Counter>(Some("hits"), &0).unwrap();
    thread::scope(|scope| {
        for _ in 0..OWN {
            scope.spawn(|| {
                let mut line = lines.line(&place).unwrap();
                let mut last = 0;
                for n in 0..CALLS {
                    let sum = line.call::<Add>(&hits, &1).unwrap();
                    assert!(sum > last, "an answer twice");
                    last = sum;
                    if n % 500 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
    let sum = lines.line(&place).unwrap().call::<Get>(&hits, &()).unwrap();
    assert_eq!(sum, OWN as i64 * CALLS);
}

const NAME: &str = "KUMIKI_TEST_PLACE_LINES";
const MEMORY: &str = "KUMIKI_TEST_WINDOW";

/// No test, but the process of others.
#[test]
fn a_process_of_another_test() {
    let (Ok(name), Ok(memory)) = (std::env::var(NAME), std::env::var(MEMORY)) else { return };
    let memory = File::options().read(true).write(true).open(memory).unwrap();
    let _served = serve(&name, Window::map(memory.as_fd(), 0, ALL * LANE).unwrap());
    stay();
}

#[test]
fn a_place_that_is_killed_answers_every_pending_call_and_another_life_of_it_serves() {
    let (memory, host) = (memory(), unique("killed"));
    let fd = memory.inheritable().unwrap();
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let start =
        || Other::start("lines::a_process_of_another_test", &[(NAME, &host), (MEMORY, &path)]);
    let mut other = Some(start());
    let (lines, relay) = lines(&host, &memory);
    let begin = Instant::now();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let place = format!("{host}.core{cpu}");
    for _ in 0..3 {
        let mut line = lines.line(&place).unwrap();
        let hits = line.create::<Counter>(None, &0).unwrap();
        thread::scope(|scope| {
            let others: Vec<_> = (1..OWN)
                .map(|_| {
                    let (lines, place, hits) = (&lines, &place, &hits);
                    scope.spawn(move || {
                        let mut line = lines.line(place).unwrap();
                        loop {
                            if let Err(error) = line.call::<Add>(hits, &1) {
                                return error;
                            }
                        }
                    })
                })
                .collect();
            while line.call::<Get>(&hits, &()).unwrap() < 100 {}
            // Before the line knows its number, a request on it may be the one that asks for that.
            line.call::<Spin>(&hits, &0).unwrap();
            // One that nobody would answer, and behind it the others.
            let never = scope.spawn(|| {
                let ms = 2 * PATIENCE.as_millis() as u64;
                line.call::<Spin>(&hits, &ms).unwrap_err()
            });
            while !(OWN..2 * OWN).all(|lane| status(&memory, lane) & 0xff == REQUEST) {
                thread::yield_now();
            }
            drop(other.take());
            for error in others.into_iter().map(|thread| thread.join().unwrap()) {
                assert!(matches!(error, Error::Unknown { .. } | Error::Gone { .. }), "{error}");
            }
            let error = never.join().unwrap();
            assert!(matches!(error, Error::Unknown { .. }), "{error}");
            assert!(error.to_string().contains("it has gone before it answered"), "{error}");
        });
        other = Some(start());
    }
    assert!(begin.elapsed() < PATIENCE / 2, "it waited for its patience");
    drop((lines, other));
    relay.join().unwrap();
}

/// Where a lane's status is, and the state of a request there.
const STATUS: usize = 256;
const REQUEST: u64 = 1;

fn status(memory: &Shared, lane: usize) -> u64 {
    memory.atomic_u64(lane * LANE + STATUS).load(Ordering::Acquire)
}

/// Words that a side which keeps to nothing writes: near what may be, and anything.
fn noise(random: &mut fastrand::Rng, now: u64) -> u64 {
    match random.u32(..4) {
        0 => now ^ 1 << random.u32(..64),
        1 => now.wrapping_add(1 << 32),
        2 => now & !0xff | random.u64(..5),
        _ => random.u64(..),
    }
}

#[test]
fn a_caller_that_writes_what_it_likes_harms_no_other() {
    let (memory, host) = (memory(), unique("noisy"));
    let (_interface, _served, place) = serve(&host, whole(&memory));
    let (lines, _relay) = lines(&host, &memory);
    let mut fair = lines.line(&place).unwrap();
    let hits = fair.create::<Counter>(None, &0).unwrap();
    let _others = [(); OWN - 2].map(|()| lines.line(&place).unwrap());
    let last = 2 * OWN - 1;
    let mut random = fastrand::Rng::with_seed(47);
    for round in 1..=200 {
        // The last lane, when the place has said that it does not touch it any more.
        let line = lines.line(&place).unwrap();
        for _ in 0..3 {
            let now = status(&memory, last);
            for word in 0..16 {
                let at = last * LANE + STATUS + 8 + 8 * word;
                memory.atomic_u64(at).store(random.u64(..), Ordering::Relaxed);
            }
            let word = noise(&mut random, now);
            memory.atomic_u64(last * LANE + STATUS).store(word, Ordering::Release);
            thread::yield_now();
        }
        drop(line);
        assert_eq!(fair.call::<Add>(&hits, &1).unwrap(), round);
    }
}

/// A frame of the other kernel.
fn frame(place: u32, number: u64, message: &impl serde::Serialize) -> Vec<u8> {
    let mut body = vec![kumiki_places::wire::VERSION];
    body.extend(rmp_serde::to_vec(message).unwrap());
    let mut frame = place.to_le_bytes().to_vec();
    frame.extend(number.to_le_bytes());
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(body);
    frame
}

#[derive(serde::Serialize)]
enum Relayed<'a> {
    There { number: u32, place: &'a str },
    Gone { number: u32 },
    Told,
}

#[derive(serde::Serialize)]
enum Word {
    Opened { at: u64, life: u64 },
    Refused { at: u64, why: &'static str },
    Awake { at: u64, took_us: u64 },
    Closed { at: u64 },
}

/// Of a place that nobody has told of yet, nobody knows that it has ended.
#[test]
fn a_place_is_gone_only_where_all_places_have_been_told() {
    let (memory, host) = (memory(), unique("silent"));
    let (near, far) = UnixStream::pair().unwrap();
    let window = Window::map(memory.fd(), 0, LANE).unwrap();
    let mut lines = Lines::open(&host, near, window, 0).unwrap();
    lines.set_timeout(Duration::from_millis(50));
    let place = format!("{host}.core0");
    let error = lines.line(&place).unwrap_err();
    assert!(
        matches!(&error, Error::NotSent { .. }) && error.to_string().contains("told"),
        "{error}"
    );
    say_of(&far, &frame(0, 0, &Relayed::Told));
    lines.set_timeout(PATIENCE);
    assert!(lines.all_places().is_empty());
    lines.set_timeout(Duration::from_millis(50));
    assert!(matches!(lines.line(&place), Err(Error::Gone { .. })));
    drop(far);
    assert!(matches!(lines.line(&place), Err(Error::Gone { .. })));
}

#[test]
fn what_the_other_kernel_says_and_writes_is_untrusted() {
    const LANES: u64 = u64::MAX;
    let (memory, host) = (memory(), unique("alleges"));
    let (near, far) = UnixStream::pair().unwrap();
    let window = Window::map(memory.fd(), 0, LANE).unwrap();
    let mut lines = Lines::open(&host, near, window, 0).unwrap();
    lines.set_timeout(PATIENCE);
    let say = |frame: Vec<u8>| say_of(&far, &frame);
    let place = format!("{host}.core0");
    // Names that may not be had, words on nothing, and none at all.
    for name in ["../x", "other.core0", "", &host] {
        say(frame(0, 0, &Relayed::There { number: 1, place: name }));
    }
    say(frame(0, 0, &Relayed::Gone { number: 9 }));
    say(frame(0, 0, &"noise"));
    say(frame(7, LANES, &Word::Opened { at: 0, life: 1 }));
    say(frame(7, 3, &Word::Opened { at: 0, life: 1 }));
    say(frame(0, 0, &Relayed::There { number: 7, place: &place }));
    say(frame(0, 0, &Relayed::There { number: 7, place: &format!("{host}.core1") }));
    let mut random = fastrand::Rng::with_seed(48);
    for round in 0..100_u64 {
        // Of another place, of a lane that there is not, then as it may be, twice.
        let opened = |place, at, life| frame(place, LANES, &Word::Opened { at, life });
        let open = thread::scope(|scope| {
            let line = scope.spawn(|| lines.line(&place));
            // Its frame that asks for it: the answer comes after.
            read_frame(&far);
            for said in [
                opened(8, 0, 1),
                opened(7, 4096, 1),
                opened(7, u64::MAX, 1),
                frame(7, LANES, &Word::Awake { at: 0, took_us: 7 }),
                frame(7, LANES, &Word::Closed { at: 0 }),
                opened(7, 0, 5),
                opened(7, 0, 6),
            ] {
                say_of(&far, &said);
            }
            line.join().unwrap()
        });
        let mut line = open.unwrap();
        let outcome = thread::scope(|scope| {
            let call = scope.spawn(|| line.create::<Counter>(None, &0));
            while status(&memory, 0) & 0xff != REQUEST {
                thread::yield_now();
            }
            let now = status(&memory, 0);
            for word in 1..512 {
                let at = STATUS + 8 * (word % 60);
                memory.atomic_u64(at + 8).store(random.u64(..), Ordering::Relaxed);
            }
            let mut word = noise(&mut random, now);
            while word == now {
                word = noise(&mut random, now);
            }
            memory.atomic_u64(STATUS).store(word, Ordering::Release);
            if round % 10 == 0 {
                say_of(&far, &frame(7, LANES, &Word::Refused { at: 0, why: "it is broken" }));
            }
            call.join().unwrap()
        });
        // What may be an answer is one, whatever it says; of all else nobody knows what has become.
        assert!(
            matches!(
                &outcome,
                Ok(_) | Err(Error::Unknown { .. } | Error::Value { .. } | Error::Refused { .. })
            ),
            "{outcome:?}"
        );
        drop(line);
        read_frame(&far);
        say_of(&far, &frame(7, LANES, &Word::Closed { at: 0 }));
    }
    assert_eq!(lines.places(), [place]);
    // What is no frame ends the stream, and all places with it.
    say_of(&far, &[0xff; 16]);
    while !lines.places().is_empty() {
        thread::yield_now();
    }
}

fn say_of(mut far: &UnixStream, bytes: &[u8]) {
    far.write_all(bytes).unwrap();
}

/// Takes one frame of this side.
fn read_frame(mut far: &UnixStream) {
    let mut head = [0; 16];
    far.read_exact(&mut head).unwrap();
    let bytes = u32::from_le_bytes(head[12..].try_into().unwrap());
    far.read_exact(&mut vec![0; bytes as usize]).unwrap();
}
