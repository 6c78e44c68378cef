//! Places of another kernel behind a stream: the same calls, and its end answers all of them.
//!
//! Both ends are in this process here, with two folders of sockets; `apps/cli/tests/node` has a node.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use kumiki_places::durable::Disk;
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::{LeaveStep, Operation, Reply};
use kumiki_places::{Attached, Client, Error, News, Server, attach, relay};
use kumiki_resource::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::disks::Held;
use crate::here::{self, Never, unique};
use crate::killed::{self, Gap};
use crate::scene::{Other, PATIENCE, block_on};
use crate::watch::{change, life, next};

/// Another kernel, for which another folder of sockets stands here.
struct Far {
    runtime: tempfile::TempDir,
    host: String,
}

impl Far {
    fn new(test: &str) -> Far {
        let far = Far { runtime: tempfile::tempdir().unwrap(), host: unique(test) };
        std::fs::create_dir(far.folder()).unwrap();
        far
    }

    fn folder(&self) -> PathBuf {
        self.runtime.path().join("kumiki")
    }

    /// A process there that serves a place of this name.
    fn serve(&self, name: &str) -> Other {
        let runtime = self.runtime.path().to_str().unwrap();
        here::other_with(name, &[("XDG_RUNTIME_DIR", runtime)])
    }
}

/// The near end of a stream.
struct Near {
    told: UnboundedReceiver<Attached>,
    task: JoinHandle<()>,
}

impl Near {
    fn of(host: &str, stream: DuplexStream) -> Near {
        let (tell, told) = unbounded_channel();
        let host = host.to_owned();
        let task = tokio::spawn(async move {
            let (from, to) = split(stream);
            let tell = move |news| _ = tell.send(news);
            attach(&host, from, to, tell).await.unwrap();
        });
        Near { told, task }
    }

    async fn next_sign(&mut self) -> Attached {
        timeout(PATIENCE, self.told.recv()).await.expect("it tells").expect("it goes on")
    }

    async fn there(&mut self) -> String {
        match self.next_sign().await {
            Attached::There(place) => place,
            other => panic!("{other:?}"),
        }
    }
}

/// Both ends.
fn ends(far: &Far) -> (Near, JoinHandle<()>) {
    let (near, there) = duplex(1 << 16);
    let (host, folder) = (far.host.clone(), far.folder());
    let end = tokio::spawn(async move {
        let (from, to) = split(there);
        relay(&host, Some(&folder), from, to).await.unwrap();
    });
    (Near::of(&far.host, near), end)
}

#[test]
fn places_of_another_kernel_are_called_as_this_one_s() {
    let far = Far::new("attached");
    // One before there is a stream, one after; one of another name is not to be had.
    let _one = far.serve(&format!("{}.a", far.host));
    let _stranger = far.serve("elsewhere");
    block_on(async {
        let (mut near, _end) = ends(&far);
        let a = near.there().await;
        assert!(a.starts_with(&format!("{}.a.core", far.host)), "{a}");
        let _other = far.serve(&format!("{}.b", far.host));
        let b = near.there().await;
        let client = Client::here().with_timeout(PATIENCE);
        for place in [&a, &b] {
            let hits = client.create::<Counter>(place, Some("hits"), 40).await.unwrap();
            assert_eq!(client.call::<Add>(&hits, 2).await.unwrap(), 42);
            // More under way than one client may have, and large answers.
            let each = client.each::<Add>((0..5000).map(|_| (&hits, 1))).await;
            assert_eq!(each.last().unwrap().as_ref().unwrap(), &5042);
            let many = (0..600).map(|_| client.call::<Add>(&hits, 1));
            let many = futures_util::future::join_all(many).await;
            assert_eq!(many.into_iter().map(Result::unwrap).max(), Some(5642));
            let name: Name = format!("{place}/counter/hits").parse().unwrap();
            let opened = client.open::<Counter>(&name).await.unwrap();
            assert_eq!(client.call::<Get>(&opened, ()).await.unwrap(), 5642);
            assert_eq!(client.ls(place, "*/counter/*").await.unwrap()[0].name, name.to_string());
        }
        let mut watch = client.watch(&b, "**/counter/*").await.unwrap();
        life(&mut watch).await;
        client.create::<Counter>(&b, Some("new"), 0).await.unwrap();
        assert_eq!(change(&mut watch).await, (format!("{b}/counter/new"), true));
    });
}

