//! Programs that no library can stand in front of (linked statically, as most of Go's are): the kernel tells what they open
//! (fanotify(7)) to a process of ours, which opens it, too, and has the library in front.
//!
//! ```text
//!   the program ── open ──► kernel ── event ──► kumiki ahead --echo: opens the same ──► the library's hooks and threads
//! ```
//! Only openings are told, of folders and of files: what it does with attributes alone is not. CAP_SYS_ADMIN is
//! needed for it.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File, ReadDir};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use kumiki_sys::sentence::with_causes;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::CWD;

use crate::Verdict;

/// Word that it says when it sees all that is opened from then on.
const READY: &str = "ready";
/// Folders that stay open until the library's threads have opened them for themselves.
const FOLDERS: usize = 64;
/// Time without an opening after which none stays open.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// Parents that are looked at for one that belongs to the command, and processes that are remembered.
const ABOVE: usize = 32;
const PROCESSES: usize = 4096;
/// Time that its end is waited for: a request may be under way.
const END: Duration = Duration::from_secs(1);

/// The process that echoes, while the command runs.
#[derive(Debug)]
pub(super) struct Echo {
    child: Child,
    input: Option<ChildStdin>,
}

impl Echo {
    /// Starts it, with the library in front and its settings in `command`; fails with the reason where it may not look.
    pub(super) fn begin(mut command: Command, words: &[OsString]) -> Result<Self> {
        command.args(["ahead", "--echo", "--"]).args(words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting what watches it")?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("its output is a pipe")?;
        let echo = Echo { child, input };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("hearing from what watches it")?;
        match line.trim_end() {
            READY => Ok(echo),
            said => Err(anyhow!("{}", if said.is_empty() { "it ended" } else { said })),
        }
    }

    /// Tells it whose openings it is to echo: this process's, and its children's.
    pub(super) fn tell(&mut self, process: u32) -> Result<()> {
        let input = self.input.as_mut().context("it is told once it runs")?;
        writeln!(input, "{process}").context("telling what watches the command")
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < END {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The process that echoes: of what is opened in the file systems of the working folder and of these words, as far as
/// they are paths.
pub(super) fn run(words: &[OsString]) -> Result<Verdict> {
    let events = match watch(words) {
        Ok(events) => events,
        Err(error) => {
            println!("{}", with_causes(error.as_ref()));
            return Ok(Verdict::Exit(1));
        }
    };
    println!("{READY}");
    let mut line = String::new();
    let mut input = BufReader::new(std::io::stdin());
    input.read_line(&mut line).context("reading which process is watched")?;
    let mut family = Family::of(line.trim().parse().context("the number of a process")?);
    let mut folders = VecDeque::with_capacity(FOLDERS);
    let stdin = std::io::stdin();
    loop {
        let mut waits = [
            PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
        ];
        match poll(&mut waits, (!folders.is_empty()).then_some(&IDLE)) {
            // What is open keeps a file system mounted.
            Ok(0) => folders.clear(),
            Ok(_) => {}
            Err(_) => continue,
        }
        // Who has started it closes this end when the command has ended.
        if !waits[1].revents().is_empty() {
            return Ok(Verdict::Exit(0));
        }
        let Ok(read) = events.read_events() else { continue };
        for event in &read {
            let process = u32::try_from(event.pid()).unwrap_or(0);
            if let Some(open) = event.fd().filter(|_| family.has(process)) {
                echo(open, &mut folders);
            }
        }
    }
}

fn watch(words: &[OsString]) -> Result<Fanotify> {
    let flags = InitFlags::FAN_CLASS_NOTIF
        | InitFlags::FAN_CLOEXEC
        | InitFlags::FAN_NONBLOCK
        | InitFlags::FAN_UNLIMITED_QUEUE;
    let opened = EventFFlags::O_RDONLY
        | EventFFlags::O_LARGEFILE
        | EventFFlags::O_CLOEXEC
        | EventFFlags::O_NOATIME;
    let events = Fanotify::init(flags, opened)
        .context("what it opens may be watched only with CAP_SYS_ADMIN (fanotify_init)")?;
    let what = MaskFlags::FAN_OPEN | MaskFlags::FAN_ONDIR;
    let mark = |path: &Path| {
        let how = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
        events.mark(how, what, CWD, Some(path))
    };
    mark(Path::new(".")).context("watching the working folder's file system (fanotify_mark)")?;
    for word in words {
        // Most words are no paths.
        let _ = mark(Path::new(word));
    }
    Ok(events)
}

/// Opens what the program has opened, as the library is to see it.
fn echo(open: BorrowedFd<'_>, folders: &mut VecDeque<ReadDir>) {
    let path = format!("/proc/self/fd/{}", open.as_raw_fd());
    let Ok(found) = fs::metadata(&path) else { return };
    if found.is_dir() {
        if folders.len() == FOLDERS {
            folders.pop_front();
        }
        folders.extend(fs::read_dir(&path));
    } else if found.is_file() {
        let flags = rustix::fs::OFlags::NOATIME | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        drop(File::options().read(true).custom_flags(flags).open(&path));
    }
}

/// The command's processes.
struct Family {
    first: u32,
    known: HashMap<u32, bool>,
}

impl Family {
    fn of(first: u32) -> Self {
        Family { first, known: HashMap::new() }
    }

    /// True for the first one, its children, and theirs.
    fn has(&mut self, process: u32) -> bool {
        if let Some(is_known) = self.known.get(&process) {
            return *is_known;
        }
        let above = std::iter::successors(Some(process), |process| parent(*process)).take(ABOVE);
        let is_one = above.into_iter().any(|process| process == self.first);
        // Numbers are given again.
        if self.known.len() >= PROCESSES {
            self.known.clear();
        }
        self.known.insert(process, is_one);
        is_one
    }
}

/// The parent of a process, from /proc/PID/stat (proc(5)): the second word after the name in brackets.
fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_belongs_to_its_parent_and_a_stranger_does_not() {
        let own = std::process::id();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(Family::of(own).has(child.id()) && Family::of(own).has(own));
        assert!(!Family::of(child.id()).has(own));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
