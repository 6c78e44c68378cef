//! A talk with a node's agent: a program runs there as if it ran here.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use kumiki_node_devices::record::window_of;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::{Asker, Device};
use kumiki_node_wire::link::{ChannelLink, End};
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, doorbell, sysfs};
use kumiki_node_wire::window::{Channel, Window, has_ended, meaning};
use kumiki_node_wire::wish::{Run, Wish};
use kumiki_stream::exec::{self, Beside, Client, Outcome, Refusal};
use kumiki_stream::{Kind, Link, Message, Stream};
use kumiki_sys::shm;

use crate::{Error, ErrorKind, Result, Subject};

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

/// Leaves a console: Ctrl-], as of telnet(1) and virsh(1).
const LEAVE: u8 = 0x1d;

/// End of a program in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Exit by itself, with this status.
    Exited(u8),
    /// End by this signal.
    Signalled(u8),
    /// Somebody at its console has left it with Ctrl-].
    Left,
}

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
    pub fn run(&self, run: &Run, client: &mut Client<'_>) -> Result<Ending> {
        self.attend(run, client, &mut Beside::default())
    }

    /// Runs a program with the kernel's log, from now on, between its output, until it ends or
    /// Ctrl-] is typed. It need not be ready yet.
    pub fn console(&self, run: &Run, client: &mut Client<'_>) -> Result<Ending> {
        let is_ready = self.window.word() == abi::WORD_READY;
        let mut seen = if is_ready { self.window.log_head() } else { 0 };
        let mut show = |out: &mut dyn Write| {
            let lines = for_terminal(&self.window.log_since(&mut seen));
            if lines.is_empty() { Ok(()) } else { out.write_all(&lines).and_then(|()| out.flush()) }
        };
        let mut beside = Beside {
            leave: Some(LEAVE),
            shows: Some(&mut show),
            look: Some(LOG_LOOK),
            ..Beside::default()
        };
        let ending = self.attend(run, client, &mut beside);
        if ending.is_err() {
            // A node that has ended has its reason there.
            let _ = show(client.out);
        }
        ending
    }

    fn attend(
        &self,
        run: &Run,
        client: &mut Client<'_>,
        beside: &mut Beside<'_>,
    ) -> Result<Ending> {
        let link = self.link();
        let mut stream = Stream::new(&link);
        stream.send(Kind::Open, &Wish::Run(run.clone())).map_err(|error| self.failed(error))?;
        match client.attend(&mut stream, beside).map_err(|error| self.failed(error))? {
            Outcome::Ended(ending) => self.done(ending, run.program.words.first()),
            Outcome::Left => Ok(Ending::Left),
            Outcome::TimedOut => Err(self.silent("end the program", Duration::ZERO)),
        }
    }

    fn link(&self) -> ChannelLink<'_, &Self> {
        ChannelLink::new(self.channel(), self)
    }

    /// Ending of what was asked, unless it was refused; a program by its first word.
    fn done(&self, ending: exec::Ending, word: Option<&OsString>) -> Result<Ending> {
        match ending {
            exec::Ending::Exited(status) => Ok(Ending::Exited(status)),
            exec::Ending::Signalled(number) => Ok(Ending::Signalled(number)),
            exec::Ending::Refused(Refusal { status, reason }) => {
                let kind = if status == 127 { ErrorKind::NotFound } else { ErrorKind::Refused };
                let subject = match word {
                    Some(word) if matches!(status, 126 | 127) => {
                        Subject::Program(word.to_string_lossy().into_owned())
                    }
                    _ => Subject::node(&self.name),
                };
                Err(Error::refused(kind, subject, format!("node {}: {reason}", self.name)))
            }
        }
    }

    fn failed(&self, error: impl Into<Error>) -> Error {
        error.into().about(|| Subject::node(&self.name))
    }

    fn silent(&self, what: &str, limit: Duration) -> Error {
        let text = format!("node {} did not {what} within {limit:?}", self.name);
        Error::refused(ErrorKind::TimedOut, Subject::node(&self.name), text)
    }

    /// Asks the node to switch itself off and waits until it has.
    pub(crate) fn shut_down(&self, limit: Duration) -> Result<()> {
        Stream::new(self.link()).send(Kind::Open, &Wish::Shutdown)?;
        let begin = Instant::now();
        while !has_ended(self.window.word()) {
            if begin.elapsed() >= limit {
                return Err(self.silent("switch itself off", limit));
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
        let link = self.link();
        let mut stream = Stream::new(&link);
        stream.send(Kind::Open, &Wish::Keep { stays })?;
        let begin = Instant::now();
        loop {
            match self.window.word() {
                abi::WORD_KEPT => return Ok(()),
                word if has_ended(word) => return self.alive(),
                _ => {}
            }
            match stream.receive() {
                Ok(None) => {}
                Ok(Some(Message::Close(body))) => {
                    let ending = exec::Ending::of_body(&body)?;
                    let log = self.window.log_since(&mut seen);
                    let awake = awake(&String::from_utf8_lossy(&log));
                    return Err(self.goes_on(ending, &awake));
                }
                Ok(Some(other)) => return Err(Error::Protocol(format!("{other:?} of a sleep"))),
                // It may have fallen asleep between these two looks.
                Err(_) if self.window.word() == abi::WORD_KEPT => return Ok(()),
                Err(error) => return Err(error),
            }
            if begin.elapsed() >= SLEEP_LIMIT {
                return Err(Error::refused(
                    ErrorKind::TimedOut,
                    Subject::node(&self.name),
                    format!(
                        "node {} is not asleep after {SLEEP_LIMIT:?}: see its log (kumiki node logs \
                     {0})",
                        self.name
                    ),
                ));
            }
            link.wait(&[], None)?;
        }
    }

    /// Refusal of a node that does not sleep.
    fn goes_on(&self, ending: exec::Ending, awake: &str) -> Error {
        let reason = match ending {
            exec::Ending::Refused(Refusal { reason, .. }) => reason,
            other => format!("{other:?}"),
        };
        let text = format!("node {} goes on: {reason}{awake}", self.name);
        Error::refused(ErrorKind::Refused, Subject::node(&self.name), text)
    }

    /// Has the node keep what it needs to start another one, or to watch its host.
    pub(crate) fn hand_over(&self, wish: &Wish) -> Result<()> {
        self.order(wish, ANSWER_LIMIT)
    }

    /// Has the node do something that may take so long.
    pub(crate) fn order(&self, wish: &Wish, limit: Duration) -> Result<()> {
        let link = self.link();
        let mut stream = Stream::new(&link);
        stream.send(Kind::Open, wish).map_err(|error| self.failed(error))?;
        let begin = Instant::now();
        loop {
            match stream.receive().map_err(|error| self.failed(error))? {
                Some(Message::Close(body)) => {
                    return self.done(exec::Ending::of_body(&body)?, None).map(drop);
                }
                Some(other) => return Err(Error::Protocol(format!("{other:?} as an answer"))),
                None => {}
            }
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(self.silent("answer", limit));
            }
            link.wait(&[], Some(left))?;
        }
    }
}

