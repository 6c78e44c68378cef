//! The kinds and program parts of a place, by their names.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use kumiki_resource::kind::{Former, Kind};
use kumiki_resource::{Error, Handle, Id, Interface, KindId, Place, Rights};

use crate::durable::image::{ResourceImage, SlotImage};
use crate::lease::{MOST_BLOCKED, Rest};
use crate::part::{Block, Durable, Part, Portable, Run};
use crate::place::allow::Allow;
use crate::place::typed::Typed;
#[cfg(feature = "run")]
use crate::place::unexecuted::why_not_executed;
use crate::wire::lane::Binding;
use crate::wire::scalar::Scalar;
use crate::wire::{self, Offer, Operation, Outcome, Refusal, Why};

/// Kinds that can be made and program parts that can be called from afar.
#[derive(Clone, Default)]
pub struct Parts {
    kinds: BTreeMap<&'static str, KindFunctions>,
    parts: BTreeMap<(&'static str, &'static str), Called>,
    /// Kinds whose resources a durable place keeps.
    kept: BTreeMap<&'static str, DurableFunctions>,
}

/// A resource's state and its form.
pub(crate) type FormedState = (u32, Bytes);

/// A kind that is kept, without its type.
#[derive(Clone, Copy)]
pub(crate) struct DurableFunctions {
    pub(crate) number: fn(&Interface) -> kumiki_resource::Result<KindId>,
    /// Reads what of a resource is written.
    pub(crate) state: fn(&Interface, Id) -> Result<FormedState, Refusal>,
    /// Checks that a state of this form can be read.
    pub(crate) reads: fn(u32, &Bytes) -> crate::error::Result<()>,
    /// Gives a place the table that it had.
    pub(crate) restore: fn(&Interface, Place, Vec<SlotImage>) -> crate::error::Result<()>,
}

impl DurableFunctions {
    pub(crate) fn of<K: Durable>() -> DurableFunctions {
        DurableFunctions {
            number: |interface| interface.kind::<K>(),
            state: |interface, id| {
                let handle = interface.of_id::<K>(id).map_err(|error| refused(&error))?;
                let state = interface.with(&handle, |resource, _| wire::named(&resource.state()));
                let state = state.map_err(|error| refused(&error))?;
                let state = state.map_err(|error| {
                    let text = format!("it cannot be written as MessagePack: {error}");
                    Refusal::new(Why::Kind, text)
                })?;
                Ok((K::FORM, state))
            },
            reads: |form, state| match form == K::FORM || K::earlier(form, state).is_some() {
                true => Ok(()),
                false => Err(other_form::<K>(form)),
            },
            restore: restore::<K>,
        }
    }
}

/// Gives a place the resources of a kind that it had.
fn restore<K: Durable>(
    interface: &Interface,
    place: Place,
    slots: Vec<SlotImage>,
) -> crate::error::Result<()> {
    let mut slots = slots.into_iter();
    let mut other = None;
    let next = |pool: &mut K::Pool| {
        let Some(SlotImage { uses, resource }) = slots.next() else { return Ok(None) };
        let Some(ResourceImage { name, form, state }) = resource else {
            return Ok(Some(Former { uses, resource: None }));
        };
        let refused = |text: String| Error::Kind { kind: K::NAME, text };
        let state = match form == K::FORM {
            true => wire::read::<K::State>(&state)
                .map_err(|error| refused(format!("a state of it cannot be read: {error}")))?,
            false => K::earlier(form, &state).ok_or_else(|| {
                other = Some(form);
                refused(format!("a state of it is of form {form}"))
            })?,
        };
        let resource = Some((name, K::restored(state, pool)?));
        Ok(Some(Former { uses, resource }))
    };
    let restored = interface.restore::<K>(place, next);
    match other {
        Some(form) => Err(other_form::<K>(form)),
        None => Ok(restored?),
    }
}

/// A state of a form that is not known here.
fn other_form<K: Durable>(form: u32) -> crate::error::Error {
    let what = format!("the state of a {}", K::NAME);
    crate::error::Error::OtherForm { what, form, known: K::FORM }
}

