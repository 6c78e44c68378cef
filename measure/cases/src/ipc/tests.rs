//! What must hold for every transport: bytes arrive whole, a dead peer is an
//! error, nothing stays behind.

use std::time::{Duration, Instant};

use kumiki_sys::clock::Clock;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::caller::Forked;
use super::peer::Peer;
use super::transport::{Direction, buffer};
use super::*;
use kumiki_measure::case::Workload;
use kumiki_measure::error::Error;
use kumiki_measure::meter::Meter;

/// Some cpu that this process may use.
fn cpu() -> usize {
    rustix::thread::sched_getcpu()
}

fn meter() -> Meter {
    Meter::new(Clock::calibrate(Duration::from_millis(5)))
}

/// Fills `message` with what only message `number` holds.
fn pattern(message: &mut [u8], number: u32) {
    for (index, byte) in message.iter_mut().enumerate() {
        let mixed = (index as u32 ^ number.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        *byte = (mixed >> 24) as u8;
    }
}

/// Sends messages there, whole and in order as the peer sees them, and back.
fn arrives_whole(transport: impl Transport, bytes: u64) {
    const MESSAGES: u32 = 5;
    let mut sent = buffer(bytes).unwrap();
    let mut received = buffer(bytes).unwrap();
    let peer = Peer::spawn(cpu(), || {
        for number in 0..MESSAGES {
            transport.receive(&Forked, Direction::There, &mut received)?;
            pattern(&mut sent, number);
            if received != sent {
                return Err(Errno::BADMSG);
            }
            transport.send(&Forked, Direction::Back, &received)?;
        }
        // Lives until killed.
        loop {
            rustix::thread::sched_yield();
        }
    })
    .unwrap();
    for number in 0..MESSAGES {
        pattern(&mut sent, number);
        received.fill(0);
        transport.send(&peer, Direction::There, &sent).unwrap();
        transport.receive(&peer, Direction::Back, &mut received).unwrap();
        assert!(received == sent, "message {number} of {bytes} bytes came back changed");
    }
    peer.check().unwrap();
}

/// Kills the peer and expects an error instead of an answer that never comes.
fn notices_a_dead_peer(transport: impl Transport, bytes: u64) {
    let mut message = buffer(bytes).unwrap();
    let peer = Peer::spawn(cpu(), || Err(Errno::OWNERDEAD)).unwrap();
    let start = Instant::now();
    let error = (0..1000)
        .try_for_each(|_| transport.send(&peer, Direction::There, &message))
        .and_then(|()| transport.receive(&peer, Direction::Back, &mut message))
        .unwrap_err();
    assert!(error.to_string().contains("Owner died"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(60), "noticed by the watchdog, not by patience");
}

#[test]
fn links_carry_every_byte() {
    for Sweep { kind, largest, .. } in LINKS {
        // Above what a pipe (64 KiB) and the sockets' buffers (208 KiB) hold.
        for bytes in [1, 4097, 65_507, 3 << 20] {
            if bytes <= largest {
                arrives_whole(Link::open(kind, bytes).unwrap(), bytes);
            }
        }
    }
    arrives_whole(Link::open(Kind::Udp, 65_507).unwrap(), 65_507);
}

#[test]
fn rings_and_queues_carry_every_byte() {
    for bytes in [1, 4097, 3 << 20] {
        arrives_whole(Rings::open(bytes, Wait::Futex).unwrap(), bytes);
        arrives_whole(Rings::open(bytes, Wait::Spin).unwrap(), bytes);
    }
    match Queues::open(8192) {
        Ok(queues) => arrives_whole(queues, 8192),
        Err(Error::Unsupported { feature, needs }) => eprintln!("skipped: {feature}: {needs}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_dead_peer_is_an_error_on_every_transport() {
    for Sweep { kind, .. } in LINKS {
        notices_a_dead_peer(Link::open(kind, 4096).unwrap(), 4096);
    }
    notices_a_dead_peer(Rings::open(4096, Wait::Futex).unwrap(), 4096);
    notices_a_dead_peer(Rings::open(4096, Wait::Spin).unwrap(), 4096);
    notices_a_dead_peer(Eventfds::open().unwrap(), 0);
    notices_a_dead_peer(Futexes::open().unwrap(), 0);
    if let Ok(semaphores) = Semaphores::open() {
        notices_a_dead_peer(semaphores, 0);
    }
    if let Ok(queues) = Queues::open(4096) {
        notices_a_dead_peer(queues, 4096);
    }
}

#[test]
fn a_ring_keeps_order_when_both_sides_move() {
    const MESSAGES: u32 = 20_000;
    for wait in [Wait::Futex, Wait::Spin] {
        let rings = Rings::open(64, wait).unwrap();
        let mut message = [0; 64];
        // Both sides on whatever cpus: bound to one, they would take turns.
        let peer = Peer::spawn(cpu(), || {
            let mut expected = [0; 64];
            for number in 0..MESSAGES {
                rings.receive(&Forked, Direction::There, &mut message)?;
                pattern(&mut expected, number);
                if message != expected {
                    return Err(Errno::BADMSG);
                }
            }
            rings.send(&Forked, Direction::Back, &[1])?;
            Ok(())
        })
        .unwrap();
        for number in 0..MESSAGES {
            pattern(&mut message, number);
            rings.send(&peer, Direction::There, &message).unwrap();
        }
        rings.receive(&peer, Direction::Back, &mut message[..1]).unwrap();
    }
}

#[test]
fn an_oversized_datagram_is_a_typed_skip() {
    for kind in [Kind::Udp, Kind::UnixDatagram, Kind::UnixSeqpacket] {
        let outcome = Link::open(kind, 1 << 30).map(drop);
        assert!(matches!(outcome, Err(Error::Unsupported { .. })), "{kind:?}: {outcome:?}");
    }
}

#[test]
fn a_message_larger_than_memory_is_an_error() {
    assert!(matches!(buffer(u64::MAX), Err(Error::Invalid(_))));
    assert!(Rings::open(u64::MAX, Wait::Futex).is_err());
    assert!(Rings::open(1 << 60, Wait::Futex).is_err());
}

#[test]
fn udp_holds_what_may_be_under_way() {
    // Were one datagram dropped, the sample would never end.
    for bytes in [1, 64, 4096, 65_507] {
        let link = Link::open(Kind::Udp, bytes).unwrap();
        let window = Link::window(Kind::Udp, bytes);
        let mut udp = Bandwidth::start(cpu(), link, bytes, window).unwrap();
        for iterations in [1, 2, 7, 500] {
            udp.sample(iterations, &meter()).unwrap();
        }
    }
}

#[test]
fn a_peer_that_ends_early_stops_the_sample() {
    let link = Link::open(Kind::Pipe, 1).unwrap();
    let mut trips = Latency::start(cpu(), link, 1).unwrap();
    trips.sample(3, &meter()).unwrap();
    kill_process(trips.peer_id(), Signal::KILL).unwrap();
    let error = trips.sample(3, &meter()).unwrap_err();
    assert!(error.to_string().contains("killed by signal 9"), "{error}");
}

#[test]
fn a_panicking_peer_does_not_come_back() {
    let mut here = vec![1];
    let peer = Peer::spawn(cpu(), || {
        // Not `panic!`: its message may wait for a lock that another thread
        // held at the fork.
        std::panic::resume_unwind(Box::new(()))
    })
    .unwrap();
    here.push(2);
    let error = loop {
        match peer.check() {
            Ok(()) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("panicked"), "{error}");
    assert_eq!(here, [1, 2]);
}

#[test]
fn the_peers_processor_time_counts() {
    let mut trips = Latency::start(cpu(), Futexes::open().unwrap(), 0).unwrap();
    let sample = trips.sample(2000, &meter()).unwrap();
    assert!(sample.wall_ns > 0.0);
    assert!(sample.cpu.children_ns > 0.0, "{sample:?}");
}

#[test]
fn dropping_leaves_no_child() {
    let peer = Peer::spawn(cpu(), || {
        loop {
            rustix::thread::sched_yield();
        }
    })
    .unwrap();
    let id: Pid = peer.id();
    drop(peer);
    assert_eq!(waitpid(Some(id), WaitOptions::NOHANG).map(drop), Err(Errno::CHILD));
}

#[test]
fn a_cpu_that_does_not_exist_leaves_no_child() {
    let outcome = Peer::spawn(100_000, || Ok(()));
    let error = outcome.map(drop).unwrap_err().to_string();
    assert!(error.contains("cpu 100000"), "{error}");
}

#[test]
fn signals_are_blocked_in_the_peer_only() {
    let peer = Peer::spawn(cpu(), || {
        loop {
            std::hint::spin_loop()
        }
    })
    .unwrap();
    let blocked = |process: &str| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let interrupt = 1u64 << (libc::SIGINT - 1);
    assert_ne!(blocked(&peer.id().to_string()) & interrupt, 0);
    assert_eq!(blocked("thread-self") & interrupt, 0);
}

#[test]
fn sizes_are_swept_as_asked() {
    let quick = cases(&Choice::default());
    assert!(quick.iter().filter(|case| case.level == Level::Quick).count() <= 30);
    let choice = Choice { level: None, sizes: Some(vec![0, 7]) };
    for case in cases(&choice) {
        assert!(case.params.get("bytes").is_none_or(|bytes| bytes.to_string() == "7"));
        assert_eq!(case.two_cpus, case.params["cpu"].to_string() == "other");
    }
}
