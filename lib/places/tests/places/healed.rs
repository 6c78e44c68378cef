//! Two lives of one name at once: a line between two servers breaks, a place of the same name is started behind it, and the
//! line heals. Every call has its effect in one life, once, or its caller knows better.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use kumiki_places::{Client, Error, Reference, Served};
use kumiki_resource::{Interface, Name};
use rustix::process::{Pid, Signal, kill_process};

use crate::names::parted;
use crate::once::{Ledger, Note, machine_with, serve};
use crate::scene::{PATIENCE, block_on, client};

/// Calls of a part of the file, more than a heal has time for.
const CALLS: usize = 20_000;
/// Callers at each server.
const CALLERS: usize = 4;
/// What a call's caller knows: it has run, has not, or nobody knows; 0 of one that was never made.
const DONE: u8 = 1;
const NOT_DONE: u8 = 2;
const UNKNOWN: u8 = 3;

/// Calls, one after the other, until it is over; the numbers from `first` on, in steps.
async fn call(client: &Client, name: &Name, first: usize, known: &[AtomicU8], over: &AtomicU8) {
    let mut ledger: Option<Reference<Ledger>> = None;
    for number in (first..known.len()).step_by(2 * CALLERS) {
        let its = loop {
            if over.load(SeqCst) != 0 {
                return;
            }
            match &ledger {
                Some(its) => break its,
                None => match client.open::<Ledger>(name).await {
                    Ok(its) => ledger = Some(its),
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                },
            }
        };
        let state = match client.call::<Note>(its, number as u64).await {
            Ok(times) => {
                assert_eq!(times, 1, "call {number} has run {times} times");
                DONE
            }
            Err(Error::Unknown { .. }) => UNKNOWN,
            Err(
                Error::Gone { .. }
                | Error::NotSent { .. }
                | Error::Unanswered { .. }
                | Error::Refused { .. },
            ) => NOT_DONE,
            Err(other) => panic!("{other}"),
        };
        known[number].store(state, SeqCst);
        if state != DONE {
            ledger = None;
        }
        // Not more than a file has room for.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The younger place, behind the line, as soon as it does not hear the elder one any more.
fn younger(url: &str, ledger: &str) -> (Interface, Served) {
    let end = Instant::now() + PATIENCE;
    loop {
        match serve(url, ledger) {
            Ok(served) => return served,
            Err(Error::PlaceTaken { .. }) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Heals the line so many times, with callers at both sides.
fn healed(times: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (hub, leaf, line) = parted(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let name: Name = format!("m.core{cpu}/ledger/effects").parse().unwrap();
    let (elder_ledger, mut tally) = (path("elder"), [0; 4]);
    let elder = machine_with(&hub.url(), &elder_ledger);
    // Of two that began within seconds of each other the life decides, and not the age.
    std::thread::sleep(Duration::from_secs(5));
    let pid = Pid::from_raw(elder.pid() as i32).unwrap();
    for heal in 0..times {
        line.down();
        let younger_ledger = path(&format!("younger{heal}"));
        let (_interface, second) = younger(&leaf.url(), &younger_ledger);
        let known: Vec<AtomicU8> = (0..CALLS).map(|_| AtomicU8::new(0)).collect();
        std::fs::write(&elder_ledger, "").unwrap();
        let over = AtomicU8::new(0);
        let (known, over, name) = (&known, &over, &name);
        block_on(async {
            let clients = [client(&hub.url()).await, client(&leaf.url()).await];
            let limit = Duration::from_secs(6);
            let clients = clients.map(|client| client.with_timeout(limit));
            let callers = (0..2 * CALLERS).map(|n| call(&clients[n % 2], name, n, known, over));
            let heals = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                // Every second time the elder one sleeps meanwhile, and wakes to find another.
                if heal % 2 == 1 {
                    kill_process(pid, Signal::STOP).unwrap();
                }
                line.up();
                tokio::time::sleep(Duration::from_millis(1200)).await;
                kill_process(pid, Signal::CONT).unwrap();
                let end = Instant::now() + PATIENCE;
                while second.endings().is_empty() {
                    assert!(Instant::now() < end, "two places of one name serve on");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                // Those that have called the younger one find the elder.
                tokio::time::sleep(Duration::from_millis(200)).await;
                over.store(1, SeqCst);
            };
            tokio::join!(futures_util::future::join_all(callers), heals);
        });
        let error = second.ended().unwrap();
        assert!(matches!(&*error, Error::PlaceTaken { .. }), "{error}");
        let effects = |path: &str| {
            let mut effects = std::fs::read(path).unwrap();
            effects.resize(CALLS, 0);
            effects
        };
        let both = effects(&elder_ledger).into_iter().zip(effects(&younger_ledger));
        for (number, (one, other)) in both.enumerate() {
            let (state, times) = (known[number].load(SeqCst), one + other);
            let fits = match state {
                DONE => times == 1,
                UNKNOWN => times <= 1,
                _ => times == 0,
            };
            assert!(
                fits,
                "heal {heal}, call {number}: {state} is known, {one} and {other} effects"
            );
            tally[usize::from(state)] += 1;
        }
    }
    let [_, done, not_done, unknown] = tally;
    println!("{times} heals: {done} done, {not_done} not done, {unknown} unknown");
    assert!(done > 100 * times, "most of them found a place");
}

#[test]
fn of_two_lives_of_one_name_each_call_runs_in_one() {
    healed(5);
}

#[test]
#[ignore = "some minutes: `cargo xtask stress places`, after a change to the protocol"]
fn healed_fifty_times_each_call_runs_in_one_life() {
    healed(50);
}
