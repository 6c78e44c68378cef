//! The access log: lines of the combined format, written by a thread of their own, since a
//! write to a file may sleep.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use kumiki_sys::sentence::with_causes;

use crate::date;
use crate::failure::Failure;
use crate::say::say;

/// Parts that may wait for the disk; what comes then is left out and counted, as a server that
/// waited for its log would be as slow as the log's disk.
const WAITING: usize = 256;
/// Bytes of a worker's lines before they are handed over.
const PART: usize = 32 * 1024;
/// Time that the end waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(2);

/// A log, which a thread writes.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    queue: Arc<Queue>,
}

/// Work of the thread that is due.
#[derive(Debug, Default)]
struct State {
    parts: VecDeque<Vec<u8>>,
    /// Lines that there was no room for, since that was said.
    left_out: u64,
    all_left_out: u64,
    reopens: bool,
    ends: bool,
    is_over: bool,
}

/// State that is waited for: all under one lock, so that nothing told is lost.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread's next step.
#[derive(Debug)]
enum Step {
    Write { lines: Vec<u8>, left_out: u64 },
    Reopen,
    End,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits for what is to be done. A file that was renamed is left before lines that wait are
    /// written.
    fn next(&self) -> Step {
        let mut state = self.state();
        loop {
            if std::mem::take(&mut state.reopens) {
                return Step::Reopen;
            }
            if let Some(lines) = state.parts.pop_front() {
                return Step::Write { lines, left_out: std::mem::take(&mut state.left_out) };
            }
            if state.ends {
                return Step::End;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The thread is gone, however it has ended.
struct Over<'a>(&'a Queue);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_over = true);
    }
}

impl Log {
    /// A log at this path, to which it appends; `-` is the standard output.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(path: &Path, failure: &Arc<Failure>) -> Result<Self> {
        let output = open(path)?;
        let (queue, path, failure) = (Arc::new(Queue::default()), path.to_owned(), failure.clone());
        let theirs = Arc::clone(&queue);
        let work = move || {
            let _over = Over(&theirs);
            failure.watch("the log", || {
                write(&theirs, output, &path);
                Ok(())
            });
        };
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(work);
        thread.context("starting the thread that writes the log")?;
        Ok(Log { queue })
    }

    /// Has the file opened anew, after it was renamed.
    pub(crate) fn reopen(&self) {
        self.queue.change(|state| state.reopens = true);
    }

    /// Lines that there was no room for.
    pub(crate) fn all_left_out(&self) -> u64 {
        self.queue.state().all_left_out
    }

    /// A worker's part of it.
    pub(crate) fn lines(&self) -> LogLines {
        let queue = Arc::clone(&self.queue);
        LogLines { queue, lines: Vec::new(), count: 0, second: i64::MIN, time: String::new() }
    }

    /// Waits until all is written, as long as its disk or its reader can be expected to take. All
    /// workers' parts have come before.
    pub(crate) fn end(self) {
        self.queue.change(|state| state.ends = true);
        let goes_on = |state: &mut State| !state.is_over;
        let waited = self.queue.changed.wait_timeout_while(self.queue.state(), PATIENCE, goes_on);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.is_over {
            say(format_args!(
                "the end of the log is lost: what reads it, or its disk, takes nothing \
                 ({} parts of {} KiB wait)",
                state.parts.len() + 1,
                PART / 1024
            ));
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

fn write(queue: &Queue, mut output: Output, path: &Path) {
    let mut complained = false;
    loop {
        let written = match (queue.next(), &mut output) {
            (Step::End, _) => return,
            (Step::Reopen, _) => {
                open(path).map(|anew| output = anew).map_err(|error| with_causes(error.as_ref()))
            }
            (Step::Write { lines, left_out }, output) => {
                if left_out > 0 {
                    say(format_args!(
                        "{left_out} lines of the log were left out: its disk is too slow"
                    ));
                }
                match output {
                    Output::Standard => io::stdout().write_all(&lines),
                    Output::File(file) => file.write_all(&lines),
                }
                .map_err(|error| error.to_string())
            }
        };
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
pub(crate) struct LogEntry<'a> {
    pub(crate) peer: Option<IpAddr>,
    /// The request's first line, as it came.
    pub(crate) line: &'a [u8],
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) agent: Option<&'a [u8]>,
}

/// Lines of one worker, handed over in large parts.
#[derive(Debug)]
pub(crate) struct LogLines {
    queue: Arc<Queue>,
    lines: Vec<u8>,
    count: u64,
    second: i64,
    time: String,
}

impl LogLines {
    pub(crate) fn add(&mut self, entry: &LogEntry<'_>) {
        self.tell_time();
        let mut line = String::with_capacity(160);
        match entry.peer {
            Some(peer) => _ = write!(line, "{peer}"),
            None => line.push('-'),
        }
        let _ = write!(line, " - - [{}] \"", self.time);
        quote(&mut line, if entry.line.is_empty() { b"-" } else { entry.line });
        let LogEntry { status, bytes, .. } = entry;
        let _ = write!(line, "\" {status} {bytes} \"");
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
        self.queue.change(|state| match state.parts.len() {
            0..WAITING => state.parts.push_back(lines),
            _ => {
                state.left_out = state.left_out.saturating_add(count);
                state.all_left_out = state.all_left_out.saturating_add(count);
            }
        });
    }

    /// Writes the time in UTC, which needs no file of time zones; a new text each second.
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
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn lines_are_written_whole_and_cannot_be_forged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = Log::open(&path, &Arc::default()).unwrap();
        let mut lines = log.lines();
        let entry = LogEntry {
            peer: Some([127, 0, 0, 1].into()),
            line: b"GET /a\"b HTTP/1.1",
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
        let log = Log::open(&path, &Arc::default()).unwrap();
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        log.reopen();
        log.end();
        assert!(path.exists());
        assert!(Log::open(&folder.path().join("no/such"), &Arc::default()).is_err());
    }

    /// Lines until the queue is full, whose reader takes none.
    fn fill(log: &Log) {
        let mut lines = log.lines();
        for _ in 0..WAITING + 20 {
            lines.lines.extend_from_slice(&[b'x'; PART]);
            lines.count = 1;
            lines.hand_over();
        }
        assert!(log.queue.state().parts.len() == WAITING && log.queue.state().left_out > 0);
    }

    #[test]
    fn a_log_whose_queue_is_full_is_opened_anew_and_one_that_nobody_reads_does_not_keep_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &path,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();
        // Both ends here, so that the open waits for nobody; nor does a read, as the last part may be
        // taken before the new file is there.
        let mut reader = File::options();
        reader
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let mut reader = reader.open(&path).unwrap();
        let log = Log::open(&path, &Arc::default()).unwrap();
        fill(&log);
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        log.reopen();
        // What is being written is read now, and all else goes to the new file.
        let mut room = vec![0; PART];
        while !path.exists() {
            match io::Read::read(&mut reader, &mut room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                read => assert!(read.unwrap() > 0),
            }
        }
        log.end();
        // Of the first ones a few were in the pipe.
        let written = std::fs::metadata(&path).unwrap().len();
        assert!(written >= ((WAITING - 5) * PART) as u64, "{written}");
        // One that is never read.
        let path = folder.path().join("stalled");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &path,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();
        let _reader = File::options().read(true).write(true).open(&path).unwrap();
        let log = Log::open(&path, &Arc::default()).unwrap();
        fill(&log);
        log.end();
    }
}
