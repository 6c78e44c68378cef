//! Asking processes what they have: all at once, none of which holds the others.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::reply::{MOST_BYTES, parse};
use super::sockets::{LONGEST, PATIENCE, connect, folder, path_of};
use crate::error::{Error, Result};
use crate::list::{Listed, Pattern};

/// Pause between two tries to connect to one whose queue is full.
const RETRY: Duration = Duration::from_millis(10);
/// All answers together, bytes.
const ALL_BYTES: usize = 8 * MOST_BYTES;
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// Each process's answer.
pub type Answers = Vec<(u32, Result<Vec<Listed>>)>;

/// Asks `process` for its resources.
///
/// # Errors
/// It publishes nothing, does not answer within five seconds, refuses, or answers
/// something that is no listing ([`parse`]); a pattern that is none.
pub fn ls_of(process: u32, pattern: &str) -> Result<Vec<Listed>> {
    let (_, listing) = ls_of_each(&[process], pattern)?.remove(0);
    listing
}

/// Asks each of these processes for its resources, at the same time: all of it takes five
/// seconds at most, and 256 MiB for what they send.
///
/// # Errors
/// A pattern that is none; of each process, as [`ls_of`].
pub fn ls_of_each(processes: &[u32], pattern: &str) -> Result<Answers> {
    ls_in(&folder()?, processes, pattern)
}

/// Asks processes that publish in [another folder](crate::Interface::publish_in).
///
/// # Errors
/// As [`ls_of_each`].
pub fn ls_in(folder: &Path, processes: &[u32], pattern: &str) -> Result<Answers> {
    // What each of them would say.
    Pattern::new(pattern)?;
    let request = format!("{pattern}\n");
    if request.len() > LONGEST {
        let why = format!("it has {} bytes, of {} at most", pattern.len(), LONGEST - 1);
        return Err(Error::Pattern { pattern: pattern.chars().take(40).collect(), why });
    }
    let asked = |&process: &u32| Question {
        process,
        path: path_of(folder, process),
        stream: None,
        to_send: request.as_bytes(),
        reply: Vec::new(),
        end: None,
    };
    let mut all: Vec<Question> = processes.iter().map(asked).collect();
    talk(&mut all, Instant::now() + PATIENCE);
    Ok(all.into_iter().map(Question::listing).collect())
}

/// A process that was asked.
struct Question<'a> {
    process: u32,
    path: PathBuf,
    stream: Option<UnixStream>,
    to_send: &'a [u8],
    reply: Vec<u8>,
    /// The exchange's end, once it has ended.
    end: Option<io::Result<()>>,
}

impl Question<'_> {
    /// The event that it waits for; none of one that has ended, or is not connected yet.
    fn awaits(&self) -> Option<(&UnixStream, PollFlags)> {
        let wanted = if self.to_send.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        self.stream.as_ref().filter(|_| self.end.is_none()).map(|stream| (stream, wanted))
    }

    /// Goes on as far as it goes without waiting; how many bytes have come.
    fn go_on(&mut self) -> usize {
        let before = self.reply.len();
        match self.try_to_end() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            end => self.end = Some(end),
        }
        self.reply.len() - before
    }

    fn try_to_end(&mut self) -> io::Result<()> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(connect(&self.path)?),
        };
        while !self.to_send.is_empty() {
            let sent = retried(|| stream.write(self.to_send))?;
            self.to_send = &self.to_send[sent..];
        }
        // One chunk: the others' turn is next.
        let mut chunk = [0; CHUNK];
        let count = retried(|| stream.read(&mut chunk))?;
        if count == 0 {
            return Ok(());
        }
        if self.reply.len() + count > MOST_BYTES {
            return Err(io::Error::other(format!("it has more than {MOST_BYTES} bytes")));
        }
        self.reply.extend(&chunk[..count]);
        Err(ErrorKind::WouldBlock.into())
    }

    fn listing(self) -> (u32, Result<Vec<Listed>>) {
        let Question { process, path, stream, reply, end, .. } = self;
        let what = match stream {
            Some(_) => "the answer of the process",
            None => "asking the process",
        };
        let text = format!("it was not there within {} s", PATIENCE.as_secs());
        let late = || Err(io::Error::new(ErrorKind::TimedOut, text));
        match end.unwrap_or_else(late) {
            Ok(()) => (process, parse(process, &reply)),
            Err(source) => (process, Err(Error::Socket { what, path, source })),
        }
    }
}

fn retried(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Goes on with whichever can, until all have ended or time is over.
fn talk(all: &mut [Question<'_>], until: Instant) {
    let mut room = ALL_BYTES;
    for asked in &mut *all {
        room = room.saturating_sub(asked.go_on());
    }
    while all.iter().any(|asked| asked.end.is_none()) {
        let now = Instant::now();
        if now >= until {
            return;
        }
        let unconnected = all.iter().any(|asked| asked.end.is_none() && asked.stream.is_none());
        let left = if unconnected { RETRY.min(until - now) } else { until - now };
        let ready = ready(all, left);
        for (asked, is_ready) in all.iter_mut().zip(ready) {
            if is_ready {
                room = room.saturating_sub(asked.go_on());
            }
            if room == 0 && asked.end.is_none() {
                let text = format!("all answers together have more than {ALL_BYTES} bytes");
                asked.end = Some(Err(io::Error::other(text)));
            }
        }
    }
}

/// Questions that can go on, after `left` at most.
fn ready(all: &[Question<'_>], left: Duration) -> Vec<bool> {
    let awaited = all.iter().filter_map(Question::awaits);
    let mut polled: Vec<PollFd<'_>> =
        awaited.map(|(stream, wanted)| PollFd::new(stream, wanted)).collect();
    let left = Timespec::try_from(left).ok();
    // Interrupted, or out of memory: each is tried, and waits for nothing.
    let failed = !matches!(poll(&mut polled, left.as_ref()), Ok(_) | Err(Errno::INTR));
    let mut polled = polled.iter();
    let is_ready = |asked: &Question<'_>| match asked.awaits() {
        Some(_) => failed || polled.next().is_some_and(|fd| !fd.revents().is_empty()),
        None => asked.end.is_none(),
    };
    all.iter().map(is_ready).collect()
}
