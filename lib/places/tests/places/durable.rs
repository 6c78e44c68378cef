//! Durable places: what they keep, what they refuse, and files that are torn, rotten, full or of another version.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use kumiki_places::durable::{Disk, Folder};
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::{self, Granted, Operation, Reply, Request, Why};
use kumiki_places::{Allow, Client, Error, Lease, Nats, Result, Served, Server, standard};
use kumiki_resource::{Interface, Name};

use crate::disks::{Held, SMALL};
use crate::here::{Never, unique};
use crate::killed::{durable, parts};
use crate::nats::NatsServer;
use crate::scene::{PATIENCE, block_on, managing};

/// Serves a place on this disk.
fn serve(name: &str, disk: &Held) -> Result<(Interface, Served, String)> {
    let disk = disk.clone();
    durable(Server::here(name), move |_| Ok(Arc::new(disk.clone()) as Arc<dyn Disk>))
}

fn client() -> Client {
    Client::here().with_timeout(PATIENCE)
}

#[test]
fn a_folder_has_ids_names_values_and_leases_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let (name, path) = (unique("folder"), folder.path().to_owned());
    let serve = |path: &Path| {
        let path = path.to_owned();
        let disk = move |core: &str| Ok(Arc::new(Folder::open(&path.join(core))?) as Arc<dyn Disk>);
        durable(Server::here(&name), disk)
    };
    block_on(async {
        let (_interface, served, place) = serve(&path).unwrap();
        assert_eq!(served.restored()[0].resources, 0);
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 40).await.unwrap();
        let gone = client.create::<Counter>(&place, Some("gone"), 0).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 41);
        client.destroy(gone.clone()).await.unwrap();
        let error = serve(&path).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("another process serves from it"), "{error}");
        drop(served);
        let (_interface, served, _) = serve(&path).unwrap();
        let restored = &served.restored()[0];
        assert_eq!((restored.resources, &restored.cut), (1, &None));
        // The same reference and the same lease, of a client that has not heard of all this.
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 42);
        let opened: Name = format!("{place}/counter/hits").parse().unwrap();
        assert_eq!(client.open::<Counter>(&opened).await.unwrap().id(), hits.id());
        let error = client.call::<Get>(&gone, ()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Stale, .. }), "{error}");
        let new = client.create::<Counter>(&place, Some("gone"), 0).await.unwrap();
        assert_ne!(new.id(), gone.id(), "an id is never used again");
    });
}

#[test]
fn what_cannot_be_kept_is_refused_by_its_name() {
    let disk = Held::default();
    let refused = |parts, allow| {
        let disk = disk.clone();
        let server = Server::here(unique("unkept")).parts(parts).allow(allow);
        let server = server.durable_on(move |_| Ok(Arc::new(disk.clone()) as Arc<dyn Disk>));
        managing(server).map(|_| ()).unwrap_err()
    };
    let error = refused(standard::parts(), Allow::everything());
    assert!(matches!(&error, Error::NotDurable { .. }), "{error}");
    assert!(error.to_string().contains("kind memory"), "{error}");
    let error = refused(parts().blocking::<Never>(), Allow::everything());
    assert!(error.to_string().contains("counter.never"), "{error}");
    assert!(disk.names().is_empty());
    // What is there, and is not allowed, is in nobody's way.
    let server = Server::here(unique("unkept")).parts(standard::parts()).allow(Allow::listing());
    managing(server.durable_on(move |_| Ok(Arc::new(disk.clone()) as Arc<dyn Disk>))).unwrap();
}

