//! A place that answers: a request's operations, on the thread of the place's owner.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kumiki_resource::kind::Kind;
use kumiki_resource::{Handle, Id, Interface, Listed, Name, Pattern, Place};
use tokio::time::{Interval, MissedTickBehavior};

use crate::durable::leaving::Leaving;
use crate::lease::{Awaited, Finished, Threads};
use crate::lease::{Before, Lease, LeasePool, is_use};
use crate::place::allow::Allow;
use crate::place::keeping::Keeping;
use crate::place::parts::{Handled, Parts, answer, refused};
use crate::transport::direct::Direct;
use crate::wire::busy::Busy;
use crate::wire::chain::Forward;
use crate::wire::changes::{Changes, HOLDS, Heard, Watching};
use crate::wire::{self, MOST_OPERATIONS, Operation, Outcome, Page, Refusal, Reply, Request, Why};

/// Interval between two looks whether threads of this process ask, of a thread that manages its
/// place, and whether names have changed, of one that is watched.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Time that one message may have a place look something up: the rest is to be asked for again.
const LOOKING: Duration = Duration::from_millis(20);

/// Ticks of a period; one that comes late moves those after it.
pub(crate) fn every(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Bytes of a reply beside its answers, at most.
const REPLY: usize = 64;
/// Bytes of an answer beside what it holds, at most.
const ANSWER: usize = 16;

/// One place, as others see it.
pub(crate) struct Site {
    pub(crate) interface: Interface,
    pub(crate) place: Place,
    /// Its name in this process, `core3`.
    pub(crate) core: String,
    /// Its name for all, `hostb.core3`.
    pub(crate) name: String,
    /// A number of this life of it: another process that takes the name has another one.
    pub(crate) life: u64,
    /// Time that a client's lease holds after its last request.
    pub(crate) holds: Duration,
    pub(crate) parts: Parts,
    pub(crate) allow: Allow,
    /// Threads for operations that block.
    pub(crate) threads: Threads,
    /// Changes of its names, while somebody watches, and the number of the last message with some.
    pub(crate) heard: Mutex<Option<Heard>>,
    pub(crate) changes_sent: AtomicU64,
    /// Time that it answers requests.
    pub(crate) busy: Arc<Busy>,
    pub(crate) since: Instant,
    /// The log of a durable place.
    pub(crate) keeping: Option<Keeping>,
    /// Progress of its move to another folder.
    pub(crate) leaving: Arc<Leaving>,
    /// Number of the place in ids as others have them: one that has moved to another core has still that of its first.
    pub(crate) number: u16,
    /// Connections of its clients' own, where it listens for them.
    pub(crate) direct: Option<Arc<Direct>>,
    /// Asker of other places for the later steps of chains.
    pub(crate) forward: Option<Arc<dyn Forward>>,
}

/// Reply to a message, or the operation that it waits for.
pub(crate) enum Answered {
    Reply(Bytes),
    /// The reply is to leave when this record of the place's log is flushed.
    Flushes {
        reply: Bytes,
        after: u64,
    },
    /// Reply that leaves likewise, and ends the place here: it has moved.
    Leaves {
        reply: Bytes,
        after: u64,
    },
    /// The place stands still: the message is to be answered when it does no more.
    Held,
    Waits {
        of: Awaited,
        /// The request's first serial.
        first: u64,
    },
}

/// Way in which a message comes to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coming {
    /// A message to this life of it.
    ByLife,
    /// A message to whichever life has the name: another one may answer, too, so that it is for what changes nothing.
    ByName,
    /// A message once more, as what it waited for has ended: operations of it have begun.
    Again,
}

/// An operation's outcome, or that it blocks.
pub(crate) type Now = std::result::Result<Outcome, Awaited>;

impl Site {
    fn heard(&self) -> MutexGuard<'_, Option<Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if anybody watches.
    pub(crate) fn is_watched(&self) -> bool {
        self.heard().is_some()
    }

    /// Time that it has served, ms: no two machines' clocks are compared.
    pub(crate) fn age_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Number of the last message with changes.
    pub(crate) fn changes_sent(&self) -> u64 {
        self.changes_sent.load(Relaxed)
    }

