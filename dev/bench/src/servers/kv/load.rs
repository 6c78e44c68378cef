//! Clients: each has so many commands under way, and sends the next ones once those are answered, or at
//! fixed times.
//!
//! What is sent and what has to come back were made before, so that a client does less than the
//! store does.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_measure::stats::describe;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::thread::set_current_timer_slack;

use super::words::{Batch, KEYS, Op, Words};

const THREADS: usize = 2;
/// Clients of a thread.
const CLIENTS: usize = 16;
/// Batches that a thread's clients take by turns.
const BATCHES: usize = 512;
const TIME: Duration = Duration::from_millis(400);
/// A store that answers nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Commands of a batch that fills a store.
const FILLED_AT_ONCE: usize = 1000;

/// Figures of one turn of a store.
pub(super) struct Turn {
    pub(super) commands: f64,
    pub(super) seconds: f64,
    pub(super) p99_ns: f64,
}

/// Sets all keys.
pub(super) fn fill(address: SocketAddr, words: Words) -> Result<()> {
    let mut stream = connected(address)?;
    for first in (0..KEYS).step_by(FILLED_AT_ONCE) {
        let keys: Vec<usize> = (first..first + FILLED_AT_ONCE).collect();
        let batch = Batch::of(words, Op::Set, &keys);
        stream.write_all(&batch.asked)?;
        let mut answer = vec![0; batch.answer.len()];
        stream.read_exact(&mut answer)?;
        ensure!(answer == batch.answer, "the store has not taken keys from {first} on");
    }
    Ok(())
}

/// Clients work for a while: as fast as they are answered, or each thread with a batch in so much time.
pub(super) fn turn(
    address: SocketAddr,
    words: Words,
    (op, pipeline): (Op, usize),
    pace: Option<Duration>,
) -> Result<Turn> {
    let driven = thread::scope(|scope| {
        let drive =
            |thread| scope.spawn(move || drive(address, words, (op, pipeline), pace, thread));
        let threads: Vec<_> = (0..THREADS as u64).map(drive).collect();
        threads.into_iter().map(|it| it.join().expect("no panic")).collect::<Result<Vec<_>>>()
    })?;
    let seconds = driven.iter().map(|(_, time)| time.as_secs_f64()).fold(0.0, f64::max);
    let took = describe::sorted(driven.into_iter().flat_map(|(took, _)| took));
    let commands = (took.len() * pipeline) as f64;
    Ok(Turn { commands, seconds, p99_ns: describe::quantile(&took, 0.99) })
}

struct LoadClient {
    stream: TcpStream,
    batch: usize,
    /// Bytes of its answer that have come.
    come: usize,
    since: Instant,
}

impl LoadClient {
    fn send(&mut self, batch: usize, batches: &[Batch], since: Instant) -> Result<()> {
        (self.batch, self.come, self.since) = (batch, 0, since);
        Ok(self.stream.write_all(&batches[batch].asked)?)
    }

    /// Takes what has come, which has to be right; whether the batch is answered.
    fn take(&mut self, buffer: &mut [u8], batches: &[Batch]) -> Result<bool> {
        let expected = &batches[self.batch].answer[self.come..];
        let count = self.stream.read(buffer)?;
        ensure!(count > 0, "the store has closed a connection");
        ensure!(expected.starts_with(&buffer[..count]), "the store has answered something else");
        self.come += count;
        Ok(count == expected.len())
    }
}

/// How long each batch took, in nanoseconds, and all of them together. With a pace it is from when each was
/// due: one that waits for those before it waits all the same (coordinated omission).
fn drive(
    address: SocketAddr,
    words: Words,
    (op, pipeline): (Op, usize),
    pace: Option<Duration>,
    thread: u64,
) -> Result<(Vec<f64>, Duration)> {
    // A sleep ends when it is due, not up to 50 µs later.
    set_current_timer_slack(NonZero::new(1))?;
    let mut random = fastrand::Rng::with_seed(thread);
    let mut keys = || (0..pipeline).map(|_| random.usize(..KEYS)).collect::<Vec<_>>();
    let batches: Vec<Batch> = (0..BATCHES).map(|_| Batch::of(words, op, &keys())).collect();
    let mut next = (0..BATCHES).cycle();
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut clients = Vec::with_capacity(CLIENTS);
    for at in 0..CLIENTS {
        let stream = connected(address)?;
        epoll::add(&epoll, &stream, EventData::new_u64(at as u64), EventFlags::IN)?;
        clients.push(LoadClient { stream, batch: 0, come: 0, since: Instant::now() });
    }
    let (mut events, mut buffer) = (Vec::with_capacity(CLIENTS), vec![0; 64 * 1024]);
    let (begin, mut took) = (Instant::now(), Vec::new());
    let (mut due, mut idle): (_, VecDeque<usize>) = (begin, (0..CLIENTS).collect());
    loop {
        let now = Instant::now();
        let goes_on = now - begin < TIME;
        while goes_on
            && due <= now
            && let Some(at) = idle.pop_front()
        {
            let since = if pace.is_some() { due } else { Instant::now() };
            clients[at].send(next.next().unwrap_or_default(), &batches, since)?;
            due += pace.unwrap_or_default();
        }
        if !goes_on && idle.len() == CLIENTS {
            return Ok((took, begin.elapsed()));
        }
        let is_early = goes_on && !idle.is_empty();
        let limit = if is_early { due.saturating_duration_since(now) } else { PATIENCE };
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&limit))?;
        ensure!(is_early || !events.is_empty(), "the store answers nothing");
        for event in &events {
            let at = event.data.u64() as usize;
            if clients[at].take(&mut buffer, &batches)? {
                took.push(clients[at].since.elapsed().as_nanos() as f64);
                idle.push_back(at);
            }
        }
    }
}

fn connected(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
