//! A line to one place: calls by memory, each once, or unknown.
//!
//! ```text
//!              the place has gone before ────────────────────────▶ Gone
//!             ╱
//!   message ─▶ in the line ── answer ────────────────────────────▶ the answer
//!                  │ ╲─────── refusal ───────────────────────────▶ Refused
//!                  ├───────── the place, or its kernel, has gone ─▶ Unknown
//!                  ├───────── the place breaks the line ──────────▶ Unknown
//!                  ╰───────── deadline: the line is given up ─────▶ Unknown
//! ```
//!
//! Nothing is sent again, so nothing runs twice. What was in the line when its place died has run, or has not.

#[doc(hidden)]
pub mod lane_stages;
#[doc(hidden)]
pub mod lines;
#[doc(hidden)]
pub mod named;

use std::any::TypeId;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kumiki_resource::kind::Kind;
use kumiki_resource::{Id, Listed, Name, Rights};
use kumiki_slot::far::{Answered, Caller, Message};
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::line::lane_stages::{LaneAnswer, Shared};
use crate::part::{Part, Portable};
use crate::reference::Reference;
use crate::wire::lane::{Binding, Head, LONG, Lane, MOST_BOUND, Word, form_word, spin};
use crate::wire::scalar::{Form, Scalar};
use crate::wire::{self, Operation, Page, Refusal, Why};

/// Looks one after the other, some microseconds, in which most answers come. A pause between two, which lets the
/// other thread of a core go on, may take as long as the answer, and an emulated one takes longer.
const FIRST_LOOKS: u32 = 2048;
/// Looks between two at the clock.
const LOOKS: u32 = 64;
/// Time that a caller sleeps at a time, should a word that wakes it be lost.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An answer: whether it was done, and what it gives, or why not.
type Came = (Answered, Message);

/// A line to one place of another kernel. It has one call at a time, of a thread that waits for its answer: calls
/// that take long, or may block, are for `Client`.
pub struct Line {
    shared: Arc<Shared>,
    place: Arc<str>,
    life: u64,
    first: u32,
    caller: Caller<Lane>,
    /// Number of its lane.
    lane: usize,
    /// Its place has ended.
    gone: Arc<AtomicBool>,
    /// Nothing more is to be asked: an answer may come late, or was none.
    given_up: bool,
    patience: Duration,
    /// Time for which the place was waited for when it slept last.
    waking: Duration,
    /// Parts that have numbers here.
    bound: Vec<(TypeId, u64)>,
    /// The one to be replaced next, when all numbers are taken.
    oldest: usize,
    message: Vec<u8>,
    reply: Vec<u8>,
}

impl Line {
    #[doc(hidden)]
    pub fn new(
        shared: Arc<Shared>,
        place: Arc<str>,
        memory: Lane,
        lane: usize,
        gone: Arc<AtomicBool>,
        first: u32,
    ) -> Line {
        Line {
            shared,
            place,
            life: 0,
            first,
            caller: Caller::new(memory, first),
            lane,
            gone,
            given_up: false,
            patience: Duration::MAX,
            waking: Duration::ZERO,
            bound: Vec::new(),
            oldest: 0,
            message: Vec::new(),
            reply: Vec::new(),
        }
    }

