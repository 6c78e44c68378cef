//! A caller of a place: it counts with counters of its own, and notes effects in the place's ledger.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::wire::Why;
use kumiki_places::{Client, Error};
use kumiki_resource::Name;

use super::ledger::{Calls, Known, Ledger, Note};
use crate::faults::{Calm, Spell};
use crate::soak::Soak;

/// Calls to one counter, at most; then there is another one.
pub(super) const CALLS: u32 = 300;
/// A place that is away is back within this, as it is started anew at once.
const AWAY: Duration = Duration::from_secs(4);
/// Pause before it tries again where nobody was.
pub(super) const REST: Duration = Duration::from_millis(20);

pub(super) struct Caller {
    pub(super) soak: &'static Soak,
    pub(super) client: Client,
    pub(super) place: String,
    pub(super) calls: Arc<Calls>,
    /// By sockets or by NATS.
    pub(super) way: &'static str,
    /// Tells that the faults of the place, and of the way to it, rest.
    pub(super) calm: Arc<Calm>,
    pub(super) number: u64,
    pub(super) rng: Rng,
}

/// Reads from an error what is known of the call; any other one is a fault.
fn known(error: &Error) -> Result<Known> {
    match error {
        Error::Gone { .. } | Error::NotSent { .. } | Error::Unanswered { .. } => Ok(Known::NotDone),
        Error::Refused { why: Why::Stale, .. } => Ok(Known::NotDone),
        Error::Unknown { .. } => Ok(Known::Nothing),
        other => bail!("{other}"),
    }
}

/// Spells without faults in which a call was asked, and its object was made.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) made: Option<Spell>,
    pub(super) asked: Option<Spell>,
}

/// Counts a call that has not run, or of which nobody knows: by a fault that was made. An object of
/// before the last fault may have gone with its place; else none fails in a spell without faults.
pub(super) fn failed(
    soak: &Soak,
    calm: &Calm,
    Asked { made, asked }: Asked,
    way: &str,
    error: &Error,
) -> Result<Known> {
    let known = known(error)?;
    let since = if known == Known::NotDone { made } else { asked };
    if since.is_some_and(|spell| calm.lasts(spell)) {
        bail!("while no fault was made: {error}");
    }
    let what = if known == Known::NotDone { "not done" } else { "unknown" };
    soak.count(&format!("{what}, {way}"));
    Ok(known)
}

/// Counts an answered call; its counter's value is one that the calls before it allow.
pub(super) fn counted(
    soak: &Soak,
    way: &str,
    unique: &str,
    value: i64,
    may_be: RangeInclusive<i64>,
) -> Result<()> {
    ensure!(may_be.contains(&value), "{unique} is {value}, and may be {may_be:?}");
    soak.count(&format!("called, {way}"));
    if may_be.start() == may_be.end() {
        soak.count(&format!("counted exactly, {way}"));
    }
    Ok(())
}

impl Caller {
    pub(super) async fn run(mut self) {
        let mut counter = 0;
        while !self.soak.is_over() {
            counter += 1;
            let done =
                if counter % 2 == 0 { self.notes().await } else { self.counts(counter).await };
            if let Err(error) = done {
                self.soak.fail(&format!("client {} {}: {error:#}", self.number, self.way));
            }
        }
    }

    fn failed(&self, made: Option<Spell>, asked: Option<Spell>, error: &Error) -> Result<Known> {
        failed(self.soak, &self.calm, Asked { made, asked }, self.way, error)
    }

    /// Makes a counter and counts with it until its place has gone.
    async fn counts(&mut self, counter: u64) -> Result<()> {
        let (soak, client, way) = (self.soak, &self.client, self.way);
        let unique = format!("c{}-{counter}", self.number);
        let spell = self.calm.spell();
        let waits = soak.request(format!("a counter {unique} {way}"));
        let made = client.create::<Counter>(&self.place, Some(&unique), 0).await;
        drop(waits);
        let remote = match made {
            Ok(remote) => remote,
            Err(error) => {
                self.failed(spell, spell, &error)?;
                ::tokio::time::sleep(REST).await;
                return Ok(());
            }
        };
        let (mut done, mut unknown) = (0, 0);
        for call in 0..CALLS {
            let asked_in = self.calm.spell();
            let waits = soak.request(format!("call {call} of {unique} {way}"));
            let asked = match call % 4 {
                3 => client.call::<Get>(&remote, ()).await,
                _ => client.call::<Add>(&remote, 1).await.inspect(|_| done += 1),
            };
            drop(waits);
            match asked {
                Ok(value) => counted(soak, way, &unique, value, done..=done + unknown)?,
                Err(error) => match self.failed(spell, asked_in, &error)? {
                    // The place has gone, and what it counted; or it was not reached.
                    Known::NotDone => return Ok(()),
                    _ => unknown += i64::from(call % 4 != 3),
                },
            }
            if soak.is_over() {
                break;
            }
        }
        // One that cannot be reached keeps its counter, which its end frees.
        let _waits = soak.request(format!("the end of {unique} {way}"));
        let ended = ::tokio::time::timeout(AWAY, client.destroy(remote)).await;
        match ended.context("its end has no answer")? {
            Ok(()) => Ok(()),
            Err(error) => known(&error).map(drop),
        }
    }

    /// Notes effects, one by one and many at once, until the place has gone.
    async fn notes(&mut self) -> Result<()> {
        let (soak, way) = (self.soak, self.way);
        let name: Name = format!("{}/ledger/effects", self.place).parse().context("a name")?;
        let spell = self.calm.spell();
        let waits = soak.request(format!("a look for the ledger {way}"));
        let opened = self.client.open::<Ledger>(&name).await;
        drop(waits);
        let ledger = match opened {
            Ok(ledger) => ledger,
            Err(error) => {
                self.failed(spell, spell, &error)?;
                ::tokio::time::sleep(REST).await;
                return Ok(());
            }
        };
        for _ in 0..CALLS / 2 {
            let many = if self.rng.bool() { 1 } else { self.rng.u64(2..12) };
            let numbers = self.calls.next(many);
            let asked_in = self.calm.spell();
            let waits = soak.request(format!("notes {numbers:?} {way}"));
            let outcomes = match many {
                1 => vec![self.client.call::<Note>(&ledger, numbers.start).await],
                _ => {
                    let calls = numbers.clone().map(|number| (&ledger, number));
                    self.client.each::<Note>(calls).await
                }
            };
            drop(waits);
            ensure!(outcomes.len() as u64 == many, "{} outcomes of {many}", outcomes.len());
            let mut is_there = true;
            for (number, outcome) in numbers.zip(outcomes) {
                let known = match outcome {
                    Ok(times) => {
                        ensure!(times == 1, "call {number} has had its effect {times} times");
                        soak.count(&format!("noted, {way}"));
                        Known::Done
                    }
                    Err(error) => {
                        is_there = false;
                        self.failed(spell, asked_in, &error)?
                    }
                };
                self.calls.is(number, known);
            }
            if !is_there || soak.is_over() {
                break;
            }
        }
        Ok(())
    }
}