    /// The next message with changes, in `limit` bytes at most, if anything has changed.
    pub(crate) fn changes(&self, limit: usize) -> Option<Bytes> {
        let mut heard = self.heard();
        let mut changes = heard.as_ref()?.take(limit, |name| self.renamed(name));
        changes.iter_mut().for_each(|change| change.id = self.swapped(change.id));
        if heard.as_ref().is_some_and(Heard::is_over) {
            *heard = None;
        }
        if changes.is_empty() {
            return None;
        }
        let number = self.changes_sent.fetch_add(1, Relaxed) + 1;
        wire::message(&Changes { life: self.life, number, changes }).ok()
    }

    /// A name of this process as others have it. Who calls here is told to nobody but this process itself.
    fn renamed(&self, name: &str) -> Option<String> {
        let rest = name.strip_prefix(&self.core)?;
        let kind = rest.strip_prefix('/')?.split('/').next()?;
        (kind != Lease::NAME).then(|| format!("{}{rest}", self.name))
    }

    /// Has changes told from now on, for a while.
    fn watch(&self) -> Result<Watching, Refusal> {
        let mut heard = self.heard();
        match &mut *heard {
            Some(heard) => heard.hold(),
            none => {
                let own = Pattern::new(&format!("{}/*/*", self.core));
                let own = own.map_err(|error| refused(&error))?;
                let changes = self.interface.watch_at(self.place, &own);
                *none = Some(Heard::new(changes.map_err(|error| refused(&error))?));
            }
        }
        let holds_ms = u64::try_from(HOLDS.as_millis()).unwrap_or(u64::MAX);
        Ok(Watching { life: self.life, number: self.changes_sent(), holds_ms })
    }

    /// Answers a message, in `limit` bytes at most.
    pub(crate) fn answer(&self, message: &[u8], limit: usize, coming: Coming) -> Answered {
        let begin = Instant::now();
        let answered = self.answered(message, limit, coming);
        self.busy.add(begin, Instant::now());
        answered
    }

    fn answered(&self, message: &[u8], limit: usize, coming: Coming) -> Answered {
        let reply = |answers| {
            let reply = self.written(answers);
            // Also what only looks may have seen what is not flushed.
            match self.keeping.as_ref().and_then(|keeping| keeping.log().unflushed()) {
                Some(after) => Answered::Flushes { reply, after },
                None => Answered::Reply(reply),
            }
        };
        let request = match wire::parse::<Request>(message) {
            Ok(request) if self.leaving.holds(&request) => return Answered::Held,
            Ok(request) => self.own_ids(request),
            Err(text) => return reply(vec![Err(Refusal::new(Why::Unreadable, text))]),
        };
        let count = request.operations.len();
        let calls: usize = request.operations.iter().map(|(_, one)| one.runs()).sum();
        if calls > MOST_OPERATIONS {
            let text = format!(
                "{calls} operations in one request are more than {MOST_OPERATIONS}: send less at \
                 a time"
            );
            return reply(vec![Err(Refusal::new(Why::Unreadable, text))]);
        }
        let of_a_life =
            |one: &Operation| matches!(one, Operation::Hello { .. } | Operation::Direct);
        let changes = |one: &Operation| one.has_effect() || of_a_life(one);
        if coming == Coming::ByName && request.operations.iter().any(|(_, one)| changes(one)) {
            let text = format!("{} has another life, perhaps: ask one of them", self.name);
            return reply(vec![Err(Refusal::new(Why::OtherLife, text)); count]);
        }
        let run = self.interface.run(self.place, || self.run(&request, limit, coming));
        match run.unwrap_or_else(|error| Ok(vec![Err(refused(&error)); count.max(1)])) {
            Ok(answers) => match self.leaving.left_by(&request) {
                Some(after) => Answered::Leaves { reply: self.written(answers), after },
                None => reply(answers),
            },
            Err(of) => {
                let first = request.operations.first().map_or(0, |(serial, _)| *serial);
                Answered::Waits { of, first }
            }
        }
    }