#[test]
fn the_end_of_the_other_kernel_or_of_its_place_answers_every_pending_call() {
    let far = Far::new("ended");
    let mut other = Some(far.serve(&far.host));
    block_on(async {
        let (mut near, end) = ends(&far);
        let place = near.there().await;
        let client = Client::here().with_timeout(PATIENCE);
        let begin = Instant::now();
        for of_kernel in [false, true] {
            let mut watch = client.watch(&place, "**").await.unwrap();
            life(&mut watch).await;
            let hits = client.create::<Counter>(&place, None, 0).await.unwrap();
            let all = [(); 8].map(|()| client.call::<Never>(&hits, ()));
            let kill = async {
                while client.call::<Get>(&hits, ()).await.unwrap() < 8 {}
                if of_kernel {
                    end.abort();
                } else {
                    drop(other.take());
                }
            };
            let (outcomes, ()) = tokio::join!(futures_util::future::join_all(all), kill);
            for outcome in outcomes {
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::Unknown { .. }), "{error}");
            }
            let error = client.call::<Add>(&hits, 1).await.unwrap_err();
            assert!(matches!(error, Error::Gone { .. }), "{error}");
            assert_eq!(next(&mut watch).await, News::Gone);
            if !of_kernel {
                assert_eq!(near.next_sign().await, Attached::Gone(place.clone()));
                other = Some(far.serve(&far.host));
                assert_eq!(near.there().await, place);
            }
        }
        timeout(PATIENCE, near.task).await.expect("it ends with its stream").unwrap();
        assert!(begin.elapsed() < PATIENCE / 2, "it waited for its patience");
    });
}

/// A frame of the other kernel.
fn frame(place: u32, number: u64, message: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(message.len()).unwrap();
    let mut frame = place.to_le_bytes().to_vec();
    frame.extend(number.to_le_bytes());
    frame.extend(bytes.to_le_bytes());
    frame.extend(message);
    frame
}

/// A word of the relay, as it writes it.
fn word(word: &impl serde::Serialize) -> Vec<u8> {
    let mut message = vec![kumiki_places::wire::VERSION];
    message.extend(rmp_serde::to_vec(word).unwrap());
    frame(0, 0, &message)
}

#[derive(serde::Serialize)]
enum Word<'a> {
    There { number: u32, place: &'a str },
    Gone { number: u32 },
}

#[test]
fn what_the_other_kernel_says_is_untrusted() {
    let host = unique("untrusted");
    block_on(async {
        let (stream, mut far) = duplex(1 << 16);
        let mut near = Near::of(&host, stream);
        let core = |number: u32| format!("{host}.core{number}");
        // Names that are none, or another one's.
        let (empty, twice) = (format!("{host}."), format!("{host}..x"));
        for place in ["../../etc/x", "other.core0", &host, "", &"n".repeat(10_000), &empty, &twice]
        {
            far.write_all(&word(&Word::There { number: 1, place })).await.unwrap();
            match near.next_sign().await {
                Attached::Refused { place: its, .. } => assert_eq!(its, place),
                other => panic!("{other:?}"),
            }
        }
        // Answers of places and to requests that there are not, numbers that are taken, no words at all.
        for noise in [
            frame(9, 1, b"answer"),
            word(&Word::Gone { number: 9 }),
            frame(0, 0, b"\x01noise"),
            word(&Word::There { number: 1, place: &core(0) }),
            word(&Word::There { number: 1, place: &core(1) }),
            frame(1, 77, b"answer"),
            frame(1, 0, b"news of something else"),
            word(&Word::There { number: 2, place: &core(0) }),
        ] {
            far.write_all(&noise).await.unwrap();
        }
        assert_eq!(near.there().await, core(0));
        assert!(matches!(near.next_sign().await, Attached::Refused { .. }), "one name twice");

        // Ever new names leave nothing where sockets are.
        let files = || {
            let folder = kumiki_resource::published::folder().unwrap();
            let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with(&host)).count()
        };
        for number in 100..400 {
            let place = core(number);
            far.write_all(&word(&Word::There { number, place: &place })).await.unwrap();
            far.write_all(&word(&Word::Gone { number })).await.unwrap();
            assert_eq!(near.there().await, place);
            assert_eq!(near.next_sign().await, Attached::Gone(place));
        }
        assert_eq!(files(), 2, "the socket and the lock of the one that is there");

        // A call is answered by noise: it was sent, and that is all that is known.
        let client = Client::here().with_timeout(PATIENCE);
        let answer = async {
            // Its greeting: the place's number, its own, its length, itself.
            let mut head = [0; 16];
            far.read_exact(&mut head).await.unwrap();
            let bytes = u32::from_le_bytes(head[12..].try_into().unwrap());
            far.read_exact(&mut vec![0; bytes as usize]).await.unwrap();
            let number = u64::from_le_bytes(head[4..12].try_into().unwrap());
            far.write_all(&frame(1, number, b"\x01noise")).await.unwrap();
        };
        let at = core(0);
        let (made, ()) = tokio::join!(client.create::<Counter>(&at, None, 0), answer);
        made.unwrap_err();
        // What is no frame ends the stream, and the places with it.
        far.write_all(&[0xff; 16]).await.unwrap();
        timeout(PATIENCE, near.task).await.expect("it ends").unwrap();
        let error = client.create::<Counter>(&core(0), None, 0).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        assert_eq!(files(), 0);
    });
}