/// A kind without its type.
#[derive(Clone, Copy)]
struct KindFunctions {
    version: u32,
    create: fn(&Interface, Place, Option<&str>, &[u8]) -> Outcome,
    destroy: fn(&Interface, Id) -> Outcome,
}

/// A program part that does not block, as a line and a batch call it: what it gives is one word, or stands in [`Longer`].
#[derive(Clone, Copy)]
pub(crate) struct Quick {
    /// Call by a word. Apart, as it is short without the other one.
    pub(crate) by_scalar: fn(&Interface, Id, Scalar, &mut Longer) -> Option<Scalar>,
    /// Call by MessagePack.
    pub(crate) by_bytes: fn(&Interface, Id, &[u8], &mut Longer) -> Option<Scalar>,
}

/// An answer that is no word: MessagePack, or why a part has not run.
#[derive(Default)]
pub(crate) struct Longer {
    pub(crate) reply: Vec<u8>,
    pub(crate) refusal: Option<Refusal>,
}

impl Quick {
    fn of<P: Run>() -> Quick {
        Quick {
            by_scalar: |interface, id, scalar, longer| match scalar.read::<P::In>() {
                Ok(input) => ran::<P>(interface, id, input, longer),
                Err(error) => longer.refuse(bad::<P>(&error)),
            },
            by_bytes: |interface, id, bytes, longer| match wire::read::<P::In>(bytes) {
                Ok(input) => ran::<P>(interface, id, input, longer),
                Err(error) => longer.refuse(bad::<P>(&error)),
            },
        }
    }
}

/// Runs a part on the thread of its resource's owner.
#[inline(always)]
fn ran<P: Run>(interface: &Interface, id: Id, input: P::In, longer: &mut Longer) -> Option<Scalar> {
    let run = |resource: &mut P::Kind, pool: &mut _| P::run(resource, pool, input);
    let handle = interface.of_id::<P::Kind>(id);
    match handle.and_then(|handle| interface.with(&handle, run)) {
        Ok(output) => Scalar::of(&output).or_else(|| longer.write(&output)),
        Err(error) => longer.refuse(refused(&error)),
    }
}

impl Longer {
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, refusal: Refusal) -> Option<Scalar> {
        self.refusal = Some(refusal);
        None
    }

    #[inline(never)]
    fn write<T: serde::Serialize>(&mut self, output: &T) -> Option<Scalar> {
        self.reply.clear();
        match wire::named_into(output, &mut self.reply) {
            Ok(()) => None,
            Err(error) => self.refuse(unwritten(&error)),
        }
    }
}

/// A program part without its types.
#[derive(Clone, Copy)]
struct Called {
    version: u32,
    /// False of one that changes nothing.
    changes: bool,
    call: fn(&Interface, Id, &[u8]) -> Result<Handled, Refusal>,
    /// None of one that may block.
    quick: Option<Quick>,
    /// The part's [`Typed`], for who has its type.
    typed: &'static (dyn Any + Send + Sync),
}

/// An operation that has run, or its part that may block.
pub(crate) enum Handled {
    Ran(Outcome),
    Blocks(Rest),
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts.keys().map(|(kind, part)| format!("{kind}.{part}"));
        f.debug_list().entries(self.kinds.keys()).entries(parts).finish()
    }
}

impl Parts {
    /// Nothing.
    pub fn new() -> Parts {
        Parts::default()
    }

    /// Adds a kind whose resources can be made and destroyed from afar.
    #[must_use]
    pub fn kind<K: Portable>(mut self) -> Parts {
        let create = |interface: &Interface, place, unique: Option<&str>, spec: &[u8]| {
            let what = || format!("create {}", K::NAME);
            let spec = wire::read::<K::Spec>(spec).map_err(|error| other(what(), &error))?;
            let handle = interface.create::<K>(place, unique, spec).map_err(|e| refused(&e))?;
            answer(&handle.id().to_u64())
        };
        let destroy = |interface: &Interface, id| {
            let handle = interface.grant::<K>(id, Rights::DESTROY).map_err(|e| refused(&e))?;
            interface.destroy(handle).map_err(|error| refused(&error))?;
            answer(&())
        };
        self.kinds.insert(K::NAME, KindFunctions { version: K::VERSION, create, destroy });
        self
    }