/// Asks the place at a socket without a client of ours.
fn ask(stream: &mut UnixStream, request: &Request) -> Reply {
    let message = [&[wire::VERSION][..], &rmp_serde::to_vec(request).unwrap()].concat();
    let length = (message.len() as u32).to_le_bytes();
    stream.write_all(&[&7_u64.to_le_bytes()[..], &length, &message].concat()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    let mut reply = vec![0; u32::from_le_bytes(head[8..].try_into().unwrap()) as usize];
    stream.read_exact(&mut reply).unwrap();
    wire::parse(&reply).unwrap()
}

#[test]
fn a_client_that_has_lost_a_lease_and_has_another_one_is_in_nobody_s_way() {
    let (name, disk) = (unique("leases"), Held::default());
    let (_interface, served, place) = serve(&name, &disk).unwrap();
    let folder = kumiki_resource::published::folder().unwrap();
    let mut stream = UnixStream::connect(folder.join(format!("{place}.place"))).unwrap();
    for key in 1..=2 {
        let hello = Operation::Hello { key, client: "c".to_owned() };
        let (operations, open) = (vec![(0, hello)], Vec::new());
        let request = Request { life: 0, lease: 0, key: 0, first: 0, open, operations };
        let reply = ask(&mut stream, &request);
        let granted: Granted = rmp_serde::from_slice(reply.answers[0].as_ref().unwrap()).unwrap();
        let (kind, spec) = ("counter".to_owned(), rmp_serde::to_vec(&0).unwrap().into());
        let create = Operation::Create { kind, version: 1, unique: None, spec };
        let (life, lease, operations) = (reply.life, granted.lease, vec![(1, create)]);
        ask(&mut stream, &Request { life, lease, key, first: 1, operations, ..request }).answers[0]
            .as_ref()
            .unwrap();
    }
    drop(served);
    let (_interface, served, _) = serve(&name, &disk).unwrap();
    assert_eq!((served.restored()[0].resources, served.restored()[0].answers), (2, 2));
}

/// A disk with a log of so many sums, and each length of that log up to which so many sums are whole.
fn counted(name: &str, sums: i64) -> (Held, Vec<usize>) {
    let disk = Held::default();
    let (_interface, served, place) = serve(name, &disk).unwrap();
    let mut lengths = Vec::new();
    block_on(async {
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        lengths.push(disk.last_log().1);
        for sum in 1..=sums {
            assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), sum);
            lengths.push(disk.last_log().1);
        }
    });
    // As it is when the place is killed: it has not said that it ends.
    let killed = disk.copy();
    drop(served);
    (killed, lengths)
}

/// The value that a place on this disk has, and what was cut off.
fn value(name: &str, disk: &Held) -> Result<(i64, Option<String>)> {
    let (_interface, served, place) = serve(name, disk)?;
    let cut = served.restored()[0].cut.clone();
    let hits: Name = format!("{place}/counter/hits").parse().unwrap();
    let value = block_on(async {
        let client = client();
        let hits = client.open::<Counter>(&hits).await?;
        client.call::<Get>(&hits, ()).await
    })?;
    Ok((value, cut))
}

#[test]
fn a_log_that_is_torn_at_any_byte_is_cut_at_its_last_whole_frame() {
    let name = unique("torn");
    let (disk, lengths) = counted(&name, 3);
    let (log, length) = disk.last_log();
    assert_eq!(Some(&length), lengths.last());
    let whole_log = disk.read(&log).unwrap();
    for torn in lengths[0]..=length {
        let disk = disk.copy();
        // What was not written is 0: the file was made with room.
        disk.change(&log, |bytes| bytes[torn..].fill(0));
        let whole = lengths.iter().rposition(|length| *length <= torn).unwrap();
        let (sum, cut) = value(&name, &disk).unwrap();
        assert_eq!(sum, whole as i64, "cut at {torn}");
        let rest = whole_log[lengths[whole]..torn].iter().any(|byte| *byte != 0);
        assert_eq!(cut.is_some_and(|cut| cut.contains("was cut at byte")), rest, "{torn}");
        // What comes next stands behind what was whole.
        if torn % 16 == 0 {
            assert_eq!(value(&name, &disk).unwrap(), (sum, None));
        }
    }
    // A file that is shorter than it was made.
    disk.change(&log, |bytes| bytes.truncate(lengths[1] + 5));
    assert_eq!(value(&name, &disk).unwrap().0, 1);
}

#[test]
fn a_rotten_byte_before_the_last_frame_is_told_with_its_place() {
    let name = unique("rotten");
    let (disk, lengths) = counted(&name, 3);
    let (log, _) = disk.last_log();
    for byte in (0..lengths[2]).step_by(3) {
        let disk = disk.copy();
        disk.change(&log, |bytes| bytes[byte] ^= 0x10);
        match value(&name, &disk) {
            Err(error @ Error::Rotten { .. }) => {
                let text = error.to_string();
                assert!(text.contains(&log) && text.contains("restore the folder"), "{text}");
            }
            // Between two frames there are bytes that say nothing.
            Ok((3, None)) => {}
            other => panic!("byte {byte}: {other:?}"),
        }
    }
    // A file that is missing between two, and one that is missing at the end.
    let long = Held::default();
    let (_interface, served, place) = serve(&name, &long).unwrap();
    block_on(async {
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        while long.names().iter().filter(|name| name.starts_with("log-")).count() < 3 {
            let _ = client.each::<Add>((0..300).map(|_| (&hits, 1))).await;
        }
    });
    let killed = long.copy();
    drop(served);
    let logs: Vec<_> = killed.names().into_iter().filter(|name| name.starts_with("log-")).collect();
    for gone in &logs[1..] {
        let disk = killed.copy();
        disk.remove(gone).unwrap();
        let error = value(&name, &disk).unwrap_err();
        assert!(
            matches!(error, Error::Rotten { .. }) && error.to_string().contains("missing"),
            "{error}"
        );
    }
    value(&name, &killed).unwrap();
}

