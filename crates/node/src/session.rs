//! A talk with a node's agent: a program runs there as if it ran here.

use std::io::Write;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::device::{self, Device, Kind as Holding};
use crate::frame::{CHUNK_BYTES, Kind, Program, number, receive, send};
use crate::node::window_of;
use crate::window::{Channel, Window, has_ended, meaning};
use crate::{Error, Result, tree};

/// Spin so long for an answer before sleeping: a short program's takes less
/// than being woken does.
const SPIN: Duration = Duration::from_micros(50);

/// How long a sleep may last, should a doorbell get lost.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How a program in a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(u32),
    /// By this signal.
    Signalled(u32),
}

/// A channel of a running node. The program ends when it is dropped.
pub struct Session {
    name: String,
    device: Device,
    channel: usize,
    window: Window,
}

impl Session {
    /// Claims a channel of a node.
    pub fn open(node: &str) -> Result<Self> {
        let (device, channel) = Device::talk(node)?;
        let entry = tree::one(Holding::Node, node)?;
        let first = entry.pieces.first().ok_or_else(|| {
            Error::Refused(format!("node {node} has no memory: kumiki node delete {node}"))
        })?;
        let window = Window::new(device.map(&[window_of(first)], true)?);
        let session = Session { name: node.to_owned(), device, channel, window };
        session.channel().open();
        Ok(session)
    }

    fn channel(&self) -> Channel<'_> {
        self.window.channel(self.channel)
    }

    /// Runs a program until it ends, its streams being these. A number that
    /// somebody puts into `signal` goes to the program and all it has started.
    pub fn run(
        &self,
        words: &[String],
        environment: &[(String, String)],
        signal: &AtomicU32,
        input: Option<BorrowedFd<'_>>,
        (out, err): (&mut dyn Write, &mut dyn Write),
    ) -> Result<Ending> {
        let program =
            Program { words: words.to_vec(), environment: environment.to_vec(), folder: None };
        let body =
            serde_json::to_vec(&program).map_err(|error| Error::Refused(error.to_string()))?;
        self.send(Kind::Exec, &body)?;

        let channel = self.channel();
        let mut input = Input::new(input);
        loop {
            let full = channel.to_host.free()? < 2 * CHUNK_BYTES;
            while let Some((kind, body)) = receive(&channel.to_host)? {
                match kind {
                    Kind::Started => {}
                    Kind::Stdout => pass(out, &body)?,
                    Kind::Stderr => pass(err, &body)?,
                    Kind::Exited => return Ok(Ending::Exited(number(&body)?)),
                    Kind::Signalled => return Ok(Ending::Signalled(number(&body)?)),
                    Kind::Failed => {
                        let reason = String::from_utf8_lossy(&body).into_owned();
                        return Err(Error::Refused(format!("node {}: {reason}", self.name)));
                    }
                    other => return Err(Error::Protocol(format!("{other:?} from the node"))),
                }
            }
            if full {
                // The agent waits for room.
                self.device.ring()?;
            }
            self.alive()?;
            let number = signal.swap(0, Ordering::Relaxed);
            // Beside input that fills the ring it waits for the next look.
            if number != 0 && !send(&channel.to_node, Kind::Signal, &number.to_le_bytes())? {
                signal.store(number, Ordering::Relaxed);
            } else if number != 0 {
                self.device.ring()?;
            }
            input.pass_on(self)?;
            self.wait(&input)?;
        }
    }

    /// Sleeps until there is a frame or more input.
    fn wait(&self, input: &Input<'_>) -> Result<()> {
        let channel = self.channel();
        let begin = Instant::now();
        while begin.elapsed() < SPIN {
            if channel.to_host.available()? > 0 {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let others: Vec<_> = input.wanted().into_iter().map(|fd| (fd, PollFlags::IN)).collect();
        device::wait(self.device.bell(), &others, LOOK_AGAIN)
            .map_err(|error| Error::os("waiting for the node", error))
    }

    /// Asks the node to switch itself off and waits until it has.
    pub(crate) fn shut_down(&self, limit: Duration) -> Result<()> {
        self.send(Kind::Shutdown, &[])?;
        let begin = Instant::now();
        while !has_ended(self.window.word()) {
            if begin.elapsed() >= limit {
                return Err(Error::Refused(format!(
                    "node {} did not switch itself off within {limit:?}",
                    self.name
                )));
            }
            device::wait(self.device.bell(), &[], LOOK_AGAIN.min(limit))
                .map_err(|error| Error::os("waiting for the node", error))?;
        }
        Ok(())
    }

    /// A first frame, for which an empty ring has room.
    fn send(&self, kind: Kind, body: &[u8]) -> Result<()> {
        if !send(&self.channel().to_node, kind, body)? {
            return Err(Error::Protocol("no room in a new channel".into()));
        }
        self.device.ring()
    }

    fn alive(&self) -> Result<()> {
        let word = self.window.word();
        if has_ended(word) {
            return Err(Error::Refused(format!(
                "node {} has ended ({}): kumiki node logs {0}",
                self.name,
                meaning(word)
            )));
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.channel().close();
        // The module rings, too, when the descriptor is closed after a death;
        // a node that is gone has nobody to hear it.
        let _ = self.device.ring();
    }
}

fn pass(to: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    to.write_all(bytes)
        .and_then(|()| to.flush())
        .map_err(|error| Error::os("writing what the node's program wrote", error))
}

/// Standard input on its way to the node.
struct Input<'a> {
    from: Option<BorrowedFd<'a>>,
    /// Read, and not sent for want of room.
    pending: Option<Vec<u8>>,
}

impl<'a> Input<'a> {
    fn new(from: Option<BorrowedFd<'a>>) -> Self {
        // Without one the program reads an end at once.
        Input { pending: from.is_none().then(Vec::new), from }
    }

    /// What to wait for: more input, unless some waits already.
    fn wanted(&self) -> Option<BorrowedFd<'a>> {
        self.from.filter(|_| self.pending.is_none())
    }

    fn pass_on(&mut self, session: &Session) -> Result<()> {
        if self.pending.is_none()
            && let Some(from) = self.from
            && is_readable(from)
        {
            let mut bytes = vec![0; CHUNK_BYTES];
            let read = rustix::io::read(from, &mut bytes)
                .map_err(|error| Error::os("reading standard input", error))?;
            bytes.truncate(read);
            self.pending = Some(bytes);
        }
        let Some(bytes) = &self.pending else { return Ok(()) };
        let kind = if bytes.is_empty() { Kind::StdinEnd } else { Kind::Stdin };
        if send(&session.channel().to_node, kind, bytes)? {
            if bytes.is_empty() {
                self.from = None;
            }
            self.pending = None;
            session.device.ring()?;
        }
        Ok(())
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(ready) if ready > 0)
}

impl Session {
    /// Runs a program without input and returns its ending and its output.
    pub fn output(&self, words: &[String]) -> Result<(Ending, Vec<u8>, Vec<u8>)> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let ending = self.run(words, &[], &AtomicU32::new(0), None, (&mut out, &mut err))?;
        Ok((ending, out, err))
    }
}