    /// Adds a kind as [`kind`](Self::kind) does, whose resources a [durable](crate::Server::durable) place keeps.
    #[must_use]
    pub fn durable<K: Durable + Portable>(self) -> Parts {
        let mut parts = self.kind::<K>();
        parts.kept.insert(K::NAME, DurableFunctions::of::<K>());
        parts
    }

    /// Kinds that are kept.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (&'static str, &DurableFunctions)> {
        self.kept.iter().map(|(name, functions)| (*name, functions))
    }

    pub(crate) fn kept_kind(&self, kind: &str) -> Option<&DurableFunctions> {
        self.kept.get(kind)
    }

    /// True if an operation that has run may have changed something.
    pub(crate) fn changes(&self, operation: &Operation) -> bool {
        let (Operation::Call { kind, part, .. } | Operation::Each { kind, part, .. }) = operation
        else {
            return true;
        };
        self.parts.get(&(&**kind, &**part)).is_none_or(|called| called.changes)
    }

    /// Checks that all that is allowed can be kept.
    ///
    /// # Errors
    /// A sentence that names what cannot.
    pub(crate) fn can_be_kept(&self, allow: &Allow) -> Result<(), String> {
        let not = |kind: &str| {
            let kept: Vec<_> = self.kept.keys().copied().collect();
            let kept = if kept.is_empty() { "none".to_owned() } else { kept.join(", ") };
            format!(
                "it allows kind {kind}, whose resources cannot be kept; kinds that can: {kept}. Leave \
                 it out of the allow-list"
            )
        };
        let is_kept = |kind: &str| self.kept.contains_key(kind);
        for kind in self.kinds.keys().filter(|kind| !is_kept(kind)) {
            if allow.creates(kind) || allow.destroys(kind) {
                return Err(not(kind));
            }
        }
        for ((kind, part), called) in &self.parts {
            if !allow.calls(kind, part) {
                continue;
            }
            if !is_kept(kind) {
                return Err(not(kind));
            }
            if called.quick.is_none() {
                return Err(format!(
                    "it allows {kind}.{part}, which may block, and whoever is killed in it has done \
                     nobody knows what. Leave it out of the allow-list"
                ));
            }
        }
        Ok(())
    }

    /// Adds a program part.
    #[must_use]
    pub fn part<P: Run>(self) -> Parts {
        let call = |interface: &Interface, id, input: &[u8]| {
            let (handle, input) = taken::<P>(interface, id, input)?;
            let output = interface.with(&handle, |resource, pool| P::run(resource, pool, input));
            Ok(Handled::Ran(answer(&output.map_err(|error| refused(&error))?)))
        };
        self.called::<P>(Some(Quick::of::<P>()), call, &Typed::<P>::QUICK)
    }

    /// Adds a program part that may block.
    #[must_use]
    pub fn blocking<P: Block>(self) -> Parts {
        let call = |interface: &Interface, id, input: &[u8]| {
            let (handle, input) = taken::<P>(interface, id, input)?;
            let work = interface.with(&handle, |resource, pool| P::begin(resource, pool, input));
            let work = work.map_err(|error| refused(&error))?;
            Ok(Handled::Blocks(Box::new(move || caught(|| answer(&work())))))
        };
        self.called::<P>(None, call, &Typed::<P>::BLOCKING)
    }

    fn called<P: Part>(
        mut self,
        quick: Option<Quick>,
        call: fn(&Interface, Id, &[u8]) -> Result<Handled, Refusal>,
        typed: &'static Typed<P>,
    ) -> Parts {
        let of = (<P::Kind as Kind>::NAME, P::NAME);
        self.parts
            .insert(of, Called { version: P::VERSION, changes: P::CHANGES, call, quick, typed });
        self
    }

    /// The [`Typed`] of all parts.
    pub(crate) fn all_typed(&self) -> impl Iterator<Item = &'static (dyn Any + Send + Sync)> {
        self.parts.values().map(|called| called.typed)
    }

    /// A part with its types; none if a part of this name has others here.
    ///
    /// # Errors
    /// There is none of this name, or of this version.
    pub(crate) fn typed<P: Part>(&self) -> Result<Option<&'static Typed<P>>, Refusal> {
        let called =
            self.part_of(&Allow::everything(), <P::Kind as Kind>::NAME, P::NAME, P::VERSION)?;
        Ok(called.typed.downcast_ref())
    }

    /// True if there is such a kind, or part.
    pub(crate) fn has(&self, kind: &str, part: Option<&str>) -> bool {
        match part {
            None => self.names().any(|name| name == kind),
            Some(part) => self.parts.keys().any(|key| *key == (kind, part)),
        }
    }

    /// Names of kinds, those included that only have parts.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.keys().copied().chain(self.parts.keys().map(|(kind, _)| *kind))
    }

    pub(crate) fn offers(&self, allow: &Allow) -> Vec<Offer> {
        let kinds = self.kinds.iter().map(|(kind, made)| Offer {
            kind: (*kind).to_owned(),
            part: None,
            version: made.version,
            allowed: allow.creates(kind),
        });
        let parts = self.parts.iter().map(|((kind, part), called)| Offer {
            kind: (*kind).to_owned(),
            part: Some((*part).to_owned()),
            version: called.version,
            allowed: allow.calls(kind, part),
        });
        kinds.chain(parts).collect()
    }

    /// Runs an operation that has an effect, or begins it, on the thread of `place`'s owner.
    pub(crate) fn run(
        &self,
        allow: &Allow,
        interface: &Interface,
        place: Place,
        operation: &Operation,
        may_block: bool,
    ) -> Handled {
        let run = || match operation {
            Operation::Create { kind, version, unique, spec } => {
                let made = self.made(kind)?;
                require(allow.creates(kind), kind, "create")?;
                same(made.version, *version, kind)?;
                Ok(Handled::Ran((made.create)(interface, place, unique.as_deref(), spec)))
            }
            Operation::Destroy { id, kind } => {
                let made = self.made(kind)?;
                require(allow.destroys(kind), kind, "destroy")?;
                Ok(Handled::Ran((made.destroy)(interface, at(place, *id)?)))
            }
            Operation::Call { id, kind, part, version, input } => {
                let called = self.part_of(allow, kind, part, *version)?;
                if called.quick.is_none() && !may_block {
                    let text = format!(
                        "{MOST_BLOCKED} operations block at this place, which is the limit: ask later"
                    );
                    return Err(Refusal::new(Why::Full, text));
                }
                (called.call)(interface, at(place, *id)?, input)
            }
            _ => Err(Refusal::new(Why::Unreadable, "an operation that is none of one resource")),
        };
        caught(run).unwrap_or_else(|refusal| Handled::Ran(Err(refusal)))
    }

    /// A part by its name, if it may be called.
    fn part_of(
        &self,
        allow: &Allow,
        kind: &str,
        part: &str,
        version: u32,
    ) -> Result<Called, Refusal> {
        let called = *self.parts.get(&(kind, part)).ok_or_else(|| self.no_part(kind, part))?;
        require(allow.calls(kind, part), kind, part)?;
        same(called.version, version, &format!("{kind}.{part}"))?;
        Ok(called)
    }

    /// A part's function for calls by words, if it does not block.
    pub(crate) fn quick(
        &self,
        allow: &Allow,
        kind: &str,
        part: &str,
        version: u32,
    ) -> Result<Option<Quick>, Refusal> {
        self.part_of(allow, kind, part, version).map(|called| called.quick)
    }

    /// Finds what a line is to call by a number.
    pub(crate) fn bind(
        &self,
        allow: &Allow,
        place: Place,
        binding: &Binding,
    ) -> Result<(Id, Quick), Refusal> {
        let Binding { id, kind, part, version } = binding;
        let quick = self.quick(allow, kind, part, *version)?;
        let quick = quick.ok_or_else(|| blocks(kind, part))?;
        Ok((at(place, *id)?, quick))
    }

    /// Refuses a part that may block: a line has one request at a time, and its thread others to look at.
    pub(crate) fn runs_at_once(&self, kind: &str, part: &str) -> Result<(), Refusal> {
        match self.parts.get(&(kind, part)) {
            Some(Called { quick: None, .. }) => Err(blocks(kind, part)),
            _ => Ok(()),
        }
    }

    fn made(&self, kind: &str) -> Result<&KindFunctions, Refusal> {
        self.kinds.get(kind).ok_or_else(|| {
            let kinds: Vec<_> = self.kinds.keys().copied().collect();
            let text = format!(
                "there is no kind {kind} here that is made from afar: there are {}",
                kinds.join(", ")
            );
            Refusal::new(Why::NoPart, text)
        })
    }

    fn no_part(&self, kind: &str, part: &str) -> Refusal {
        let parts = self.parts.keys().filter(|(of, _)| *of == kind).map(|(_, part)| *part);
        let parts: Vec<_> = parts.collect();
        let known = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
        let text = format!("kind {kind} has no program part {part} here: there are {known}");
        Refusal::new(Why::NoPart, text)
    }
}

