//! A talk with a node's agent: a program runs there as if it ran here.

use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use kumiki_node_devices::record::window_of;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::{Asker, Device};
use kumiki_node_wire::frame::{CHUNK_BYTES, FrameKind, Program, STAYS, number, receive, send};
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, doorbell, sysfs};
use kumiki_node_wire::window::{Channel, Window, has_ended, meaning};
use kumiki_sys::shm;
use rustix::event::PollFlags;

use crate::node::client::{Client, Ending, Input, Order, Orders};
use crate::{Error, ErrorKind, Result};

/// Spin so long for an answer before sleeping: a short program's takes less
/// than being woken does.
const SPIN: Duration = Duration::from_micros(50);

/// Longest sleep, should a doorbell get lost.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Time that an agent has for an answer that takes it no time.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Time that a node has to fall asleep: its kernel gives tasks 20 s of it, and devices some.
const SLEEP_LIMIT: Duration = Duration::from_secs(60);

/// Lines of the log that tell why a kernel does not sleep, and how many are shown.
const AWAKE: [&str; 4] = ["refusing to freeze", "task:", "failed to suspend", "failed to freeze"];
const AWAKE_LINES: usize = 6;

/// Interval at which a kernel's log is looked at: a line rings no bell, because a node's first
/// lines are many and nobody may be there.
pub(crate) const LOG_LOOK: Duration = Duration::from_millis(50);

/// A channel of a running node. The program ends when it is dropped.
pub struct Session {
    name: String,
    device: Device,
    channel: usize,
    window: Window,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("name", &self.name)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Claims a channel of a running node. One that sleeps because nobody asked for it sleeps on:
    /// [`wake_if_idle`](crate::wake_if_idle) is before this where somebody asks.
    pub fn open(node: &str) -> Result<Self> {
        Self::opened(node, Asker::Program)
    }

    /// Opens one for what the host itself asks, such as how the node is: there is a channel for it
    /// when programs have all others.
    pub fn open_by_host(node: &str) -> Result<Self> {
        Self::opened(node, Asker::Host)
    }

    fn opened(node: &str, asker: Asker) -> Result<Self> {
        let (device, channel) = Device::talk(node, asker)?;
        let entry = sysfs::one(Holding::Node, node)?;
        let first = entry.pieces.first().ok_or_else(|| no_memory(node))?;
        let window = Window::new(device.map(&[window_of(first)], Access::Write)?);
        let session = Session { name: node.to_owned(), device, channel, window };
        session.channel().open();
        Ok(session)
    }

    /// This channel's part of the memory for lines, and where it begins in the whole.
    pub(super) fn lanes(&self) -> Result<(shm::Window, u64)> {
        let bytes = abi::LANES_BYTES / abi::CHANNELS;
        let base = (self.channel * bytes) as u64;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        let first = entry.pieces.first().ok_or_else(|| no_memory(&self.name))?;
        let at = window_of(first).address + abi::LANES_AT as u64 + base;
        Ok((self.device.lanes(at, bytes)?, base))
    }