/// A frame at a socket.
fn at_socket(number: u64, message: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(message.len()).unwrap();
    [&number.to_le_bytes()[..], &bytes.to_le_bytes(), message].concat()
}

/// Reads a frame whose head has so many bytes; its head.
async fn read<const HEAD: usize>(from: &mut (impl AsyncReadExt + Unpin)) -> ([u8; HEAD], Vec<u8>) {
    let mut head = [0; HEAD];
    timeout(PATIENCE, from.read_exact(&mut head)).await.expect("it comes").unwrap();
    let bytes = u32::from_le_bytes(head[HEAD - 4..].try_into().unwrap());
    let mut message = vec![0; bytes as usize];
    from.read_exact(&mut message).await.unwrap();
    (head, message)
}

/// A place that moves says so and ends: without its word nobody would know where it is.
#[test]
fn what_a_place_there_answers_before_it_ends_comes_before_its_end() {
    let host = unique("last-word");
    let folder = kumiki_resource::published::folder().unwrap();
    block_on(async {
        let (stream, mut far) = duplex(1 << 16);
        let mut near = Near::of(&host, stream);
        for number in 1..200 {
            let place = format!("{host}.core{number}");
            far.write_all(&word(&Word::There { number, place: &place })).await.unwrap();
            assert_eq!(near.there().await, place);
            let path = folder.join(format!("{place}.place"));
            let mut caller = tokio::net::UnixStream::connect(&path).await.unwrap();
            let mut last = Vec::new();
            for question in [7, 8] {
                caller.write_all(&at_socket(question, b"question")).await.unwrap();
                let (head, question) = read::<16>(&mut far).await;
                assert_eq!((&head[..4], &*question), (&number.to_le_bytes()[..], &b"question"[..]));
                let asked = u64::from_le_bytes(head[4..12].try_into().unwrap());
                last.extend(frame(number, asked, b"answer"));
            }
            last.extend(word(&Word::Gone { number }));
            far.write_all(&last).await.unwrap();
            assert_eq!(near.next_sign().await, Attached::Gone(place));
            assert!(!path.exists(), "another life of it may have its socket");
            let mut rest = Vec::new();
            timeout(PATIENCE, caller.read_to_end(&mut rest)).await.expect("it ends").unwrap();
            assert_eq!(rest, [7, 8].map(|n| at_socket(n, b"answer")).concat(), "{number}");
        }
    });
}

