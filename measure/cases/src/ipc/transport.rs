//! What every way to communicate has in common, and the two things that are
//! measured of it: [`Latency`] and [`Bandwidth`].

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

use super::caller::{Caller, Forked};
use super::peer::Peer;
use super::token;
use crate::child::time_with;
use crate::shared::Shared;
use kumiki_measure::cache_line::CacheLine;
use kumiki_measure::case::Workload;
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Way from the measuring process to its peer.
    There,
    /// Way from the peer to the measuring process.
    Back,
}

/// A way to communicate, set up in both directions before the fork. A
/// transport that only signals leaves the message as it is.
pub(super) trait Transport {
    /// Sends a whole message.
    fn send<C: Caller>(&self, caller: &C, way: Direction, message: &[u8]) -> Result<(), C::Error>;

    /// Receives a whole message of just this length.
    fn receive<C: Caller>(
        &self,
        caller: &C,
        way: Direction,
        message: &mut [u8],
    ) -> Result<(), C::Error>;
}

/// A buffer of `bytes` bytes that is really there: no page of it is first
/// touched while the clock runs.
pub(super) fn buffer(bytes: u64) -> Result<Vec<u8>> {
    let refused = || {
        Error::Invalid(format!("no memory for a message of {bytes} bytes: choose a smaller size"))
    };
    let length = usize::try_from(bytes).map_err(|_| refused())?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(length).map_err(|_| refused())?;
    buffer.resize(length, 0xa5);
    Ok(buffer)
}

/// One operation is a round trip: a message there, the same message back.
pub(super) struct Latency<T> {
    // Dropped, and so ended, before what it uses.
    peer: [Peer; 1],
    transport: T,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl<T: Transport> Latency<T> {
    /// Starts the other end on `cpu`: it sends back what it receives.
    pub(super) fn start(cpu: usize, transport: T, bytes: u64) -> Result<Self> {
        let request = buffer(bytes)?;
        let mut answer = buffer(bytes)?;
        let peer = Peer::spawn(cpu, || {
            loop {
                transport.receive(&Forked, Direction::There, &mut answer)?;
                transport.send(&Forked, Direction::Back, &answer)?;
            }
        })?;
        Ok(Latency { peer: [peer], transport, request, answer })
    }

    #[cfg(test)]
    pub(super) fn peer_id(&self) -> rustix::process::Pid {
        self.peer[0].id()
    }
}

impl<T: Transport> Workload for Latency<T> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let Latency { peer, transport, request, answer } = self;
        let mut round_trip = || {
            transport.send(&peer[0], Direction::There, request)?;
            transport.receive(&peer[0], Direction::Back, answer)
        };
        // The peer has slept since the last sample: wake it off the clock.
        round_trip()?;
        time_with(peer, meter, || {
            for _ in 0..iterations {
                round_trip()?;
            }
            Ok(())
        })
    }
}

/// Messages that may be under way on a transport that drops what it cannot
/// hold. The others stop the sender by themselves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    /// Any number.
    Unlimited,
    /// Twice this number: the receiver tells every so many messages.
    Messages(u32),
}

/// Counts of messages since the start, modulo 2³².
#[derive(Default)]
struct Progress {
    /// Number at which the sample ends: written by the sender before it sends.
    goal: CacheLine<AtomicU32>,
    /// Received so far, told at every full window and at the goal.
    received: CacheLine<AtomicU32>,
}

/// One operation is one message there. The clock stops when the last one of
/// the sample was received.
pub(super) struct Bandwidth<T> {
    peer: [Peer; 1],
    transport: T,
    message: Vec<u8>,
    progress: Shared<Progress>,
    limit: Option<u32>,
    sent: u32,
}

impl<T: Transport> Bandwidth<T> {
    /// Starts the other end on `cpu`: it receives, and does not look at, what
    /// comes.
    pub(super) fn start(cpu: usize, transport: T, bytes: u64, window: Window) -> Result<Self> {
        let message = buffer(bytes)?;
        let mut received = buffer(bytes)?;
        let progress = Shared::<Progress>::new()?;
        let peer = Peer::spawn(cpu, || {
            progress.follow(window, || transport.receive(&Forked, Direction::There, &mut received))
        })?;
        let limit = match window {
            Window::Unlimited => None,
            Window::Messages(n) => Some(2 * n),
        };
        Ok(Bandwidth { peer: [peer], transport, message, progress, limit, sent: 0 })
    }
}

impl Progress {
    /// The receiver's side: receives, and tells how far it is.
    fn follow(
        &self,
        window: Window,
        mut receive: impl FnMut() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut count = 0u32;
        loop {
            receive()?;
            count = count.wrapping_add(1);
            let full = matches!(window, Window::Messages(n) if count % n == 0);
            // Acquire: partner of the sender's Release in `sample`, which comes
            // before the message that was just received.
            if full || count == self.goal.0.load(Ordering::Acquire) {
                self.received.0.store(count, Ordering::Release);
                futex::wake(&self.received.0, Flags::empty(), 1)?;
            }
        }
    }

    /// The sender's side: waits until all but `behind` of `sent` messages have
    /// been received.
    #[inline]
    fn wait(&self, peer: &Peer, sent: u32, behind: u32) -> Result<()> {
        loop {
            let received = self.received.0.load(Ordering::Acquire);
            if sent.wrapping_sub(received) <= behind {
                return Ok(());
            }
            let sleep = || token::sleep(&self.received.0, received, Flags::empty());
            peer.call("wait until messages are received", sleep)?;
        }
    }
}

impl<T: Transport> Workload for Bandwidth<T> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let Bandwidth { peer, transport, message, progress, limit, sent } = self;
        let goal = sent.wrapping_add(iterations as u32);
        progress.goal.0.store(goal, Ordering::Release);
        time_with(peer, meter, || {
            for _ in 0..iterations {
                if let Some(limit) = *limit {
                    progress.wait(&peer[0], *sent, limit - 1)?;
                }
                transport.send(&peer[0], Direction::There, message)?;
                *sent = sent.wrapping_add(1);
            }
            progress.wait(&peer[0], goal, 0)
        })
    }

    fn max_batch(&self) -> Option<u64> {
        // Counts are modulo 2³².
        Some(1 << 30)
    }
}
