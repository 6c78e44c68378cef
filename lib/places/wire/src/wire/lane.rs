//! A lane: memory in which a client and a place both see one line, what goes over it, and the words about it at
//! the place's socket.
//!
//! A lane is of a client alone, and the client says where in the memory it is. Frames of number [`LANES`] at the
//! place's socket are about lanes ([`Word`]): they open and close them, and wake who sleeps. So a lane ends
//! with its connection, and that with either side's death, whichever way it goes.
//!
//! What goes over the line ([`kumiki_slot::far`]) is a head and what it says: an operation as in any
//! [message](crate::wire), or the input of a program part that was given a number before, as MessagePack or as
//! one word ([`Scalar`](crate::wire::scalar::Scalar)). There are no leases and no serials: the line has each request
//! once, and nothing is sent again.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use kumiki_sys::shm::{Window, Words};
use serde::{Deserialize, Serialize};

use crate::wire::scalar::Form;

/// Bytes of a lane.
pub const LANE_BYTES: usize = 4096;
/// The number of frames about lanes.
pub const LANES: u64 = u64::MAX;
/// Time that a side looks before it sleeps, at least: waking it takes about as much, by sockets and
/// a stream.
const SPIN: Duration = Duration::from_micros(200);
/// Longest such time, whatever waking takes here, or is said to take.
const MOST_SPIN: Duration = Duration::from_millis(20);
/// Program parts of a lane that have numbers, at most.
pub const MOST_BOUND: usize = 256;

/// Time to look before sleeping where waking takes so long: no longer than that, or sleeping gains
/// less than it costs.
pub fn spin(waking: Duration) -> Duration {
    waking.clamp(SPIN, MOST_SPIN)
}

/// One lane, mapped.
#[derive(Clone, Debug)]
pub struct Lane(Words);

impl Lane {
    /// The lane there; none if it does not lie within the memory, or lies across two.
    pub fn at(window: &Arc<Window>, at: u64) -> Option<Lane> {
        let at = usize::try_from(at).ok().filter(|at| at % LANE_BYTES == 0)?;
        let is_within = at.checked_add(LANE_BYTES).is_some_and(|end| end <= window.len());
        is_within.then(|| Lane(Words::of(window, at, LANE_BYTES / 8)))
    }
}

impl AsRef<[AtomicU64]> for Lane {
    #[inline(always)]
    fn as_ref(&self) -> &[AtomicU64] {
        self.0.as_ref()
    }
}

/// A word about the lane that is `at` this byte of the place's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// Client: serve it. Its requests are counted from `first` on.
    Open { at: u64, first: u32 },
    /// Place: it is served, in this life.
    Opened { at: u64, life: u64 },
    /// Place: it is not served, or no more.
    Refused { at: u64, why: String },
    /// Client, of a place that sleeps: there is a request. Place, of a client that does: there is an answer.
    /// `took_us` is for how long the last one that slept was waited for, if that is known.
    Awake { at: u64, took_us: u64 },
    /// Client: serve it no more.
    Close { at: u64 },
    /// Place: nobody here touches it any more.
    Closed { at: u64 },
    /// Client of the same kernel, `at` 0: give us memory in common. Place: here it is, with its descriptor, `at` its length;
    /// lanes that this client opens from then on are within it.
    Memory { at: u64 },
    /// Place: the answer that the lane has no room for.
    Long { at: u64, answer: Bytes },
}

/// Kinds of requests on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// An [`Operation`](crate::wire::Operation).
    Operation,
    /// A [`Binding`], which has this number from then on.
    Bind(u32),
    /// The input of the part that has this number.
    Call(u32, Option<Form>),
}

const OPERATION: u8 = 4;
const BIND: u8 = 5;
const CALL: u8 = 6;

impl Head {
    /// The word beside a request's bytes: number (32 bits), kind (8), form of the word (8), nothing.
    #[inline(always)]
    pub fn to_word(self) -> u64 {
        let (what, number, form) = match self {
            Head::Operation => (OPERATION, 0, None),
            Head::Bind(number) => (BIND, number, None),
            Head::Call(number, form) => (CALL, number, form),
        };
        u64::from(number) | u64::from(what) << 32 | form_word(form) << 40
    }

    #[inline(always)]
    pub fn read(head: u64) -> Option<Head> {
        let number = head as u32;
        let [what, form, ..] = ((head >> 32) as u32).to_le_bytes();
        Some(match what {
            CALL if head >> 48 == 0 => match Form::of(form) {
                None if form != 0 => return None,
                form => Head::Call(number, form),
            },
            OPERATION if head >> 40 == 0 && number == 0 => Head::Operation,
            BIND if head >> 40 == 0 => Head::Bind(number),
            _ => return None,
        })
    }
}

/// The word beside an answer's bytes: the form of its word, or 0.
#[inline(always)]
pub fn form_word(form: Option<Form>) -> u64 {
    form.map_or(0, |form| form as u64)
}

/// The word beside an answer that comes as [`Word::Long`].
pub const LONG: u64 = 1 << 8;

/// Lanes of the memory that a place gives a client of its kernel.
pub const GIVEN: usize = 16;

/// A program part of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub id: u64,
    pub kind: String,
    pub part: String,
    pub version: u32,
}

#[cfg(test)]
mod tests {
    use kumiki_sys::shm::{Huge, Shared};

    use super::*;

    #[test]
    fn a_head_comes_back_and_what_is_none_does_not() {
        let call = Head::Call(7, Some(Form::Signed));
        for head in
            [Head::Operation, Head::Bind(0), Head::Bind(u32::MAX), Head::Call(7, None), call]
        {
            assert_eq!(Head::read(head.to_word()), Some(head));
        }
        let none = [(0_u64, 0), (4, 1), (7, 0), (u64::from(u32::MAX), 0), (0x0105, 0), (0x0706, 0)];
        for (what, number) in none.into_iter().chain([(0x1_0006, 0), (0x1_0005, 0), (1, 0)]) {
            assert_eq!(Head::read(what << 32 | number), None, "{what:#x}");
        }
    }

    #[test]
    fn a_lane_lies_within_its_memory() {
        let memory = Shared::new("lanes", 2 * LANE_BYTES, Huge::Policy).unwrap();
        let window = Arc::new(Window::map(memory.fd(), 0, 2 * LANE_BYTES).unwrap());
        let is_one = |at| Lane::at(&window, at).is_some();
        assert!(is_one(0) && is_one(LANE_BYTES as u64));
        for at in [1, 8, 2 * LANE_BYTES as u64, u64::MAX, u64::MAX - 4095] {
            assert!(!is_one(at), "{at}");
        }
    }
}
