//! A line whose other side is another process or another kernel: bytes go over it, and the other
//! side's words are untrusted.
//!
//! ```text
//!  caller                     memory that both see                  server
//!  ask(head, bytes) ───────▶ REQUEST(n) · length · head, bytes ──▶ asked()  checked, read
//!                                                                   runs
//!  answered()  checked, read ◀── ANSWER or REFUSAL(n) · length · head, bytes ◀── answer(head, bytes)
//! ```
//!
//! # The words
//! One of status, number, state and length together; behind it the head, of which the line knows nothing, and the
//! bytes, 48 of which are in the status' cache line: a short message and its answer take one round trip of one
//! line, as between threads. Eight bytes go from register to register as a word ([`Caller::ask_word`],
//! [`Message::word`]). Before the status each side has a word of its own, on a line of its own: whether it sleeps.
//!
//! # Who writes what
//! A caller has one request at a time. It writes bytes and then the status, REQUEST(n), with Release, partner
//! of the server's Acquire; the server writes its bytes over them and then ANSWER(n) or REFUSAL(n), the same
//! way round. Each side remembers the word that it wrote last: as long as that stands there it is the other
//! one's turn. Any other word is what the other side alleges, and must be the one that may follow: of the
//! number that is next, in a state that is its to write, with a length that there is room for. If it is not,
//! the line is [`Broken`] and used no more. Bytes are copied out before anybody looks at them, so that nobody
//! changes them after they were looked at.
//!
//! Nothing is taken back, as between threads of one process: the fences of that reach no other kernel. Who gives
//! a request up gives up the line.
//!
//! # Sleeping
//! ```text
//!  sleeper                              waker
//!  S1 sleeps = 1                        W1 status
//!  S2 fence                             W2 fence
//!  S3 status there? then sleeps = 0     W3 sleeps? then it is to be woken, by another way
//! ```
//! The fences order each side's store before its load, so that at least one sees the other's. How somebody is
//! woken the line does not know: a frame at a socket, say.

use crate::primitive::{AtomicU64, Ordering, fence};

/// Words of a line and of what stands before it: each side's own, on two cache lines, as processors fetch lines
/// in pairs.
const SERVER_SLEEPS: usize = 0;
const CALLER_SLEEPS: usize = 16;
const STATUS: usize = 32;
const HEAD: usize = STATUS + 1;
const BYTES: usize = HEAD + 1;
/// Words that every line has.
const LEAST: usize = BYTES + 1;

/// States, in a status' lowest byte; 0 is of a line that nobody has asked on.
const REQUEST: u64 = 1;
const ANSWER: u64 = 2;
const REFUSAL: u64 = 3;

/// Bytes of a message that go over a line of so many words, at most.
#[inline(always)]
pub const fn room(words: usize) -> usize {
    (words.saturating_sub(BYTES)) * size_of::<u64>()
}

const fn status(number: u32, state: u64, length: usize) -> u64 {
    (number as u64) << 32 | (length as u64) << 8 | state
}

/// The other side has written what it must not: the line is not to be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The word that it wrote.
    pub status: u64,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the other side wrote {:#x} where that could not follow", self.status)
    }
}

/// A status that the other side has written, and nobody has checked.
#[derive(Clone, Copy)]
struct Untrusted(u64);

impl Untrusted {
    /// The state and the length, if it is of this number, in one of these states, and in the line's room.
    #[inline(always)]
    fn checked(self, number: u32, states: &[u64], room: usize) -> Result<(u64, usize), Broken> {
        let (state, length) = (self.0 & 0xff, (self.0 >> 8 & 0xff_ffff) as usize);
        if (self.0 >> 32) as u32 == number && states.contains(&state) && length <= room {
            return Ok((state, length));
        }
        Err(Broken { status: self.0 })
    }
}

/// A message that the other side has handed over, checked as far as the line knows what may be. Head and word are
/// copies: nobody changes them any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The other side's word beside its bytes.
    pub head: u64,
    /// The first eight bytes, little end first; of a message that has less, anything.
    pub word: u64,
    length: usize,
}

impl Message {
    /// True if it is of eight bytes, which are the word.
    #[inline]
    pub fn is_word(&self) -> bool {
        self.length == size_of::<u64>()
    }
}

/// The memory, as both sides have it.
struct FarLine<M>(M);

