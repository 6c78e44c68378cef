//! Communication between two processes: how long a round trip takes, and how
//! many bytes pass, on one cpu and on two.
//!
//! ```text
//! peer       the other end: forked, bound, watched        watchdog, caller
//! transport  what is measured: Latency, Bandwidth
//! link · event · mqueue · ring     the ways to communicate
//! ```

use kumiki_measure::case::{Case, Choice, Level, Place};
use kumiki_measure::error::Result;

pub(super) mod caller;
mod event;
mod link;
mod mqueue;
pub(super) mod peer;
mod ring;
pub(super) mod token;
mod transport;
mod watchdog;

use super::other_end::OtherEnd;
use super::sweep::nonzero;
use event::{Eventfds, Futexes, Semaphores};
use link::{Kind, Link};
pub(super) use link::{read_all, write_all};
use mqueue::Queues;
use ring::{Rings, Wait};
use transport::{Bandwidth, Latency, Transport, Window};

const KIB: u64 = 1 << 10;

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = Vec::new();
    for end in OtherEnd::BOTH {
        links(choice, end, &mut cases);
        events(end, &mut cases);
        queues(choice, end, &mut cases);
        rings(choice, end, &mut cases);
    }
    cases
}

/// Sizes and numbers swept of one link.
struct Sweep {
    kind: Kind,
    latency: (&'static str, &'static str),
    bandwidth: (&'static str, &'static str),
    /// Levels from which on its round trips and its transfers are included.
    level: (Level, Level),
    /// The largest message that it takes everywhere.
    largest: u64,
}

const LINKS: [Sweep; 6] = [
    Sweep {
        kind: Kind::Pipe,
        latency: ("ipc.pipe.latency", "round trip of a message through two pipes"),
        bandwidth: ("ipc.pipe.bandwidth", "messages through a pipe, until the last is read"),
        level: (Level::Quick, Level::Quick),
        largest: u64::MAX,
    },
    Sweep {
        kind: Kind::UnixStream,
        latency: (
            "ipc.unix_stream.latency",
            "round trip of a message through a UNIX stream socket",
        ),
        bandwidth: (
            "ipc.unix_stream.bandwidth",
            "messages through a UNIX stream socket, until the last is read",
        ),
        level: (Level::Quick, Level::Quick),
        largest: u64::MAX,
    },
    Sweep {
        kind: Kind::UnixDatagram,
        latency: ("ipc.unix_datagram.latency", "round trip of a UNIX datagram"),
        bandwidth: ("ipc.unix_datagram.bandwidth", "UNIX datagrams, until the last is read"),
        level: (Level::Quick, Level::Default),
        largest: 64 * KIB,
    },
    Sweep {
        kind: Kind::UnixSeqpacket,
        latency: ("ipc.unix_seqpacket.latency", "round trip of a UNIX seqpacket message"),
        bandwidth: (
            "ipc.unix_seqpacket.bandwidth",
            "UNIX seqpacket messages, until the last is read",
        ),
        level: (Level::Default, Level::Default),
        largest: 64 * KIB,
    },
    Sweep {
        kind: Kind::Tcp,
        latency: ("ipc.tcp.latency", "round trip of a message over TCP, 127.0.0.1, TCP_NODELAY"),
        bandwidth: ("ipc.tcp.bandwidth", "messages over TCP, 127.0.0.1, until the last is read"),
        level: (Level::Quick, Level::Quick),
        largest: u64::MAX,
    },
    Sweep {
        kind: Kind::Udp,
        latency: ("ipc.udp.latency", "round trip of a datagram over UDP, 127.0.0.1"),
        bandwidth: (
            "ipc.udp.bandwidth",
            "datagrams over UDP, 127.0.0.1, as many under way as the socket holds, until the last is read",
        ),
        level: (Level::Quick, Level::Default),
        largest: 4 * KIB,
    },
];

/// Message sizes of the round trips.
const LATENCY: [(u64, Level); 5] = [
    (1, Level::Quick),
    (64, Level::Default),
    (4 * KIB, Level::Default),
    (64 * KIB, Level::Default),
    (1024 * KIB, Level::Default),
];

/// Message sizes of the transfers.
const BANDWIDTH: [(u64, Level); 4] = [
    (64, Level::Default),
    (4 * KIB, Level::Default),
    (64 * KIB, Level::Quick),
    (1024 * KIB, Level::Default),
];

