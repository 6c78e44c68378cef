//! A durable place: what it had is restored before it answers, and what an operation has done is in its log before its
//! answer leaves.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kumiki_resource::{Handle, Id};

use crate::durable::entry::{Entry, OWN};
use crate::durable::image::ClientImage;
use crate::durable::leaving::MoveStage;
use crate::durable::log::{self, NoRoom};
use crate::durable::unflushed::MOST_UNFLUSHED;
use crate::error::{Error, Result};
use crate::lease::{Before, Lease, LeasePool, is_use};
use crate::part::Durable;
use crate::place::parts::{DurableFunctions, FormedState, caught, refused};
use crate::place::site::Site;
use crate::wire::{self, Operation, Outcome, Refusal, Request, Why, batch};

/// Interval between two looks whether another process waits for the place.
const WANTED: Duration = Duration::from_millis(20);

impl Site {
    /// Gives the place what it had.
    pub(crate) fn restore(&self) -> Result<()> {
        let Some(keeping) = &self.keeping else { return Ok(()) };
        let Some(mut image) = keeping.image() else { return Ok(()) };
        for (name, functions) in self.parts.kept() {
            let number = (functions.number)(&self.interface)?.0;
            let Some(table) = image.tables.remove(&number) else { continue };
            (functions.restore)(&self.interface, self.place, table.slots)
                .map_err(|error| of_kind(name, error))?;
        }
        let leases = self.interface.kind::<Lease>()?.0;
        if let Some(table) = image.tables.remove(&leases) {
            let functions = DurableFunctions::of::<Lease>();
            (functions.restore)(&self.interface, self.place, table.slots)?;
        }
        let clients = image.clients;
        self.interface.run(self.place, || -> Result<()> {
            for (lease, client) in clients {
                let ClientImage { first, open, answers } = client;
                let id = Id::from_u64(lease | u64::from(self.place.0) << 48);
                // One that was evicted while it had an answer to come has none.
                let Ok(lease) = self.interface.of_id::<Lease>(id) else { continue };
                let recall = |lease: &mut Lease, pool: &mut LeasePool| {
                    lease.recall(first, open, answers, pool);
                };
                if self.interface.with(&lease, recall).is_ok() {
                    self.used(&lease);
                }
            }
            Ok(())
        })?
    }

    /// Checks that what an operation will have done can be written, before it runs.
    pub(crate) fn has_room(&self, operation: &Operation) -> Result<(), Refusal> {
        let keeping = self.keeping.as_ref().filter(|_| self.parts.changes(operation));
        let Some(keeping) = keeping else { return Ok(()) };
        keeping.log().has_room(keeping.weight(operation)).map_err(|no_room| match no_room {
            NoRoom::Soon => Refusal::new(Why::AskAgain, ""),
            NoRoom::Full(why) => {
                let text = format!(
                    "{} is durable, and its log has no room for more: {why}; nothing was done",
                    self.name
                );
                Refusal::new(Why::Full, text)
            }
        })
    }