#[test]
fn what_a_place_answers_before_it_ends_its_relay_passes_on() {
    let far = Far::new("relayed");
    block_on(async {
        let (near, there) = duplex(1 << 20);
        let (host, folder) = (far.host.clone(), far.folder());
        tokio::spawn(async move {
            let (from, to) = split(there);
            relay(&host, Some(&folder), from, to).await.unwrap();
        });
        let (mut from, mut to) = split(near);
        assert_eq!(&read::<16>(&mut from).await.0[..4], &[0; 4], "all have been told");
        for number in 1..200_u32 {
            let path = far.folder().join(format!("{}.core{number}.place", far.host));
            let listener = tokio::net::UnixListener::bind(&path).unwrap();
            // As a place's lock tells when somebody listens.
            std::fs::write(path.with_extension("lock"), "").unwrap();
            let (mut place, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
            assert_eq!(&read::<16>(&mut from).await.0[..4], &[0; 4], "it is there");
            // It wants news, is asked, answers, and ends with other questions unread, and more on their way.
            assert!(read::<12>(&mut place).await.1.is_empty());
            to.write_all(&frame(number, 1, b"question")).await.unwrap();
            assert_eq!(read::<12>(&mut place).await.1, b"question");
            let more: Vec<u8> = (2..50).flat_map(|n| frame(number, n, &[7; 300])).collect();
            to.write_all(&more).await.unwrap();
            place.write_all(&at_socket(1, b"answer")).await.unwrap();
            drop((place, listener));
            std::fs::remove_file(&path).unwrap();
            to.write_all(&more).await.unwrap();
            let (head, answer) = read::<16>(&mut from).await;
            assert_eq!((&head[..4], &*answer), (&number.to_le_bytes()[..], &b"answer"[..]));
            assert_eq!(&read::<16>(&mut from).await.0[..4], &[0; 4], "it has gone");
        }
    });
}

/// Whoever moves a place hears its last word also where it comes late: asked again meanwhile, nobody would take it.
#[test]
fn a_last_word_is_waited_for() {
    let host = unique("late-word");
    block_on(async {
        let (stream, mut far) = duplex(1 << 16);
        let mut near = Near::of(&host, stream);
        let place = format!("{host}.core1");
        far.write_all(&word(&Word::There { number: 1, place: &place })).await.unwrap();
        assert_eq!(near.there().await, place);
        let answers = async {
            let (head, _) = read::<16>(&mut far).await;
            tokio::time::sleep(Duration::from_millis(1500)).await;
            let reply = Reply { life: 7, answers: vec![Ok(vec![0xc0].into())] };
            let reply = kumiki_places::wire::message(&reply).unwrap();
            let asked = u64::from_le_bytes(head[4..12].try_into().unwrap());
            let last = [frame(1, asked, &reply), word(&Word::Gone { number: 1 })].concat();
            far.write_all(&last).await.unwrap();
        };
        let client = Client::here().with_timeout(Duration::from_secs(20));
        let step = LeaveStep::Commit { to: "elsewhere".to_owned() };
        let commit = client.ask(&place, Operation::Leave { ticket: 7, step });
        let (heard, ()) = tokio::join!(commit, answers);
        heard.unwrap();
    });
}

/// A relay has one connection to a place for all of its clients, and those that wait while the place stands still are
/// not to hold up who moves it.
#[test]
fn a_durable_place_of_another_kernel_moves_here_under_its_callers() {
    let far = Far::new("moves");
    let folder = tempfile::tempdir().unwrap();
    let runtime = far.runtime.path().to_str().unwrap().to_owned();
    let mut variables = killed::variables(folder.path().to_str().unwrap(), &far.host, None);
    variables.push(("XDG_RUNTIME_DIR", &runtime));
    let other = Other::start(killed::SERVES, &variables);
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    block_on(async {
        let (mut near, _end) = ends(&far);
        let place = near.there().await;
        let client = Client::here().with_timeout(PATIENCE);
        let (over, gap) = (AtomicBool::new(false), Gap::new());
        let mut counters = Vec::new();
        for _ in 0..16 {
            counters.push(client.create::<Counter>(&place, None, 0).await.unwrap());
        }
        let callers: Vec<_> =
            counters.iter().map(|_| Client::here().with_timeout(PATIENCE)).collect();
        let counts = callers.iter().zip(&counters);
        let counts = counts.map(|(client, counter)| killed::count(client, counter, &over, &gap));
        let moves = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let disk = Held::default();
            client.take_place(&place, &disk, "here").await.unwrap();
            let server = Server::here(&far.host).called(&*place);
            let kept = disk.clone();
            let disk = move |_: &str| Ok(Arc::new(kept.clone()) as Arc<dyn Disk>);
            let served = killed::durable_at(cpu, server, disk).unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            over.store(true, SeqCst);
            served
        };
        let (seen, _served) = tokio::join!(futures_util::future::join_all(counts), moves);
        let unknown: u64 = seen.iter().map(|seen| seen.unknown).sum();
        let done: u64 = seen.iter().map(|seen| seen.done).sum();
        assert!(unknown == 0 && done > 100, "{unknown} unknown, {done} done");
    });
    drop(other);
}