fn blocks(kind: &str, part: &str) -> Refusal {
    let text = format!("{kind}.{part} may block, and no line is held up: call it at its socket");
    Refusal::new(Why::Blocks, text)
}

/// Runs it; a panic of it becomes a refusal.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panicked(payload)))
}

/// Refuses because of what a part has panicked with.
pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Refusal {
    let panic = kumiki_resource::Panic::new(payload);
    let refusal = Refusal::new(Why::Panicked, panic.to_string());
    // Its drop is the part's code, too, and might panic again.
    std::mem::forget(panic.into_payload());
    refusal
}

/// The resource and the input of a call.
fn taken<P: Part>(
    interface: &Interface,
    id: Id,
    input: &[u8],
) -> Result<(Handle<P::Kind>, P::In), Refusal> {
    let input = wire::read::<P::In>(input).map_err(|error| bad::<P>(&error))?;
    let handle = interface.of_id::<P::Kind>(id).map_err(|error| refused(&error))?;
    Ok((handle, input))
}

/// An id that a client has sent, if it is of this place.
pub(crate) fn at(place: Place, id: u64) -> Result<Id, Refusal> {
    let id = Id::from_u64(id);
    if id.place() == place {
        return Ok(id);
    }
    let text = format!("resource {id} is not of this place: an id is used at its own");
    Err(Refusal::new(Why::NoResource, text))
}