    /// Has whoever has sent this message, which was held, send it again: the place has moved.
    pub(crate) fn ask_again(&self, message: &[u8]) -> Bytes {
        let count = wire::parse::<Request>(message).map_or(1, |request| request.operations.len());
        self.written(vec![Err(Refusal::new(Why::AskAgain, "")); count])
    }

    /// Refuses all of a message of which operations have begun, as the place ends.
    pub(crate) fn give_up(&self, message: &[u8]) -> Bytes {
        let count = wire::parse::<Request>(message).map_or(1, |request| request.operations.len());
        let text = format!("{} has ended while it ran", self.name);
        self.written(vec![Err(Refusal::new(Why::Died, text)); count])
    }

    /// Keeps the answer of an operation that has blocked.
    pub(crate) fn ended(&self, ended: Finished) -> kumiki_resource::Result<()> {
        let Finished { of: Awaited { lease, serial }, outcome } = ended;
        self.interface.run(self.place, || {
            // Its client has gone, and its lease with it.
            let Ok(lease) = self.interface.of_id::<Lease>(lease) else { return };
            let keep = |lease: &mut Lease, pool: &mut LeasePool| lease.ended(serial, outcome, pool);
            let _ = self.interface.with(&lease, keep);
        })
    }

    pub(crate) fn written(&self, answers: Vec<Outcome>) -> Bytes {
        let reply = Reply { life: self.life, answers };
        wire::message(&reply).unwrap_or_else(|_| Bytes::from_static(&[wire::VERSION]))
    }

    /// Runs the operations, on the owner's thread, or tells the first one that blocks. One whose client
    /// is not known to have a lease is at least answered.
    fn run(
        &self,
        request: &Request,
        limit: usize,
        coming: Coming,
    ) -> std::result::Result<Vec<Outcome>, Awaited> {
        let all = |refusal: Refusal| Ok(vec![Err(refusal); request.operations.len().max(1)]);
        if request.life != 0 && request.life != self.life {
            return all(Refusal::new(
                Why::OtherLife,
                format!("{} was started anew since: open its resources anew", self.name),
            ));
        }
        let lease = match request.lease {
            0 => None,
            lease => match self.begin(Id::from_u64(lease), request) {
                Ok(lease) => Some(lease),
                Err(_) if coming == Coming::Again => {
                    let text = "its client's lease has ended while it ran";
                    return all(Refusal::new(Why::Died, text));
                }
                Err(refusal) => return all(refusal),
            },
        };
        // Those that find none take some, too.
        let mut room = limit.saturating_sub(REPLY + ANSWER * request.operations.len());
        let (begin, mut has_looked, mut has_greeted) = (Instant::now(), false, false);
        let greets = |one: &Operation| matches!(one, Operation::Hello { .. } | Operation::Direct);
        let one = |(serial, operation): &(u64, Operation)| {
            let outcome = match (&lease, operation.has_effect()) {
                (_, false) if greets(operation) && has_greeted => {
                    let text = "one lease, or connection, is asked for in one message";
                    Ok(Err(Refusal::new(Why::Full, text)))
                }
                // Others have waited for long enough: what is left is asked for by another message.
                (_, false) if has_looked && begin.elapsed() > LOOKING => {
                    Ok(Err(Refusal::new(Why::AskAgain, "")))
                }
                (_, false) => {
                    has_looked = true;
                    has_greeted |= greets(operation);
                    Ok(self.look(operation, room))
                }
                (Some(lease), true) if matches!(operation, Operation::Each { .. }) => {
                    self.batch(lease, *serial, operation, limit, room)
                }
                (Some(lease), true) => self.once(lease, *serial, operation, limit),
                (None, true) => {
                    let text = "an operation that has an effect needs a lease";
                    Ok(Err(Refusal::new(Why::NoLease, text)))
                }
            };
            outcome.map(|outcome| self.fitted(outcome, &mut room, limit))
        };
        // All begin before one is waited for.
        let outcomes: Vec<_> = request.operations.iter().map(one).collect();
        outcomes.into_iter().collect()
    }