    fn channel(&self) -> Channel<'_> {
        self.window.channel(self.channel)
    }

    /// Runs a program until it ends, this being its near side.
    pub fn run(&self, program: &Program, client: &mut Client<'_>) -> Result<Ending> {
        self.attend(program, client, None)
    }

    /// Runs a program with the kernel's log, from now on, between its output, until it ends or
    /// Ctrl-] is typed. It need not be ready yet.
    pub fn console(&self, program: &Program, client: &mut Client<'_>) -> Result<Ending> {
        let is_ready = self.window.word() == abi::WORD_READY;
        let seen = if is_ready { self.window.log_head() } else { 0 };
        self.attend(program, client, Some(seen))
    }

    /// `log` is how much of the kernel's log has been seen, if it is shown.
    fn attend(
        &self,
        program: &Program,
        client: &mut Client<'_>,
        mut log: Option<u64>,
    ) -> Result<Ending> {
        let body = serde_json::to_vec(program)
            .map_err(|error| Error::refused(ErrorKind::Invalid, error.to_string()))?;
        self.send(FrameKind::Exec, &body)?;
        let channel = self.channel();
        let mut input = Input::new(client.input, log.is_some());
        let mut waiting = None;
        loop {
            // Before its last lines are looked at: they are there then.
            let alive = self.alive();
            if let Some(seen) = &mut log {
                let lines = self.window.log_since(seen);
                pass(client.out, &for_terminal(&lines))?;
            }
            let full = channel.to_host.free()? < 2 * CHUNK_BYTES;
            while let Some((kind, body)) = receive(&channel.to_host)? {
                match kind {
                    FrameKind::Started => {}
                    FrameKind::Stdout => pass(client.out, &body)?,
                    FrameKind::Stderr => pass(client.err, &body)?,
                    FrameKind::Exited => return Ok(Ending::Exited(number(&body)?)),
                    FrameKind::Signalled => return Ok(Ending::Signalled(number(&body)?)),
                    FrameKind::Failed => {
                        let reason = String::from_utf8_lossy(&body).into_owned();
                        return Err(Error::refused(
                            ErrorKind::Refused,
                            format!("node {}: {reason}", self.name),
                        ));
                    }
                    other => return Err(Error::Protocol(format!("{other:?} from the node"))),
                }
            }
            alive?;
            let told = self.tell(client, &mut waiting)?;
            let passed = input.pass_on(&channel)?;
            if full || told || passed {
                // The agent waits for room or for these.
                self.device.ring()?;
            }
            if input.has_left() {
                return Ok(Ending::Left);
            }
            let orders = client.orders.as_deref().map(Orders::ready);
            self.wait(input.wanted(), orders, if log.is_some() { LOG_LOOK } else { LOOK_AGAIN })?;
        }
    }

    /// Sends orders as far as there is room; whether it sent any. One that
    /// finds none stays in `waiting`.
    fn tell(&self, client: &mut Client<'_>, waiting: &mut Option<Order>) -> Result<bool> {
        let Some(orders) = &mut client.orders else { return Ok(false) };
        let mut told = false;
        loop {
            if waiting.is_none() {
                *waiting = orders
                    .next()
                    .map_err(|error| Error::os("taking what the program is told", error))?;
            }
            let Some(order) = *waiting else { return Ok(told) };
            let channel = self.channel();
            match order {
                Order::Signal(number) => channel.signal(number),
                Order::Resize(size) => {
                    if !send(&channel.to_node, FrameKind::Resize, &size.to_body())? {
                        return Ok(told);
                    }
                }
            }
            // At once: the next order may be that this process stops for now.
            self.device.ring()?;
            (*waiting, told) = (None, true);
        }
    }

    /// Sleeps until there is a frame, more input or an order.
    fn wait(
        &self,
        input: Option<BorrowedFd<'_>>,
        orders: Option<BorrowedFd<'_>>,
        limit: Duration,
    ) -> Result<()> {
        let channel = self.channel();
        let begin = Instant::now();
        while begin.elapsed() < SPIN {
            if channel.to_host.available()? > 0 {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let others: Vec<_> =
            input.into_iter().chain(orders).map(|fd| (fd, PollFlags::IN)).collect();
        doorbell::wait(self.device.bell(), &others, limit)
            .map_err(|error| Error::os("waiting for the node", error))
    }

    /// Asks the node to switch itself off and waits until it has.
    pub(crate) fn shut_down(&self, limit: Duration) -> Result<()> {
        self.send(FrameKind::Shutdown, &[])?;
        let begin = Instant::now();
        while !has_ended(self.window.word()) {
            if begin.elapsed() >= limit {
                return Err(Error::refused(
                    ErrorKind::TimedOut,
                    format!("node {} did not switch itself off within {limit:?}", self.name),
                ));
            }
            doorbell::wait(self.device.bell(), &[], LOOK_AGAIN.min(limit))
                .map_err(|error| Error::os("waiting for the node", error))?;
        }
        Ok(())
    }

    /// Has the node's kernel sleep, so that its memory can be kept, and waits until it does.
    /// With `stays` nobody else starts a copy, and nothing is made anew when it wakes.
    pub(crate) fn sleep(&self, stays: bool) -> Result<()> {
        let mut seen = self.window.log_head();
        self.send(FrameKind::Keep, if stays { &STAYS } else { &[] })?;
        let begin = Instant::now();
        loop {
            match self.window.word() {
                abi::WORD_KEPT => return Ok(()),
                word if has_ended(word) => return self.alive(),
                _ => {}
            }
            if let Some((_, reason)) = receive(&self.channel().to_host)? {
                let reason = String::from_utf8_lossy(&reason).into_owned();
                let log = self.window.log_since(&mut seen);
                return Err(Error::refused(
                    ErrorKind::Refused,
                    format!(
                        "node {} goes on: {reason}{}",
                        self.name,
                        awake(&String::from_utf8_lossy(&log))
                    ),
                ));
            }
            if begin.elapsed() >= SLEEP_LIMIT {
                return Err(Error::refused(
                    ErrorKind::TimedOut,
                    format!(
                        "node {} is not asleep after {SLEEP_LIMIT:?}: see its log (kumiki node logs \
                     {0})",
                        self.name
                    ),
                ));
            }
            self.wait(None, None, LOOK_AGAIN)?;
        }
    }

    /// Has the node keep what it needs to start another one, or to watch its host.
    pub(crate) fn hand_over(&self, kind: FrameKind, body: &[u8]) -> Result<()> {
        self.order(kind, body, ANSWER_LIMIT)
    }

    /// Has the node do something that may take so long.
    pub(crate) fn order(&self, kind: FrameKind, body: &[u8], limit: Duration) -> Result<()> {
        self.send(kind, body)?;
        let begin = Instant::now();
        loop {
            match receive(&self.channel().to_host)? {
                Some((FrameKind::Exited, _)) => return Ok(()),
                Some((_, reason)) => {
                    let reason = String::from_utf8_lossy(&reason).into_owned();
                    return Err(Error::refused(
                        ErrorKind::Refused,
                        format!("node {}: {reason}", self.name),
                    ));
                }
                None if begin.elapsed() >= limit => {
                    return Err(Error::refused(
                        ErrorKind::TimedOut,
                        format!("node {} did not answer within {limit:?}", self.name),
                    ));
                }
                None => {
                    self.alive()?;
                    self.wait(None, None, LOOK_AGAIN)?;
                }
            }
        }
    }

    /// A first frame, for which an empty ring has room.
    fn send(&self, kind: FrameKind, body: &[u8]) -> Result<()> {
        if !send(&self.channel().to_node, kind, body)? {
            return Err(Error::Protocol("no room in a new channel".into()));
        }
        self.device.ring()
    }

    fn alive(&self) -> Result<()> {
        let word = self.window.word();
        if has_ended(word) {
            return Err(Error::refused(
                ErrorKind::Lost,
                format!("node {} has ended ({}): kumiki node logs {0}", self.name, meaning(word)),
            ));
        }
        // This process may have slept over a stop and a start.
        if self.channel().state() != abi::CHANNEL_OPEN {
            return Err(Error::refused(
                ErrorKind::Lost,
                format!(
                    "node {} was stopped and started again, or its agent has given this program up: \
                 kumiki node logs {0}",
                    self.name
                ),
            ));
        }
        Ok(())
    }
}

fn no_memory(node: &str) -> Error {
    Error::refused(ErrorKind::Damaged, format!("node {node} has no memory: kumiki node rm {node}"))
}

impl Drop for Session {
    fn drop(&mut self) {
        self.channel().close();
        // The module rings, too, when the descriptor is closed after a death;
        // a node that is gone has nobody to hear it.
        let _ = self.device.ring();
    }
}

/// Lines of a log on tasks and devices that do not sleep.
fn awake(log: &str) -> String {
    let telling = log.lines().filter(|line| AWAKE.iter().any(|word| line.contains(word)));
    let lines: Vec<&str> = telling.take(AWAKE_LINES).collect();
    if lines.is_empty() { String::new() } else { format!("; its log:\n  {}", lines.join("\n  ")) }
}

fn pass(to: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    to.write_all(bytes)
        .and_then(|()| to.flush())
        .map_err(|error| Error::os("writing what the node's program wrote", error))
}

/// Lines as a terminal that passes everything on shows them.
fn for_terminal(lines: &[u8]) -> Vec<u8> {
    let line = |&byte: &u8| if byte == b'\n' { vec![b'\r', b'\n'] } else { vec![byte] };
    lines.iter().flat_map(line).collect()
}

impl Session {
    /// Runs a program without input and returns its ending and its output.
    pub fn output(&self, words: &[String]) -> Result<(Ending, Vec<u8>, Vec<u8>)> {
        let program = Program { words: words.to_vec(), ..Program::default() };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut client = Client { input: None, out: &mut out, err: &mut err, orders: None };
        let ending = self.run(&program, &mut client)?;
        Ok((ending, out, err))
    }
}