#[test]
fn another_form_another_name_and_other_kinds_are_refused() {
    let name = unique("form");
    let (disk, _) = counted(&name, 1);
    let other = value(&unique("form-other"), &disk.copy()).unwrap_err().to_string();
    assert!(other.contains(&format!("is of place {name}.core")), "{other}");
    // Kinds in another order have other numbers, which are in ids.
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let builder = Interface::builder().kind::<Lease>().kind::<Counter>();
    let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
    let server = Server::here(&name).parts(parts()).allow(Allow::everything()).managing();
    let its = disk.copy();
    let server = server.durable_on(move |_| Ok(Arc::new(its.clone()) as Arc<dyn Disk>));
    let error = server.serve(&interface).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("kind counter has number 0 in its ids, and 1 here"), "{error}");
    // A file of a form that is not known here, whole as it is.
    let (log, _) = disk.last_log();
    disk.change(&log, |bytes| {
        let length = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
        // Behind the salt of what follows; the head's own is 0.
        bytes[33] = 9;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&[0; 8]);
        sum.update(&bytes[8..20]);
        sum.update(&bytes[4..8]);
        sum.update(&bytes[24..24 + length]);
        let sum = sum.finalize();
        bytes[20..24].copy_from_slice(&sum.to_le_bytes());
    });
    let error = value(&name, &disk).unwrap_err();
    assert!(matches!(error, Error::OtherForm { form: 9, known: 1, .. }), "{error}");
}