fn links(choice: &Choice, end: OtherEnd, cases: &mut Vec<Case>) {
    for Sweep { kind, latency: trip, bandwidth: transfer, level, largest } in LINKS {
        let own = |sizes: &[(u64, Level)]| {
            let mut sizes = sizes.to_vec();
            sizes.retain(|size| size.0 <= largest);
            sizes
        };
        for (bytes, at) in nonzero(choice, &own(&LATENCY)) {
            let case = latency(trip, end, bytes, move || Link::open(kind, bytes));
            cases.push(case.with("bytes", bytes).level(at.max(level.0)));
        }
        for (bytes, at) in nonzero(choice, &own(&BANDWIDTH)) {
            let window = Link::window(kind, bytes);
            let case = bandwidth(transfer, end, bytes, window, move || Link::open(kind, bytes));
            cases.push(case.level(at.max(level.1)));
        }
    }
}

fn events(end: OtherEnd, cases: &mut Vec<Case>) {
    cases.push(latency(
        ("ipc.eventfd.latency", "round trip of a count of one through two eventfds"),
        end,
        0,
        Eventfds::open,
    ));
    cases.push(latency(
        ("ipc.futex.latency", "round trip of a wake-up on two words in shared memory"),
        end,
        0,
        Futexes::open,
    ));
    cases.push(latency(
        ("ipc.semaphore.latency", "round trip of a unit through two System V semaphores"),
        end,
        0,
        Semaphores::open,
    ));
}

fn queues(choice: &Choice, end: OtherEnd, cases: &mut Vec<Case>) {
    let trip = ("ipc.mqueue.latency", "round trip of a message through two POSIX message queues");
    let transfer = (
        "ipc.mqueue.bandwidth",
        "messages through a POSIX message queue, until the last is received",
    );
    // The default limit of a message is 8 KiB.
    for (bytes, level) in nonzero(choice, &LATENCY[..3]) {
        let case = latency(trip, end, bytes, move || Queues::open(bytes));
        cases.push(case.with("bytes", bytes).level(level));
    }
    for (bytes, level) in nonzero(choice, &BANDWIDTH[..2]) {
        let open = move || Queues::open(bytes);
        cases.push(bandwidth(transfer, end, bytes, Window::Unlimited, open).level(level));
    }
}

fn rings(choice: &Choice, end: OtherEnd, cases: &mut Vec<Case>) {
    let trip = (
        "ipc.shared_memory.latency",
        "round trip of a message copied into and out of shared memory; who waits sleeps or spins",
    );
    let transfer = (
        "ipc.shared_memory.bandwidth",
        "messages copied into and out of a ring in shared memory; who waits sleeps or spins",
    );
    // On one cpu a spinning side keeps away whom it waits for.
    let waits: &[Wait] = match end {
        OtherEnd::Same => &[Wait::Futex],
        OtherEnd::Other => &[Wait::Futex, Wait::Spin],
    };
    for &wait in waits {
        let with = |case: Case, bytes: u64, level| {
            let asks = case.asks_bytes.saturating_add(Rings::memory(bytes));
            case.with("wait", wait.word()).asks(asks).level(level)
        };
        for (bytes, level) in nonzero(choice, &LATENCY) {
            let case = latency(trip, end, bytes, move || Rings::open(bytes, wait));
            cases.push(with(case.with("bytes", bytes), bytes, level));
        }
        for (bytes, level) in nonzero(choice, &BANDWIDTH) {
            let open = move || Rings::open(bytes, wait);
            let case = bandwidth(transfer, end, bytes, Window::Unlimited, open);
            cases.push(with(case, bytes, level));
        }
    }
}

/// A round trip with the other end at `end`.
fn latency<T: Transport + 'static>(
    (name, about): (&'static str, &'static str),
    end: OtherEnd,
    bytes: u64,
    open: impl Fn() -> Result<T> + 'static,
) -> Case {
    let setup = move |place: &Place| Latency::start(end.cpu(place)?, open()?, bytes);
    end.mark(Case::new(name, about, setup)).asks(bytes.saturating_mul(2))
}

/// A transfer to the other end at `end`.
fn bandwidth<T: Transport + 'static>(
    (name, about): (&'static str, &'static str),
    end: OtherEnd,
    bytes: u64,
    window: Window,
    open: impl Fn() -> Result<T> + 'static,
) -> Case {
    let setup = move |place: &Place| Bandwidth::start(end.cpu(place)?, open()?, bytes, window);
    let case = end.mark(Case::new(name, about, setup));
    case.with("bytes", bytes).bandwidth(bytes).asks(bytes.saturating_mul(2))
}

#[cfg(test)]
mod tests;