    /// Refuses all of a message, as too much waits for the place's log, and for good what of it has an effect. This reply
    /// tells nothing that is to be flushed first. None of a message that is not to be answered so.
    pub(crate) fn refuse_all(&self, message: &[u8]) -> Option<Bytes> {
        let request = self.own_ids(wire::parse::<Request>(message).ok()?);
        // Whether a place has left is not said by a refusal.
        let leaves = |operation: &Operation| matches!(operation, Operation::Leave { .. });
        if request.operations.iter().any(|(_, operation)| leaves(operation)) {
            return None;
        }
        // What is refused here the next folder would not know of.
        if self.leaving.stage() != MoveStage::Serves {
            return Some(self.ask_again(message));
        }
        let text = format!(
            "{MOST_UNFLUSHED} bytes of answers of {} wait for its disk, which is the limit; nothing was done",
            self.name
        );
        let one = |serial: u64, operation: &Operation, lease: Option<&Handle<Lease>>| {
            let refusal = Refusal::new(Why::Full, &*text);
            match lease.filter(|_| operation.has_effect()) {
                None => refusal,
                Some(lease) => match self.before(lease, serial, 0) {
                    Before::New => self.for_good(lease, serial, refusal),
                    Before::Refused(refusal) => self.for_good(lease, serial, refusal),
                    Before::Ran(_) | Before::Runs => Refusal::new(Why::AskAgain, ""),
                },
            }
        };
        let all = || {
            let refused = |lease: Option<&Handle<Lease>>| -> Vec<Outcome> {
                let all = request.operations.iter();
                all.map(|(serial, operation)| Err(one(*serial, operation, lease))).collect()
            };
            let same = |refusal| vec![Err(refusal); request.operations.len().max(1)];
            if request.life != 0 && request.life != self.life {
                return same(Refusal::new(Why::OtherLife, "it was started anew since"));
            }
            match request.lease {
                0 => refused(None),
                lease => match self.begin(Id::from_u64(lease), &request) {
                    Ok(lease) => refused(Some(&lease)),
                    Err(refusal) => same(refusal),
                },
            }
        };
        let answers = self.interface.run(self.place, all).ok()?;
        Some(self.written(answers))
    }

    /// Writes what an operation has done, and the answers that it has given, into the log of a durable place. What
    /// cannot be written has run: no answer of it leaves, and the place ends.
    pub(crate) fn note(
        &self,
        lease: &Handle<Lease>,
        serial: u64,
        operation: &Operation,
        outcome: &Outcome,
    ) {
        let Some(keeping) = &self.keeping else { return };
        if !is_use(outcome) || !self.parts.changes(operation) {
            return;
        }
        match self.record(lease, serial, operation, outcome) {
            Ok(record) => {
                keeping.weigh(&record);
                keeping.log().append(&record);
            }
            Err(Refusal { text: why, .. }) => {
                let what = format!("writing what an operation of {} has done", self.name);
                keeping.log().fail(Error::Value { what, why });
            }
        }
    }

    /// Record of what an operation has done, and of its answers; nothing if its client's lease has gone.
    fn record(
        &self,
        lease: &Handle<Lease>,
        serial: u64,
        operation: &Operation,
        outcome: &Outcome,
    ) -> Result<Vec<Entry>, Refusal> {
        let mut record = Vec::with_capacity(3);
        let take = |lease: &mut Lease, _: &mut LeasePool| {
            let new = lease.begins_to_be_noted();
            let answers = std::iter::once((serial, outcome.clone()));
            let others = (serial + 1..).take(operation.calls());
            let others = others.filter_map(|serial| Some((serial, lease.kept(serial)?)));
            (new, lease.seen(), answers.chain(others).collect())
        };
        // It was found a moment ago, by the same thread.
        let taken = self.interface.with(lease, take).map_err(|error| refused(&error))?;
        let (new, (first, open), answers) = taken;
        let own = |id: Id| id.to_u64() & OWN;
        if let Some((key, name)) = new {
            let state = wire::named(&key)
                .map_err(|error| Refusal::new(Why::Kind, format!("a lease: {error}")))?;
            record.push(Entry::Made { id: own(lease.id()), name, form: Lease::FORM, state });
        }
        match operation {
            Operation::Create { kind, unique, .. } => {
                let made = outcome.as_ref().ok().and_then(|bytes| wire::read::<u64>(bytes).ok());
                if let Some(id) = made {
                    let made = self.state(kind, id)?.map(|(form, state)| Entry::Made {
                        id: id & OWN,
                        name: unique.clone(),
                        form,
                        state,
                    });
                    record.extend(made);
                }
            }
            Operation::Destroy { id, kind } => {
                // One whose end has panicked has gone all the same.
                let has_gone = match outcome {
                    Ok(_) => true,
                    Err(refusal) if Why::from(refusal.why) == Why::Panicked => {
                        self.state(kind, *id)?.is_none()
                    }
                    Err(_) => false,
                };
                record.extend(has_gone.then_some(Entry::Gone { id: id & OWN }));
            }
            Operation::Call { id, kind, .. } => {
                record.extend(self.changed(kind, *id)?);
            }
            Operation::Chain { steps, .. } => {
                let mut own: Vec<(&str, u64)> = steps
                    .iter()
                    .filter(|step| step.place == self.name)
                    .map(|step| (&*step.kind, step.id))
                    .collect();
                own.sort_unstable();
                own.dedup();
                for (kind, id) in own {
                    record.extend(self.changed(kind, id)?);
                }
            }
            Operation::Each { kind, calls, .. } => {
                let mut ids: Vec<u64> = batch::calls(calls).flatten().map(|(id, _)| id).collect();
                ids.sort_unstable();
                ids.dedup();
                for id in ids {
                    record.extend(self.changed(kind, id)?);
                }
            }
            _ => {}
        }
        record.push(Entry::Answers { lease: own(lease.id()), first, open, answers });
        Ok(record)
    }