/// The host's end of a channel.
impl End for &Session {
    const LOOK_AGAIN: Duration = LOOK_AGAIN;
    // A short program's answer takes less than being woken does.
    const SPIN: Duration = Duration::from_micros(50);

    fn is_node(&self) -> bool {
        false
    }

    fn bell(&self) -> &File {
        self.device.bell()
    }

    fn ring(&self) -> Result<()> {
        self.device.ring()
    }

    fn alive(&self) -> Result<()> {
        let word = self.window.word();
        if has_ended(word) {
            return Err(Error::refused(
                ErrorKind::Lost,
                Subject::node(&self.name),
                format!("node {} has ended ({}): kumiki node logs {0}", self.name, meaning(word)),
            ));
        }
        // This process may have slept over a stop and a start.
        if self.channel().state() != abi::CHANNEL_OPEN {
            return Err(Error::refused(
                ErrorKind::Lost,
                Subject::node(&self.name),
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
    Error::refused(
        ErrorKind::Damaged,
        Subject::node(node),
        format!("node {node} has no memory: kumiki node rm {node}"),
    )
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

/// Lines as a terminal that passes everything on shows them.
fn for_terminal(lines: &[u8]) -> Vec<u8> {
    let line = |&byte: &u8| if byte == b'\n' { vec![b'\r', b'\n'] } else { vec![byte] };
    lines.iter().flat_map(line).collect()
}

impl Session {
    /// Runs a program without input and returns its ending and its output.
    pub fn output(&self, words: &[String]) -> Result<(Ending, Vec<u8>, Vec<u8>)> {
        let run = Run::of(words);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut client = Client { input: None, out: &mut out, err: &mut err, orders: None };
        let ending = self.run(&run, &mut client)?;
        Ok((ending, out, err))
    }
}