impl<M: AsRef<[AtomicU64]>> FarLine<M> {
    fn new(memory: M) -> Self {
        let words = memory.as_ref().len();
        assert!(words >= LEAST && room(words) < 1 << 24, "a line of {words} words");
        FarLine(memory)
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        self.0.as_ref()
    }

    /// Words that need no further look at how many there are.
    #[inline(always)]
    fn first(&self) -> &[AtomicU64; LEAST] {
        self.words().first_chunk().expect("`new` has counted them")
    }

    #[inline(always)]
    fn room(&self) -> usize {
        room(self.words().len())
    }

    /// Hands bytes over; whether the other side, whose word this is, sleeps.
    #[inline]
    fn hand(&self, status: u64, head: u64, bytes: &[u8], sleeps: usize) -> bool {
        let words = self.words();
        let whole = bytes.chunks_exact(8);
        let rest = whole.remainder();
        let mut to = words[BYTES..].iter();
        // In this order: where `whole` ends, no word is taken.
        for (bytes, word) in whole.zip(to.by_ref()) {
            let bytes = bytes.try_into().unwrap_or_default();
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        if let (false, Some(word)) = (rest.is_empty(), to.next()) {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        self.publish(status, head, sleeps)
    }

    /// Hands eight bytes over.
    #[inline(always)]
    fn hand_word(&self, status: u64, head: u64, word: u64, sleeps: usize) -> bool {
        self.first()[BYTES].store(word, Ordering::Relaxed);
        self.publish(status, head, sleeps)
    }

    #[inline(always)]
    fn publish(&self, status: u64, head: u64, sleeps: usize) -> bool {
        let words = self.first();
        words[HEAD].store(head, Ordering::Relaxed);
        // W1. Release, partner of the other side's Acquire: head and bytes are there.
        words[STATUS].store(status, Ordering::Release);
        // W2, partner: S2. The other side has the line meanwhile, and nobody waits for this.
        fence(Ordering::SeqCst);
        words[sleeps].load(Ordering::Relaxed) != 0
    }

    /// A status that the other side has written since this one wrote `own`.
    #[inline(always)]
    fn news(&self, own: u64) -> Option<Untrusted> {
        // Acquire, partner of the other side's Release.
        let now = self.first()[STATUS].load(Ordering::Acquire);
        (now != own).then_some(Untrusted(now))
    }

    /// The message of a status of this length.
    #[inline(always)]
    fn message(&self, length: usize) -> Message {
        let [head, word] = [HEAD, BYTES].map(|at| self.first()[at].load(Ordering::Relaxed));
        Message { head, word, length }
    }

    /// Copies bytes out.
    fn read(&self, message: &Message, into: &mut Vec<u8>) {
        into.clear();
        for word in &self.words()[BYTES..][..message.length.div_ceil(8)] {
            into.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        into.truncate(message.length);
    }

    fn sleeps(&self, of: usize, sleeps: bool) {
        self.words()[of].store(sleeps.into(), Ordering::Relaxed);
        // S2, partner: W2. Nobody waits for who wakes up.
        if sleeps {
            fence(Ordering::SeqCst);
        }
    }
}

/// An answer that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The answer that was asked for.
    Answer,
    /// Reason for which it was not done.
    Refusal,
}

/// The side that asks.
pub struct Caller<M> {
    line: FarLine<M>,
    number: u32,
    /// The status that it wrote last.
    own: u64,
}

impl<M: AsRef<[AtomicU64]>> Caller<M> {
    /// A line on which nothing was asked. Nobody may serve it yet: what was there is gone. Requests are counted
    /// from `first` on, of which the server is told: one that still serves what was there before expects
    /// another number, and takes none of these.
    ///
    /// # Panics
    /// If there are too few words for a line, or too many.
    pub fn new(memory: M, first: u32) -> Self {
        let line = FarLine::new(memory);
        for word in &line.first()[..=STATUS] {
            word.store(0, Ordering::Relaxed);
        }
        Caller { line, number: first.wrapping_sub(1), own: 0 }
    }

    /// Bytes of a message, at most.
    pub fn room(&self) -> usize {
        self.line.room()
    }

    /// Asks; the answer of the last request was taken. Whether the server sleeps, and is to be woken.
    ///
    /// # Panics
    /// If the bytes are more than its [`room`](Self::room).
    #[inline]
    #[must_use]
    pub fn ask(&mut self, head: u64, bytes: &[u8]) -> bool {
        assert!(bytes.len() <= self.room(), "a message of {} bytes", bytes.len());
        let status = self.next(bytes.len());
        self.line.hand(status, head, bytes, SERVER_SLEEPS)
    }

    /// Asks by eight bytes.
    #[inline(always)]
    #[must_use]
    pub fn ask_word(&mut self, head: u64, word: u64) -> bool {
        let status = self.next(size_of::<u64>());
        self.line.hand_word(status, head, word, SERVER_SLEEPS)
    }

    #[inline(always)]
    fn next(&mut self, length: usize) -> u64 {
        self.number = self.number.wrapping_add(1);
        self.own = status(self.number, REQUEST, length);
        self.own
    }

    /// The answer, if it is there.
    ///
    /// # Errors
    /// The server has broken the line.
    #[inline(always)]
    pub fn answered(&self) -> Result<Option<(Answered, Message)>, Broken> {
        let Some(status) = self.line.news(self.own) else { return Ok(None) };
        let (state, length) = status.checked(self.number, &[ANSWER, REFUSAL], self.line.room())?;
        let answered = if state == ANSWER { Answered::Answer } else { Answered::Refusal };
        Ok(Some((answered, self.line.message(length))))
    }

    /// Copies the bytes of the answer that was found last, before the next request.
    pub fn read(&self, message: &Message, into: &mut Vec<u8>) {
        self.line.read(message, into);
    }

    /// Says that it is about to sleep, and then looks whether the answer has come; or that it is awake.
    pub fn sleeps(&self, sleeps: bool) {
        self.line.sleeps(CALLER_SLEEPS, sleeps);
    }
}

/// The side that answers.
pub struct Server<M> {
    line: FarLine<M>,
    number: u32,
    /// The status that it wrote last.
    own: u64,
}

impl<M: AsRef<[AtomicU64]>> Server<M> {
    /// A line that its caller has made, who counts from `first` on.
    ///
    /// # Panics
    /// If there are too few words for a line, or too many.
    pub fn new(memory: M, first: u32) -> Self {
        Server { line: FarLine::new(memory), number: first.wrapping_sub(1), own: 0 }
    }

    /// Bytes of an answer, at most.
    pub fn room(&self) -> usize {
        self.line.room()
    }

    /// A request, if there is one. It is answered before it is asked for the next.
    ///
    /// # Errors
    /// The caller has broken the line.
    #[inline(always)]
    pub fn asked(&mut self) -> Result<Option<Message>, Broken> {
        let Some(status) = self.line.news(self.own) else { return Ok(None) };
        let next = self.number.wrapping_add(1);
        let (_, length) = status.checked(next, &[REQUEST], self.line.room())?;
        self.number = next;
        Ok(Some(self.line.message(length)))
    }

    /// Copies the bytes of the request that was found last, before it is answered.
    pub fn read(&self, message: &Message, into: &mut Vec<u8>) {
        self.line.read(message, into);
    }

    /// True if there is something to be looked at by [`asked`](Self::asked).
    #[inline]
    pub fn has_news(&self) -> bool {
        self.line.news(self.own).is_some()
    }

    /// Answers the request; whether the caller sleeps, and is to be woken.
    ///
    /// # Panics
    /// If the bytes are more than its [`room`](Self::room).
    #[inline]
    #[must_use]
    pub fn answer(&mut self, answered: Answered, head: u64, bytes: &[u8]) -> bool {
        assert!(bytes.len() <= self.room(), "an answer of {} bytes", bytes.len());
        let state = if answered == Answered::Answer { ANSWER } else { REFUSAL };
        self.own = status(self.number, state, bytes.len());
        self.line.hand(self.own, head, bytes, CALLER_SLEEPS)
    }

    /// Gives eight bytes as the answer.
    #[inline(always)]
    #[must_use]
    pub fn answer_word(&mut self, head: u64, word: u64) -> bool {
        self.own = status(self.number, ANSWER, size_of::<u64>());
        self.line.hand_word(self.own, head, word, CALLER_SLEEPS)
    }

    /// Says that it is about to sleep, and then looks whether there is a request; or that it is awake.
    pub fn sleeps(&self, sleeps: bool) {
        self.line.sleeps(SERVER_SLEEPS, sleeps);
    }
}

impl<M> std::fmt::Debug for Caller<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<M> std::fmt::Debug for Server<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