    fn changed(&self, kind: &str, id: u64) -> Result<Option<Entry>, Refusal> {
        let state = self.state(kind, id)?;
        Ok(state.map(|(form, state)| Entry::Changed { id: id & OWN, form, state }))
    }

    /// A resource's state, if there is one of this id.
    ///
    /// # Errors
    /// There is one, and its state cannot be written, or its kind's code has panicked.
    fn state(&self, kind: &str, id: u64) -> Result<Option<FormedState>, Refusal> {
        // Own ids come from requests, and those of what was made as others have them.
        let id = Id::from_u64(id & OWN | u64::from(self.place.0) << 48);
        let Some(functions) = self.parts.kept_kind(kind) else { return Ok(None) };
        match caught(|| (functions.state)(&self.interface, id)) {
            Ok(state) => Ok(Some(state)),
            Err(refusal) if [Why::Stale, Why::NoResource].contains(&Why::from(refusal.why)) => {
                Ok(None)
            }
            Err(Refusal { why, text }) => {
                let text = format!("the state of {kind} {id} cannot be had: {text}");
                Err(Refusal { why, text })
            }
        }
    }

    /// Returns when this record is flushed; false if it never is.
    pub(crate) fn is_flushed(&self, after: u64) -> impl Future<Output = bool> + Send + use<> {
        let flushed = self.keeping.as_ref().map(|keeping| keeping.log().flushed());
        async move {
            match flushed {
                Some(flushed) => log::is_flushed(flushed, after).await,
                None => true,
            }
        }
    }

    /// Returns when nothing more can be written to the log of a durable place: what it has done is not known to last.
    pub(crate) fn log_failed(&self) -> impl Future<Output = Error> + Send + use<> {
        let flushed = self.keeping.as_ref().map(|keeping| keeping.log().flushed());
        let place = self.name.clone();
        async move {
            match flushed {
                Some(flushed) => {
                    let why = format!("its log has failed: {}", log::failed(flushed).await);
                    Error::NotDurable { place, why }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Returns when another process waits for the files of a durable place.
    pub(crate) fn is_wanted(&self) -> impl Future<Output = ()> + Send + use<> {
        let disk = self.keeping.as_ref().map(|keeping| Arc::clone(&keeping.disk));
        async move {
            let Some(disk) = disk else { return std::future::pending().await };
            while !disk.is_wanted() {
                tokio::time::sleep(WANTED).await;
            }
        }
    }

    /// Destroys a lease, also in the log.
    pub(crate) fn end_lease(&self, lease: Handle<Lease>) -> kumiki_resource::Result<()> {
        let id = lease.id();
        let is_noted = self.interface.with(&lease, |lease, _| lease.is_noted())?;
        self.interface.destroy(lease)?;
        if let Some(keeping) = self.keeping.as_ref().filter(|_| is_noted) {
            keeping.log().append(&[Entry::Gone { id: id.to_u64() & OWN }]);
        }
        Ok(())
    }
}

fn of_kind(name: &str, error: Error) -> Error {
    match error {
        Error::OtherForm { form, known, .. } => {
            Error::OtherForm { what: format!("the state of a {name}"), form, known }
        }
        other => other,
    }
}
