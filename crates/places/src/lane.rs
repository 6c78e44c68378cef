//! A lane: memory in which a client and a place both see one line, what goes over it, and the words about it at
//! the place's socket.
//!
//! A lane is of a client alone, and the client says where in the memory it is. Frames of number [`LANES`] at the
//! place's socket are about lanes ([`Word`]): they open and close them, and wake who sleeps. So a lane ends
//! with its connection, and that with either side's death, whichever way it goes.
//!
//! What goes over the line ([`kumiki_slot::far`]) is a head of eight bytes and what it says: an operation as
//! in any [message](crate::wire), or a program part by a number that it was given before. There are no
//! leases and no serials: the line has each request once, and nothing is sent again.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kumiki_sys::shm::Window;
use serde::{Deserialize, Serialize};

/// Bytes of a lane.
pub(crate) const LANE_BYTES: usize = 4096;
/// The number of frames about lanes.
pub(crate) const LANES: u64 = u64::MAX;
/// For so long a side looks before it sleeps, at least: waking it takes about as much, by sockets and a stream.
const SPIN: Duration = Duration::from_micros(200);
/// For so long at most, whatever waking takes here, or is said to take.
const MOST_SPIN: Duration = Duration::from_millis(20);
/// Program parts of a lane that have numbers, at most.
pub(crate) const MOST_BOUND: usize = 256;

/// For how long to look before sleeping where waking takes so long: no longer than that, or what is gained by
/// sleeping is less than what it costs.
pub(crate) fn spin(waking: Duration) -> Duration {
    waking.clamp(SPIN, MOST_SPIN)
}

/// One lane, mapped.
#[derive(Clone)]
pub(crate) struct Lane {
    window: Arc<Window>,
    at: usize,
}

impl Lane {
    /// The lane there; none if it does not lie within the memory, or lies across two.
    pub(crate) fn at(window: &Arc<Window>, at: u64) -> Option<Lane> {
        let at = usize::try_from(at).ok().filter(|at| at.is_multiple_of(LANE_BYTES))?;
        let is_within = at.checked_add(LANE_BYTES).is_some_and(|end| end <= window.len());
        is_within.then(|| Lane { window: Arc::clone(window), at })
    }
}

impl AsRef<[AtomicU64]> for Lane {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        self.window.words(self.at, LANE_BYTES / 8)
    }
}

/// A word about the lane that is `at` this byte of the place's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Word {
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
}

/// The first eight bytes of a message on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// An [`Operation`](crate::wire::Operation) follows.
    Operation,
    /// A [`Binding`] follows, which has this number from then on.
    Bind(u32),
    /// The input of the part that has this number.
    Call(u32),
}

impl Head {
    pub(crate) const BYTES: usize = 8;

    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let (what, number) = match self {
            Head::Operation => (1_u64, 0),
            Head::Bind(number) => (2, number),
            Head::Call(number) => (3, number),
        };
        (what << 32 | u64::from(number)).to_le_bytes()
    }

    /// The head of a message, and what follows.
    #[inline]
    pub(crate) fn read(message: &[u8]) -> Option<(Head, &[u8])> {
        let (head, rest) = message.split_first_chunk()?;
        let head = u64::from_le_bytes(*head);
        let number = head as u32;
        Some(match head >> 32 {
            1 if number == 0 => (Head::Operation, rest),
            2 => (Head::Bind(number), rest),
            3 => (Head::Call(number), rest),
            _ => return None,
        })
    }
}

/// A program part of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Binding {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) part: String,
    pub(crate) version: u32,
}

#[cfg(test)]
mod tests {
    use kumiki_sys::shm::{Huge, Shared};

    use super::*;

    #[test]
    fn a_head_comes_back_and_what_is_none_does_not() {
        for head in [Head::Operation, Head::Bind(0), Head::Bind(u32::MAX), Head::Call(7)] {
            let message = [&head.to_bytes()[..], b"rest"].concat();
            assert_eq!(Head::read(&message), Some((head, &b"rest"[..])));
        }
        let none = [(0_u64, 0), (1, 1), (4, 0), (u64::from(u32::MAX), 0)];
        for (what, number) in none {
            assert_eq!(Head::read(&(what << 32 | number).to_le_bytes()), None);
        }
        assert_eq!(Head::read(&[1; 7]), None);
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