    /// Tells what is known of an operation, before it runs and gives so many answers to keep.
    pub(crate) fn before(&self, lease: &Handle<Lease>, serial: u64, answers: usize) -> Before {
        let before = |lease: &mut Lease, pool: &mut LeasePool| lease.before(serial, answers, pool);
        let known = self.interface.with(lease, before);
        known.unwrap_or_else(|error| Before::Refused(refused(&error)))
    }

    /// Keeps the answer of an operation that has just run.
    pub(crate) fn keep(
        &self,
        lease: &Handle<Lease>,
        serial: u64,
        outcome: Outcome,
    ) -> Result<(), Refusal> {
        let is_use = is_use(&outcome);
        let keep = |lease: &mut Lease, pool: &mut LeasePool| lease.keep(serial, outcome, pool);
        self.interface.with(lease, keep).map_err(|error| refused(&error))?;
        if is_use {
            self.used(lease);
        }
        Ok(())
    }

    /// A refusal of an operation that does not begin. One for want of room is noted: its client is told that nothing was
    /// done, and a copy of it may come when there is room.
    pub(crate) fn for_good(&self, lease: &Handle<Lease>, serial: u64, refusal: Refusal) -> Refusal {
        if refusal.why != Why::Full as u16 {
            return refusal;
        }
        let refuse = |lease: &mut Lease, pool: &mut LeasePool| lease.refuse(serial, pool);
        match self.interface.with(lease, refuse) {
            Ok(true) => refusal,
            // Nothing is said of it: it is asked for again.
            Ok(false) | Err(_) => Refusal::new(Why::AskAgain, ""),
        }
    }

    /// Runs an operation, or gives the answer that it gave before.
    pub(crate) fn once(
        &self,
        lease: &Handle<Lease>,
        serial: u64,
        operation: &Operation,
        limit: usize,
    ) -> Now {
        let of = Awaited { lease: lease.id(), serial };
        match self.before(lease, serial, 1) {
            Before::Ran(outcome) => Ok(outcome),
            Before::Runs => Err(of),
            Before::Refused(refusal) => Ok(Err(self.for_good(lease, serial, refusal))),
            Before::New => {
                if let Err(refusal) = self.has_room(operation) {
                    return Ok(Err(self.for_good(lease, serial, refusal)));
                }
                match self.execute(operation, limit) {
                    Handled::Ran(run) => {
                        let outcome = run.and_then(|answer| too_large(answer, limit));
                        let kept = self.keep(lease, serial, outcome.clone());
                        self.note(lease, serial, operation, &outcome);
                        Ok(kept.and(outcome))
                    }
                    Handled::Blocks(rest) => {
                        // It was found a moment ago, by the same thread.
                        let _ = self.interface.with(lease, |lease, _| lease.runs(serial));
                        self.used(lease);
                        let rest = move || rest().and_then(|answer| too_large(answer, limit));
                        self.threads.start(of, Box::new(rest));
                        Err(of)
                    }
                }
            }
        }
    }

    pub(crate) fn execute(&self, operation: &Operation, limit: usize) -> Handled {
        if let Operation::Chain { steps, input } = operation {
            return self.chain(steps, input, limit);
        }
        let may_block = self.threads.have_room();
        let run = self.parts.run(&self.allow, &self.interface, self.place, operation, may_block);
        match (run, operation) {
            (Handled::Ran(Ok(id)), Operation::Create { .. }) if self.has_moved() => {
                Handled::Ran(self.others_id(&id))
            }
            (run, _) => run,
        }
    }