fn require(allowed: bool, kind: &str, what: &str) -> Result<(), Refusal> {
    if allowed {
        return Ok(());
    }
    let text = format!("{kind}.{what} is not in this place's allow-list: its owner can add it");
    Err(Refusal::new(Why::NotAllowed, text))
}

fn same(here: u32, there: u32, what: &str) -> Result<(), Refusal> {
    if here == there {
        return Ok(());
    }
    let text = format!(
        "{what} is of version {here} here and of version {there} at the caller: use programs of \
         one version at both sides"
    );
    Err(Refusal::new(Why::OtherVersion, text))
}

#[cold]
fn bad<P: Part>(error: &dyn fmt::Display) -> Refusal {
    other(format!("{}.{}", <P::Kind as Kind>::NAME, P::NAME), error)
}

fn other(what: String, error: &dyn fmt::Display) -> Refusal {
    Refusal::new(Why::BadInput, format!("{what} takes something else: {error}"))
}

pub(crate) fn answer<T: serde::Serialize>(value: &T) -> Outcome {
    wire::named(value).map_err(|error| unwritten(&error))
}

fn unwritten(error: &rmp_serde::encode::Error) -> Refusal {
    Refusal::new(Why::Kind, format!("its answer cannot be written as MessagePack: {error}"))
}

/// An error of the interface as a refusal.
#[cold]
pub(crate) fn refused(error: &Error) -> Refusal {
    let why = match error {
        Error::NotFound { .. } => Why::NotFound,
        Error::Taken { .. } => Why::Taken,
        Error::Stale { .. } => Why::Stale,
        Error::Unknown { .. } | Error::WrongKind { .. } | Error::NoKind { .. } => Why::NoResource,
        Error::Share { .. } => Why::Full,
        Error::Name { .. } | Error::Pattern { .. } => Why::BadInput,
        Error::Manager { source, .. } => match source {
            kumiki_resource::CallError::Panicked(_) => Why::Panicked,
            _ => Why::Died,
        },
        #[cfg(feature = "run")]
        Error::System { source, .. } => why_not_executed(source).unwrap_or(Why::Kind),
        _ => Why::Kind,
    };
    Refusal::new(why, error.to_string())
}
