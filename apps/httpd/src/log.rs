//! The access log: lines of the combined format, written by a thread of their own, since a
//! write to a file may sleep.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use crate::date;
use crate::say::say;

/// Parts that may wait for the disk; what comes then is left out and counted, as a server that
/// waited for its log would be as slow as the log's disk.
const WAITING: usize = 256;
/// Bytes of a worker's lines before they are handed over.
const PART: usize = 32 * 1024;

enum Message {
    Lines(Vec<u8>),
    Reopen,
}

/// A log, and the thread that writes it.
#[derive(Debug)]
pub(crate) struct Log {
    sender: SyncSender<Message>,
    left_out: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

impl Log {
    /// A log at this path, to which it appends; `-` is the standard output.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = open(path)?;
        let (sender, receiver) = sync_channel(WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let (theirs, path) = (Arc::clone(&left_out), path.to_owned());
        let write = move || write(receiver, file, &path, &theirs);
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(write);
        let thread = Some(thread.context("starting the thread that writes the log")?);
        Ok(Log { sender, left_out, thread })
    }

    /// Has the file opened anew, after it was renamed.
    pub(crate) fn reopen(&self) {
        // One that waits already does, too.
        let _ = self.sender.try_send(Message::Reopen);
    }

    /// A worker's part of it.
    pub(crate) fn lines(&self) -> Lines {
        let (sender, left_out) = (self.sender.clone(), Arc::clone(&self.left_out));
        Lines {
            sender,
            left_out,
            lines: Vec::new(),
            count: 0,
            second: i64::MIN,
            time: String::new(),
        }
    }

    /// Waits until all is written. All workers' parts are gone before.
    pub(crate) fn end(self) {
        let Log { sender, thread, .. } = self;
        drop(sender);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

enum Output {
    Standard,
    File(File),
}

fn open(path: &Path) -> Result<Output> {
    if path == Path::new("-") {
        return Ok(Output::Standard);
    }
    let file = OpenOptions::new().append(true).create(true).open(path);
    Ok(Output::File(file.with_context(|| format!("opening the log {}", path.display()))?))
}

fn write(receiver: Receiver<Message>, mut output: Output, path: &Path, left_out: &AtomicU64) {
    let mut complained = false;
    for message in receiver {
        let written = match (message, &mut output) {
            (Message::Reopen, _) => {
                open(path).map(|anew| output = anew).map_err(|error| format!("{error:#}"))
            }
            (Message::Lines(lines), Output::Standard) => {
                io::stdout().write_all(&lines).map_err(|error| error.to_string())
            }
            (Message::Lines(lines), Output::File(file)) => {
                file.write_all(&lines).map_err(|error| error.to_string())
            }
        };
        let lost = left_out.swap(0, Relaxed);
        if lost > 0 {
            say(format_args!("{lost} lines of the log were left out: its disk is too slow"));
        }
        match written {
            Err(error) if !complained => {
                say(format_args!("writing the log {}: {error}", path.display()));
                complained = true;
            }
            Ok(()) => complained = false,
            Err(_) => (),
        }
    }
}

/// A request for its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) peer: Option<IpAddr>,
    /// `GET /target HTTP/1.1`, or what came in place of it.
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) minor: u8,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) agent: Option<&'a [u8]>,
}

/// Lines of one worker, handed over in large parts.
#[derive(Debug)]
pub(crate) struct Lines {
    sender: SyncSender<Message>,
    left_out: Arc<AtomicU64>,
    lines: Vec<u8>,
    count: u64,
    second: i64,
    time: String,
}

impl Lines {
    pub(crate) fn add(&mut self, entry: &Entry<'_>) {
        self.tell_time();
        let mut line = String::with_capacity(160);
        match entry.peer {
            Some(peer) => _ = write!(line, "{peer}"),
            None => line.push('-'),
        }
        let _ = write!(line, " - - [{}] \"{} ", self.time, entry.method);
        quote(&mut line, entry.target.as_bytes());
        let Entry { minor, status, bytes, .. } = entry;
        let _ = write!(line, " HTTP/1.{minor}\" {status} {bytes} \"");
        quote(&mut line, entry.referer.unwrap_or(b"-"));
        line.push_str("\" \"");
        quote(&mut line, entry.agent.unwrap_or(b"-"));
        line.push_str("\"\n");
        self.lines.extend_from_slice(line.as_bytes());
        self.count += 1;
        if self.lines.len() >= PART {
            self.hand_over();
        }
    }

    /// Hands over what there is.
    pub(crate) fn hand_over(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let (lines, count) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.count));
        if let Err(TrySendError::Full(_)) = self.sender.try_send(Message::Lines(lines)) {
            self.left_out.fetch_add(count, Relaxed);
        }
    }

    /// In UTC, which needs no file of time zones; a new text each second.
    fn tell_time(&mut self) {
        let second = date::now();
        if second != self.second {
            self.second = second;
            // "Sun, 06 Nov 1994 08:49:37 GMT" has all that "06/Nov/1994:08:49:37 +0000" needs.
            let date = date::http_date(second);
            let mut words = date.split(' ').skip(1);
            let mut word = || words.next().unwrap_or("-");
            self.time = format!("{}/{}/{}:{} +0000", word(), word(), word(), word());
        }
    }
}

/// Quotes what a client has sent, so that it cannot make a line of its own, nor move a terminal.
fn quote(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => _ = write!(line, "\\x{byte:02X}"),
            _ => line.push(char::from(*byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_whole_and_cannot_be_forged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = Log::open(&path).unwrap();
        let mut lines = log.lines();
        let entry = Entry {
            peer: Some([127, 0, 0, 1].into()),
            method: "GET",
            target: "/a\"b",
            minor: 1,
            status: 200,
            bytes: 77,
            referer: None,
            agent: Some(b"x\n127.0.0.1 - -\x1b[31m\xff"),
        };
        (0..1000).for_each(|_| lines.add(&entry));
        lines.hand_over();
        drop(lines);
        log.end();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1000);
        let line = text.lines().next().unwrap();
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        let end =
            "+0000] \"GET /a\\x22b HTTP/1.1\" 200 77 \"-\" \"x\\x0A127.0.0.1 - -\\x1B[31m\\xFF\"";
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn a_log_is_opened_anew_after_it_was_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = Log::open(&path).unwrap();
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        log.reopen();
        log.end();
        assert!(path.exists());
        assert!(Log::open(&folder.path().join("no/such")).is_err());
    }
}