    /// Answers an operation that changes nothing that others see.
    pub(crate) fn look(&self, operation: &Operation, room: usize) -> Outcome {
        match operation {
            Operation::Hello { key, client } => self.hello(*key, client),
            Operation::Offers => answer(&self.parts.offers(&self.allow)),
            Operation::Open { kind, unique } => {
                self.lists()?;
                if kind == Lease::NAME {
                    let text = format!("{} shows its callers to nobody", self.name);
                    return Err(Refusal::new(Why::NotAllowed, text));
                }
                let name = Name::new(&self.core, kind, unique).map_err(|error| refused(&error))?;
                let id = self.interface.lookup(&name).map_err(|error| refused(&error))?;
                answer(&self.swapped(id.to_u64()))
            }
            Operation::Leave { ticket, step } => self.leave(*ticket, step, room),
            Operation::Direct => match &self.direct {
                Some(direct) => answer(&direct.offer()?),
                None => {
                    let text = format!("{} listens to nobody but its NATS server", self.name);
                    Err(Refusal::new(Why::NotAllowed, text))
                }
            },
            Operation::Watch => {
                self.lists()?;
                answer(&self.watch()?)
            }
            Operation::Age => answer(&self.age_ms()),
            Operation::Load => answer(&self.busy.permille(Instant::now())),
            Operation::List { pattern, after } => {
                self.lists()?;
                answer(&self.list(pattern, after.as_ref(), room)?)
            }
            _ => Err(Refusal::new(Why::Unreadable, "an operation that has an effect")),
        }
    }

    fn lists(&self) -> Result<(), Refusal> {
        if self.allow.lists() {
            return Ok(());
        }
        let text = format!("{} lists nothing: `list = true` in its allow-list would", self.name);
        Err(Refusal::new(Why::NotAllowed, text))
    }

    /// Lists this place's resources by the names that others have for them, behind a name and id, as
    /// many as there is room for.
    fn list(
        &self,
        pattern: &str,
        after: Option<&(String, u64)>,
        room: usize,
    ) -> Result<Page, Refusal> {
        let pattern = Pattern::new(pattern).map_err(|error| refused(&error))?;
        let own = Pattern::new(&format!("{}/*/*", self.core)).map_err(|error| refused(&error))?;
        let listed = self.interface.ls_at(self.place, &own).map_err(|error| refused(&error))?;
        let renamed = listed.into_iter().filter_map(|mut one| {
            one.name = self.renamed(&one.name)?;
            one.id = Id::from_u64(self.swapped(one.id.to_u64()));
            one.owner.clone_from(&self.name);
            let at = (one.name.as_str(), one.id.to_u64());
            let is_behind = after.is_none_or(|(name, id)| at > (name.as_str(), *id));
            (is_behind && pattern.matches(&one.name)).then_some(one)
        });
        let mut listed: Vec<Listed> = renamed.collect();
        listed.sort_unstable_by(|a, b| (&a.name, a.id.to_u64()).cmp(&(&b.name, b.id.to_u64())));
        let mut left = room.saturating_sub(REPLY);
        let has_room = |one: &&Listed| {
            let bytes = wire::named(one).map_or(usize::MAX, |bytes| bytes.len());
            left.checked_sub(bytes).is_some_and(|rest| {
                left = rest;
                true
            })
        };
        // One at least: what has no room alone is refused as it is.
        let count = listed.iter().take_while(has_room).count().max(1);
        let more = listed.len() > count;
        listed.truncate(count);
        Ok(Page { listed, more })
    }

    /// A refusal with names as its client has them: `hostb.core3/…`, and not `core3/…`.
    pub(crate) fn named(&self, mut refusal: Refusal) -> Refusal {
        let (own, whole) = (format!("{}/", self.core), format!("{}/", self.name));
        if !refusal.text.contains(&whole) {
            refusal.text = refusal.text.replace(&own, &whole);
        }
        refusal
    }

    /// The answer, if the reply has room for it.
    fn fitted(&self, outcome: Outcome, room: &mut usize, limit: usize) -> Outcome {
        let outcome = match outcome {
            Ok(bytes) => too_large(bytes, limit),
            Err(refusal) => Err(self.named(refusal)),
        };
        let bytes = outcome.as_ref().map_or_else(|refusal| refusal.text.len(), Bytes::len);
        match room.checked_sub(bytes) {
            Some(left) => {
                *room = left;
                outcome
            }
            None => Err(Refusal::new(Why::AskAgain, "")),
        }
    }
}

pub(crate) fn too_large(answer: Bytes, limit: usize) -> Outcome {
    let most = limit.saturating_sub(REPLY + ANSWER);
    if answer.len() <= most {
        return Ok(answer);
    }
    let text = format!(
        "its answer has {} bytes, and a message has room for {most}; it has run",
        answer.len()
    );
    Err(Refusal::new(Why::AnswerTooLarge, text))
}