    /// Waits so long for an answer, instead of what its [`Lines`](lines::Lines) do. A call that has none by then
    /// gives its line up.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.patience = timeout;
    }

    /// The place.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Number of the place's life.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Makes a resource there, with a name of its own or none.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Gone`]; [`Error::Unknown`]; [`Error::TooLarge`]; [`Error::Value`].
    pub fn create<K: Portable>(
        &mut self,
        unique: Option<&str>,
        spec: &K::Spec,
    ) -> Result<Reference<K>> {
        let spec = wire::named(spec).map_err(|error| unwritten(K::NAME, &error))?;
        let (kind, unique) = (K::NAME.to_owned(), unique.map(str::to_owned));
        let operation = Operation::Create { kind, version: K::VERSION, unique, spec };
        self.id(&operation, Rights::all())
    }

    /// Opens a resource of this place by its name.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`Error::Value`], too, if the name is of another place or kind.
    pub fn open<K: Kind>(&mut self, name: &Name) -> Result<Reference<K>> {
        self.is_of(name)?;
        if name.kind() != K::NAME {
            let (what, why) = (name.to_string(), format!("it is no {}", K::NAME));
            return Err(Error::Value { what, why });
        }
        let (kind, unique) = (K::NAME.to_owned(), name.unique().to_owned());
        self.id(&Operation::Open { kind, unique }, Rights::USE | Rights::SHARE)
    }

    /// Destroys a resource.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`Error::Rights`].
    pub fn destroy<K: Kind>(&mut self, resource: Reference<K>) -> Result<()> {
        resource.require(Rights::DESTROY)?;
        let id = self.own(&resource)?;
        let operation = Operation::Destroy { id, kind: K::NAME.to_owned() };
        self.operation(&operation)
    }

    /// The resources of the place whose names match, as `Client::ls`.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn ls(&mut self, pattern: &str) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        loop {
            let (pattern, after) = (pattern.to_owned(), wire::behind(&all));
            let page: Page = self.operation(&Operation::List { pattern, after })?;
            if !wire::extend(&mut all, page, &self.place)? {
                return Ok(all);
            }
        }
    }

    /// Calls a program part that does not block, and waits for what it gives.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`Error::Rights`].
    #[inline]
    pub fn call<P: Part>(
        &mut self,
        resource: &Reference<P::Kind>,
        input: &P::In,
    ) -> Result<P::Out> {
        resource.require(Rights::USE)?;
        let id = self.own(resource)?;
        let key = (TypeId::of::<P>(), id);
        let number = match self.bound.iter().position(|bound| *bound == key) {
            Some(number) => number as u32,
            None => self.bind::<P>(key)?,
        };
        let answer = match Scalar::of(input) {
            Some(Scalar { form, word }) => {
                self.is_open()?;
                let sleeps = self.caller.ask_word(Head::Call(number, Some(form)).to_word(), word);
                self.asked(sleeps)?
            }
            None => {
                self.message.clear();
                wire::named_into(input, &mut self.message)
                    .map_err(|error| unwritten(P::NAME, &error))?;
                self.ask(Head::Call(number, None))?
            }
        };
        self.read_output(&answer)
    }

    /// Checks that the place has a part, and lets it be called on this resource; it knows it by a number from then on.
    #[doc(hidden)]
    pub fn check<P: Part>(&mut self, resource: &Reference<P::Kind>) -> Result<()> {
        resource.require(Rights::USE)?;
        let key = (TypeId::of::<P>(), self.own(resource)?);
        if !self.bound.contains(&key) {
            self.bind::<P>(key)?;
        }
        Ok(())
    }

    /// True if nothing more is to be asked on it.
    #[doc(hidden)]
    pub fn is_over(&self) -> bool {
        self.is_open().is_err()
    }

    /// Has the place know a part by a number.
    #[cold]
    fn bind<P: Part>(&mut self, key: (TypeId, u64)) -> Result<u32> {
        let number = if self.bound.len() < MOST_BOUND { self.bound.len() } else { self.oldest };
        let (kind, part) = (<P::Kind as Kind>::NAME.to_owned(), P::NAME.to_owned());
        let binding = Binding { id: key.1, kind, part, version: P::VERSION };
        self.say(Head::Bind(number as u32), &binding)?;
        if number == self.bound.len() {
            self.bound.push(key);
        } else {
            self.bound[number] = key;
            self.oldest = (number + 1) % MOST_BOUND;
        }
        Ok(number as u32)
    }

    /// The id of a resource of this life of this place.
    #[inline]
    fn own<K: Kind>(&self, resource: &Reference<K>) -> Result<u64> {
        let place = resource.shared_place();
        let is_its = Arc::ptr_eq(place, &self.place) || **place == *self.place;
        if is_its && resource.life() == self.life {
            return Ok(resource.id().to_u64());
        }
        Err(self.stale(resource))
    }

    #[cold]
    fn stale<K: Kind>(&self, resource: &Reference<K>) -> Error {
        let place = self.place.to_string();
        let text = format!("{resource:?} is of another place, or of another life of this one");
        Error::Refused { place, why: Why::Stale, text }
    }

    fn id<K: Kind>(&mut self, operation: &Operation, rights: Rights) -> Result<Reference<K>> {
        let id: u64 = self.operation(operation)?;
        Ok(Reference::new(Arc::clone(&self.place), self.life, Id::from_u64(id), rights))
    }

    /// Checks that a name is of this line's place.
    #[doc(hidden)]
    pub fn is_of(&self, name: &Name) -> Result<()> {
        if name.place() == &*self.place {
            return Ok(());
        }
        let (what, why) = (name.to_string(), format!("the line is to place {}", self.place));
        Err(Error::Value { what, why })
    }

    #[doc(hidden)]
    pub fn operation<T: DeserializeOwned>(&mut self, operation: &Operation) -> Result<T> {
        let answer = self.say(Head::Operation, operation)?;
        self.read_output(&answer)
    }

    /// Has an operation done, and gives what it has given as it came.
    #[doc(hidden)]
    pub fn raw(&mut self, operation: &Operation) -> Result<&[u8]> {
        let answer = self.say(Head::Operation, operation)?;
        if answer.head == LONG {
            self.reply = self.long()?.into();
        } else {
            self.caller.read(&answer, &mut self.reply);
        }
        Ok(&self.reply)
    }

    #[cold]
    fn say(&mut self, head: Head, body: &impl serde::Serialize) -> Result<Message> {
        self.message.clear();
        let written = rmp_serde::encode::write(&mut self.message, body);
        written.map_err(|error| unwritten("a message", &error))?;
        self.ask(head)
    }

    /// Has the message answered.
    fn ask(&mut self, head: Head) -> Result<Message> {
        let (bytes, limit) = (self.message.len(), self.caller.room());
        if bytes > limit {
            return Err(Error::TooLarge { place: self.place.to_string(), bytes, limit });
        }
        self.is_open()?;
        let sleeps = self.caller.ask(head.to_word(), &self.message);
        self.asked(sleeps)
    }

    /// Reads what a call has given: a word, or bytes.
    #[inline(always)]
    fn read_output<T: DeserializeOwned>(&mut self, answer: &Message) -> Result<T> {
        let form = if answer.head >> 8 == 0 { Form::of(answer.head as u8) } else { None };
        if let Some(form) = form {
            if answer.is_word() {
                let scalar = Scalar { form, word: answer.word };
                return scalar.read().map_err(|error| self.unread(&error));
            }
        }
        self.by_bytes(answer)
    }

    #[inline(never)]
    fn by_bytes<T: DeserializeOwned>(&mut self, answer: &Message) -> Result<T> {
        if answer.head == LONG {
            let long = self.long()?;
            return wire::read(&long).map_err(|error| self.unread(&error));
        }
        if answer.head != form_word(None) {
            return Err(self.unread(&format!("its head is {:#x}", answer.head)));
        }
        self.caller.read(answer, &mut self.reply);
        wire::read(&self.reply).map_err(|error| self.unread(&error))
    }

    /// An answer that the line has no room for: it comes by the stream.
    #[cold]
    fn long(&mut self) -> Result<Bytes> {
        let begin = Instant::now();
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        loop {
            if let Some(long) = state.long(self.lane) {
                return Ok(long);
            }
            let left = self.patience.saturating_sub(begin.elapsed());
            let is_there = matches!(state.said(self.lane), Some(LaneAnswer::Opened { .. }));
            if !is_there || left.is_zero() {
                return Err(self.give_up("the rest of its answer has not come".to_owned()));
            }
            let waited = shared.changed.wait_timeout(state, left.min(LOOK_AGAIN));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    #[cold]
    fn unread(&self, error: &dyn fmt::Display) -> Error {
        let what = format!("what place {} has given cannot be read", self.place);
        Error::Value { what, why: error.to_string() }
    }

    /// Checks that the line is open.
    #[inline(always)]
    fn is_open(&self) -> Result<()> {
        if self.given_up || self.gone.load(Ordering::Relaxed) {
            return Err(Error::Gone { place: self.place.to_string() });
        }
        Ok(())
    }

    /// Waits for the answer to what was asked of a place that is awake, or sleeps.
    #[inline(always)]
    fn asked(&mut self, sleeps: bool) -> Result<Message> {
        let answered = if sleeps { self.wake() } else { self.answer() };
        match answered? {
            (Answered::Answer, answer) => Ok(answer),
            (Answered::Refusal, why) => Err(self.refused(&why)),
        }
    }

    /// Wakes the place, and waits for its answer.
    #[cold]
    fn wake(&mut self) -> Result<Came> {
        let begin = Instant::now();
        let at = self.shared.place_of(self.lane);
        let took_us = self.waking.as_micros().try_into().unwrap_or(u64::MAX);
        self.shared.say_on(self.lane, &Word::Awake { at, took_us });
        let answered = self.answer();
        self.waking = begin.elapsed();
        answered
    }

    #[inline(always)]
    fn answer(&mut self) -> Result<Came> {
        for _ in 0..FIRST_LOOKS {
            if let Some(came) = self.look()? {
                return Ok(came);
            }
        }
        self.wait()
    }

    #[inline(always)]
    fn look(&mut self) -> Result<Option<Came>> {
        let looked = self.caller.answered();
        looked.map_err(|broken| self.give_up(broken.to_string()))
    }

    /// Looks for a while longer, then sleeps.
    #[cold]
    fn wait(&mut self) -> Result<Came> {
        let begin = Instant::now();
        while begin.elapsed() < spin(self.waking) {
            for _ in 0..LOOKS {
                if let Some(came) = self.look()? {
                    return Ok(came);
                }
                std::hint::spin_loop();
            }
        }
        self.caller.sleeps(true);
        let outcome = self.sleep(begin);
        self.caller.sleeps(false);
        outcome
    }

    fn sleep(&mut self, begin: Instant) -> Result<Came> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        loop {
            // What it said of the lane comes first: an answer may have been its last.
            let said = state.said(self.lane).cloned();
            if let Some(came) = self.look()? {
                return Ok(came);
            }
            match said {
                Some(LaneAnswer::Refused(why)) => return Err(self.give_up(why)),
                Some(_) => {}
                None => return Err(self.give_up("it has gone before it answered".to_owned())),
            }
            let left = self.patience.saturating_sub(begin.elapsed());
            if left.is_zero() {
                let why = format!("no answer within {:?}", self.patience);
                return Err(self.give_up(why));
            }
            let waited = shared.changed.wait_timeout(state, left.min(LOOK_AGAIN));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    #[cold]
    fn give_up(&mut self, why: String) -> Error {
        self.given_up = true;
        Error::Unknown { place: self.place.to_string(), why }
    }

    #[cold]
    fn refused(&mut self, why: &Message) -> Error {
        let place = self.place.to_string();
        self.caller.read(why, &mut self.reply);
        match wire::read::<Refusal>(&self.reply) {
            Ok(refusal) => {
                Error::Refused { place, why: Why::from(refusal.why), text: refusal.text }
            }
            Err(error) => {
                let what = format!("why place {place} refuses cannot be read");
                Error::Value { what, why: error.to_string() }
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.shared.close(self.lane);
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("place", &self.place).field("lane", &self.lane).finish()
    }
}

#[cold]
fn unwritten(what: &str, error: &rmp_serde::encode::Error) -> Error {
    Error::Value {
        what: format!("what {what} takes cannot be written as MessagePack"),
        why: error.to_string(),
    }
}
