//! Shared memory: messages are copied into a ring of slots by one process and
//! out of it by the other. The kernel is only asked when one has to wait.
//!
//! # Protocol
//!
//! One producer, one consumer. `published` counts messages written, `consumed`
//! counts messages read, both modulo 2³². Slot `n % slots` belongs to
//! the consumer while `consumed <= n < published`, else to the producer. Each
//! count is moved by one side only, with Release after the slot's bytes were
//! copied, and read by the other with Acquire before it touches the slot.
//!
//! Who finds nothing to do spins for [`Ring`]'s `spins` rounds, then sleeps:
//!
//! ```text
//! sleeper                              mover
//! sleeps = 1                           count += 1        (Release)
//! fence SeqCst                         fence SeqCst
//! count unchanged? futex_wait(count)   sleeps == 1? sleeps = 0, futex_wake(count)
//! ```
//!
//! The fences are each other's partners: either the mover sees `sleeps`, or the
//! kernel's compare in futex_wait sees the new count and does not sleep. A wake
//! for nothing is possible and harmless, a lost one is not possible.

use std::hint::spin_loop;
use std::ptr::copy_nonoverlapping;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use kumiki_sys::shm::{self, Huge};
use rustix::thread::futex::{self, Flags};

use super::caller::Caller;
use super::token;
use super::transport::{Direction, Transport};
use crate::shared::Shared;
use kumiki_measure::cache_line::CacheLine;
use kumiki_measure::error::{Error, Result};

/// Way in which a side waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Sleeps at once.
    Futex,
    /// Spins, and sleeps only if nothing comes for a long time (about 1 ms):
    /// between two samples, or when the other side lost its cpu.
    Spin,
}

impl Wait {
    /// The parameter's value.
    pub(super) fn word(self) -> &'static str {
        match self {
            Wait::Futex => "futex",
            Wait::Spin => "spin",
        }
    }

    fn spins(self) -> u32 {
        match self {
            Wait::Futex => 0,
            Wait::Spin => 1 << 15,
        }
    }
}

/// A count that one side moves, and whether the other sleeps on it.
#[derive(Default)]
struct Count {
    moved: CacheLine<AtomicU32>,
    sleeps: CacheLine<AtomicU32>,
}

#[derive(Default)]
struct Counts {
    published: Count,
    consumed: Count,
}

/// A ring each way.
pub(super) struct Rings([Ring; 2]);

struct Ring {
    counts: Shared<Counts>,
    memory: shm::Shared,
    slots: u32,
    slot_bytes: usize,
    spins: u32,
}

/// Memory that one ring's slots take together, unless two messages need more:
/// within a second-level cache.
const RING_BYTES: u64 = 512 << 10;

impl Rings {
    /// Maps both for messages of `bytes` bytes.
    pub(super) fn open(bytes: u64, wait: Wait) -> Result<Self> {
        Ok(Rings([Ring::open(bytes, wait)?, Ring::open(bytes, wait)?]))
    }

    /// Memory that [`Rings::open`] maps, bytes.
    pub(super) fn memory(bytes: u64) -> u64 {
        bytes.saturating_mul(4).max(2 * RING_BYTES)
    }
}

impl Ring {
    fn open(bytes: u64, wait: Wait) -> Result<Self> {
        let slots = 1 << (RING_BYTES / bytes.max(1)).clamp(2, 64).ilog2();
        let memory = usize::try_from(bytes).ok().and_then(|bytes| {
            let slot_bytes = bytes.checked_next_multiple_of(128)?;
            Some((slot_bytes, slot_bytes.checked_mul(slots)?))
        });
        let Some((slot_bytes, all)) = memory else {
            return Err(Error::Invalid(format!(
                "{slots} messages of {bytes} bytes do not fit into memory: choose a smaller size"
            )));
        };
        let memory = shm::Shared::new("kumiki-ring", all.max(1), Huge::Policy)?;
        Ok(Ring {
            counts: Shared::new()?,
            memory,
            slots: slots as u32,
            slot_bytes,
            spins: wait.spins(),
        })
    }

    /// First byte of message `number`'s slot.
    #[inline]
    fn slot(&self, number: u32) -> *mut u8 {
        // `slots` is a power of two, so the counts' overflow skips no slot.
        let index = (number % self.slots) as usize;
        // SAFETY: `index < slots`, and the memory has `slots * slot_bytes` bytes.
        unsafe { self.memory.as_ptr().add(index * self.slot_bytes) }
    }

    /// Waits until `count` is no longer `seen`.
    #[inline]
    fn wait<C: Caller>(&self, caller: &C, count: &Count, seen: u32) -> Result<(), C::Error> {
        let unchanged = || count.moved.0.load(Ordering::Acquire) == seen;
        for _ in 0..self.spins {
            if !unchanged() {
                return Ok(());
            }
            spin_loop();
        }
        while unchanged() {
            count.sleeps.0.store(1, Ordering::Relaxed);
            // Partner: the fence in `advance`.
            fence(Ordering::SeqCst);
            caller.call("wait for shared memory", || {
                token::sleep(&count.moved.0, seen, Flags::empty())
            })?;
        }
        Ok(())
    }
}

impl Count {
    /// Moves on to `to`, and wakes who sleeps.
    #[inline]
    fn advance<C: Caller>(&self, caller: &C, to: u32) -> Result<(), C::Error> {
        self.moved.0.store(to, Ordering::Release);
        // Partner: the fence in `Ring::wait`.
        fence(Ordering::SeqCst);
        if self.sleeps.0.load(Ordering::Relaxed) != 0 {
            self.sleeps.0.store(0, Ordering::Relaxed);
            caller.call("wake who waits for shared memory", || {
                futex::wake(&self.moved.0, Flags::empty(), 1)
            })?;
        }
        Ok(())
    }
}

impl Transport for Rings {
    #[inline]
    fn send<C: Caller>(&self, caller: &C, way: Direction, message: &[u8]) -> Result<(), C::Error> {
        let ring = &self.0[way as usize];
        assert!(message.len() <= ring.slot_bytes);
        let Counts { published, consumed } = &*ring.counts;
        // Only this side moves it.
        let number = published.moved.0.load(Ordering::Relaxed);
        loop {
            let seen = consumed.moved.0.load(Ordering::Acquire);
            if number.wrapping_sub(seen) < ring.slots {
                break;
            }
            ring.wait(caller, consumed, seen)?;
        }
        // SAFETY: the slot has room and is the producer's, by the check above;
        // `message` is this process's own.
        unsafe { copy_nonoverlapping(message.as_ptr(), ring.slot(number), message.len()) };
        published.advance(caller, number.wrapping_add(1))
    }

    #[inline]
    fn receive<C: Caller>(
        &self,
        caller: &C,
        way: Direction,
        message: &mut [u8],
    ) -> Result<(), C::Error> {
        let ring = &self.0[way as usize];
        assert!(message.len() <= ring.slot_bytes);
        let Counts { published, consumed } = &*ring.counts;
        // Only this side moves it.
        let number = consumed.moved.0.load(Ordering::Relaxed);
        while published.moved.0.load(Ordering::Acquire) == number {
            ring.wait(caller, published, number)?;
        }
        // SAFETY: the slot holds that much and is the consumer's, by the check
        // above; `message` is this process's own.
        unsafe { copy_nonoverlapping(ring.slot(number), message.as_mut_ptr(), message.len()) };
        consumed.advance(caller, number.wrapping_add(1))
    }
}
