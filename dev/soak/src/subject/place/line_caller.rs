//! A caller of a place by lines: memory that this process and the place's share.

use std::sync::Arc;

use anyhow::Result;
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::{Binding, Control, Error};

use super::caller::{Asked, CALLS, REST, counted, failed};
use super::ledger::Known;
use crate::faults::{Calm, Spell};
use crate::soak::Soak;

/// Way of these callers, in what the soak counts.
pub(super) const WAY: &str = "by lines";
pub(super) struct LineCaller {
    pub(super) soak: &'static Soak,
    pub(super) control: Control,
    pub(super) place: String,
    /// Tells that the faults of the place rest.
    pub(super) calm: Arc<Calm>,
    pub(super) number: u64,
}

impl LineCaller {
    pub(super) fn run(self) {
        let mut counter = 0;
        while !self.soak.is_over() {
            counter += 1;
            if let Err(error) = self.counts(counter) {
                self.soak.fail(&format!("client {} {WAY}: {error:#}", self.number));
            }
        }
    }

    fn failed(&self, made: Option<Spell>, asked: Option<Spell>, error: &Error) -> Result<Known> {
        failed(self.soak, &self.calm, Asked { made, asked }, WAY, error)
    }

    /// Makes a counter and counts with it until its place has gone.
    fn counts(&self, counter: u64) -> Result<()> {
        let (soak, control) = (self.soak, &self.control);
        let unique = format!("l{}-{counter}", self.number);
        let spell = self.calm.spell();
        let away = |error: &Error| {
            let known = self.failed(spell, spell, error);
            std::thread::sleep(REST);
            known.map(drop)
        };
        let waits = soak.request(format!("a counter {unique} {WAY}"));
        let made = control.create::<Counter>(&self.place, Some(&unique), 0);
        drop(waits);
        let remote = match made {
            Ok(remote) => remote,
            Err(error) => return away(&error),
        };
        // Every second counter's addition is bound once.
        let bound = (counter % 2 == 1).then(|| control.bind::<Add>(&remote)).transpose();
        let mut bound: Option<Binding<Add>> = match bound {
            Ok(bound) => bound,
            Err(error) => return away(&error),
        };
        let (mut done, mut unknown) = (0, 0);
        for call in 0..CALLS {
            let asked_in = self.calm.spell();
            let waits = soak.request(format!("call {call} of {unique} {WAY}"));
            let asked = match (&mut bound, call % 4) {
                (_, 3) => control.call::<Get>(&remote, ()),
                (None, _) => control.call::<Add>(&remote, 1).inspect(|_| done += 1),
                (Some(binding), _) => binding.call(1).inspect(|_| done += 1),
            };
            drop(waits);
            match asked {
                Ok(value) => counted(soak, WAY, &unique, value, done..=done + unknown)?,
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
        let _waits = soak.request(format!("the end of {unique} {WAY}"));
        let asked_in = self.calm.spell();
        let ended = control.destroy(remote);
        ended.or_else(|error| self.failed(spell, asked_in, &error).map(drop))
    }
}