#[test]
fn a_full_disk_refuses_before_anything_has_run_and_serves_on_when_there_is_room() {
    let (name, disk) = (unique("full"), Held::default());
    let (_interface, served, place) = serve(&name, &disk).unwrap();
    let sum = block_on(async {
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        disk.is_full.store(true, SeqCst);
        let mut sum = 0;
        let error = loop {
            match client.call::<Add>(&hits, 1).await {
                Ok(now) => {
                    sum += 1;
                    assert_eq!(now, sum);
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Refused { why: Why::Full, .. }), "{error}");
        assert!(
            error.to_string().contains("no storage space")
                && error.to_string().contains("nothing was done"),
            "{error}"
        );
        assert_eq!(client.call::<Get>(&hits, ()).await.unwrap(), sum, "it has not run");
        // A shorter record may have found room yet.
        let error = loop {
            if let Err(error) = client.create::<Counter>(&place, None, 0).await {
                break error;
            }
        };
        assert!(matches!(error, Error::Refused { why: Why::Full, .. }), "{error}");
        disk.is_full.store(false, SeqCst);
        while client.call::<Add>(&hits, 1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sum + 1
    });
    drop(served);
    assert_eq!(value(&name, &disk).unwrap(), (sum, None));
}

/// Nothing is written that would have a snapshot made, and the disk is full of what it takes the place of.
#[test]
fn where_logs_fill_the_disk_a_snapshot_takes_their_place_though_nothing_can_be_written() {
    let (name, disk) = (unique("full-of-logs"), Held::default());
    let (_interface, served, place) = serve(&name, &disk).unwrap();
    let logs = || disk.names().iter().filter(|name| name.starts_with("log-")).count();
    let sum = block_on(async {
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        disk.is_short.store(true, SeqCst);
        let mut sum = 0;
        while client.call::<Add>(&hits, 1).await.is_ok() {
            sum += 1;
        }
        let begun = Instant::now();
        while client.call::<Add>(&hits, 1).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", disk.names());
            // What it had is free again.
            disk.is_short.fetch_and(logs() > 1, SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sum + 1
    });
    drop(served);
    assert_eq!(value(&name, &disk).unwrap(), (sum, None));
}

#[test]
fn what_was_refused_for_a_full_disk_does_not_run_when_a_copy_of_it_comes_later() {
    let (name, disk) = (unique("full-copy"), Held::default());
    let (_interface, _served, place) = serve(&name, &disk).unwrap();
    block_on(async {
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        let folder = kumiki_resource::published::folder().unwrap();
        let mut stream = UnixStream::connect(folder.join(format!("{place}.place"))).unwrap();
        let hello = Operation::Hello { key: 7, client: "c".to_owned() };
        let (operations, open) = (vec![(0, hello)], Vec::new());
        let request = Request { life: 0, lease: 0, key: 0, first: 0, open, operations };
        let reply = ask(&mut stream, &request);
        let granted: Granted = rmp_serde::from_slice(reply.answers[0].as_ref().unwrap()).unwrap();
        let add = |serial| {
            let (kind, part) = ("counter".to_owned(), "add".to_owned());
            let input = rmp_serde::to_vec(&1).unwrap().into();
            let call = Operation::Call { id: hits.id().to_u64(), kind, part, version: 1, input };
            let (life, lease, operations) = (reply.life, granted.lease, vec![(serial, call)]);
            Request { life, lease, key: 7, first: 1, operations, open: Vec::new() }
        };
        disk.is_full.store(true, SeqCst);
        let mut serial = 1;
        let refusal = loop {
            match ask(&mut stream, &add(serial)).answers.remove(0) {
                Ok(_) => serial += 1,
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(refusal.why, Why::Full as u16, "{}", refusal.text);
        let sum = client.call::<Get>(&hits, ()).await.unwrap();
        assert_eq!(sum as u64, serial - 1);
        disk.is_full.store(false, SeqCst);
        while client.call::<Add>(&hits, 1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Its client was told that nothing was done: a copy that was under way is to change nothing of that.
        let copy = ask(&mut stream, &add(serial)).answers.remove(0).unwrap_err();
        assert_eq!(copy.why, Why::Full as u16, "{}", copy.text);
        assert_eq!(client.call::<Get>(&hits, ()).await.unwrap(), sum + 1);
        ask(&mut stream, &add(serial + 1)).answers.remove(0).unwrap();
        assert_eq!(client.call::<Get>(&hits, ()).await.unwrap(), sum + 2);
    });
}

/// A disk that flushes again when this is dropped.
struct Opened<'a>(&'a Held);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.close(false);
    }
}

/// Resident memory of this process, MiB.
fn resident_mib() -> u64 {
    let said = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn while_a_flush_hangs_what_waits_for_it_is_bounded_and_the_rest_is_refused() {
    let (name, disk) = (unique("hangs"), Held::default());
    let nats = NatsServer::start();
    let kept = disk.clone();
    let server = Server::new(Nats::at(nats.url()), &name);
    let kept = move |_: &str| Ok(Arc::new(kept.clone()) as Arc<dyn Disk>);
    let (_interface, served, place) = durable(server, kept).unwrap();
    // Its end waits for a flush, also where this test fails.
    let _opened = Opened(&disk);
    block_on(async {
        let client = crate::scene::client(&nats.url()).await;
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        disk.close(true);
        let add = tokio::spawn({
            let (client, hits) = (client.clone(), hits.clone());
            async move { client.call::<Add>(&hits, 1).await }
        });
        let others = async_nats::connect(nats.url()).await.unwrap();
        let subject = format!("kumiki.place.{place}");
        let before = resident_mib();
        // Questions whose answers wait for that, each with what is asked.
        let (kind, unique) = ("counter".to_owned(), "x".repeat(900 << 10));
        let open = Operation::Open { kind, unique };
        let operations = vec![(0, open)];
        let request = Request { life: 0, lease: 0, key: 0, first: 0, open: vec![], operations };
        let bytes = [&[wire::VERSION][..], &rmp_serde::to_vec(&request).unwrap()].concat();
        let bytes = bytes::Bytes::from(bytes);
        let mut inbox = others.subscribe("_INBOX.hangs").await.unwrap();
        let said = loop {
            let reply = tokio::time::timeout(Duration::from_millis(20), inbox.next()).await;
            if let Ok(Some(reply)) = reply {
                let reply: Reply = wire::parse(&reply.payload).unwrap();
                break reply.answers[0].clone().unwrap_err();
            }
            let to = "_INBOX.hangs";
            others.publish_with_reply(subject.clone(), to, bytes.clone()).await.unwrap();
            others.flush().await.unwrap();
            let grown = resident_mib().saturating_sub(before);
            assert!(grown < 400, "{grown} MiB more, and nobody was refused");
        };
        assert_eq!(said.why, Why::Full as u16, "{}", said.text);
        assert!(said.text.contains("wait for its disk") && said.text.contains(&place), "{said:?}");
        let error = client.call::<Add>(&hits, 10).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Full, .. }), "{error}");
        assert!(!add.is_finished() && served.ended().is_none());
        disk.close(false);
        assert_eq!(add.await.unwrap().unwrap(), 1);
        // What was refused has not run, and what comes now does.
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 2);
    });
}

#[test]
fn one_flush_is_for_all_that_are_under_way() {
    let (name, disk) = (unique("together"), Held::default());
    let (interface, _served, place) = serve(&name, &disk).unwrap();
    block_on(async {
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        disk.close(true);
        let before = disk.flushes.load(SeqCst);
        let add = |_| client.call::<Add>(&hits, 1);
        let one = tokio::spawn({
            let (client, hits) = (client.clone(), hits.clone());
            async move { client.call::<Add>(&hits, 1).await }
        });
        let core = place.split('.').next_back().unwrap();
        let own: Name = format!("{core}/counter/hits").parse().unwrap();
        let own = interface.open::<Counter>(&own).unwrap();
        // How many have run says the place's own process; nobody else is told before they are flushed.
        let has_run = |count: i64| {
            while interface.with(&own, |counter, ()| counter.0).unwrap() < count {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        tokio::task::block_in_place(|| has_run(1));
        let opens = async {
            tokio::task::yield_now().await;
            tokio::task::spawn_blocking({
                let (interface, disk) = (interface.clone(), disk.clone());
                let own = own.share(kumiki_resource::Rights::USE).unwrap();
                move || {
                    while interface.with(&own, |counter, ()| counter.0).unwrap() < 65 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    disk.close(false);
                }
            })
            .await
            .unwrap();
        };
        let (all, ()) = tokio::join!(futures_util::future::join_all((0..64).map(add)), opens);
        let mut sums: Vec<i64> = all.into_iter().map(|one| one.unwrap()).collect();
        sums.push(one.await.unwrap().unwrap());
        sums.sort_unstable();
        assert_eq!(sums, (1..=65).collect::<Vec<_>>());
        // That of the first, which was at it, and one for the others.
        assert_eq!(disk.flushes.load(SeqCst) - before, 2);
    });
}

#[test]
fn after_a_flush_that_has_failed_nobody_is_answered_and_the_place_ends() {
    let (name, disk) = (unique("broken"), Held::default());
    let (_interface, served, place) = serve(&name, &disk).unwrap();
    block_on(async {
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        disk.is_broken.store(true, SeqCst);
        let client = client.with_timeout(Duration::from_secs(2));
        let error = client.call::<Add>(&hits, 1).await.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }), "{error}");
    });
    let error = served.ended().unwrap().to_string();
    assert!(error.contains("it is broken"), "{error}");
}

#[test]
fn snapshots_take_the_place_of_logs_and_have_what_they_had() {
    let (name, disk) = (unique("snapshot"), Held::default());
    let (_interface, served, place) = serve(&name, &disk).unwrap();
    let total = block_on(async {
        let client = client();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        for number in 0..100 {
            let its = format!("n{number}");
            let made = client.create::<Counter>(&place, Some(&its), number).await.unwrap();
            if number % 3 == 0 {
                client.destroy(made).await.unwrap();
            }
        }
        let mut total = 0;
        while !disk.names().iter().any(|name| name.starts_with("snapshot-")) {
            assert!(total < 10_000_000, "no snapshot is taken");
            let all = client.each::<Add>((0..100).map(|_| (&hits, 1))).await;
            total += all.into_iter().map(|one| one.map(|_| 1).unwrap()).sum::<i64>();
        }
        total
    });
    drop(served);
    let names = disk.names();
    let bytes: usize = names.iter().map(|name| disk.read(name).unwrap().len()).sum();
    assert!(bytes < 6 * SMALL as usize, "{bytes} bytes: {names:?}");
    let (_interface, served, place) = serve(&name, &disk).unwrap();
    assert_eq!(served.restored()[0].resources, 1 + 66);
    block_on(async {
        let client = client();
        let listed = client.ls(&place, "**/counter/*").await.unwrap();
        let states: Vec<_> = listed.iter().filter(|one| one.name.ends_with("/n50")).collect();
        assert_eq!(states[0].about.state, "50");
        let hits: Name = format!("{place}/counter/hits").parse().unwrap();
        let hits = client.open::<Counter>(&hits).await.unwrap();
        assert_eq!(client.call::<Get>(&hits, ()).await.unwrap(), total);
    });
    drop(served);
    // A snapshot has no tail that may be torn: one that is not whole is told.
    let snapshot = disk.names().into_iter().find(|name| name.starts_with("snapshot-")).unwrap();
    disk.change(&snapshot, |bytes| bytes.truncate(bytes.len() - 1));
    let error = value(&name, &disk).unwrap_err();
    assert!(matches!(error, Error::Rotten { .. }), "{error}");
}
