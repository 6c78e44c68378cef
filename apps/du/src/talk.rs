//! What is said on stderr: faults, and how far the walk is.

use std::cell::Cell;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use rustix::io::Errno;

use crate::quote::in_shell;

/// A walk that takes less time has nothing to tell.
const PATIENCE: Duration = Duration::from_millis(500);

/// Beginning of the program's messages: the name it was called by.
pub(crate) fn name() -> &'static [u8] {
    static NAME: LazyLock<Vec<u8>> = LazyLock::new(|| {
        std::env::args_os().next().map_or_else(|| b"kumiki-du".to_vec(), OsStringExt::into_vec)
    });
    &NAME
}

/// Message that an operation on `path` failed, with the reason where it is known.
pub(crate) fn cannot(verb: &str, path: &[u8], error: Option<Errno>) -> Vec<u8> {
    let why = error.map_or_else(String::new, |error| format!(": {}", reason(&error.into())));
    [b"cannot ", verb.as_bytes(), b" ", &in_shell(path), why.as_bytes()].concat()
}

/// The voice of one run.
#[derive(Debug)]
pub(crate) struct Talk {
    bar: ProgressBar,
    started: std::time::Instant,
    entries: Cell<u64>,
    bytes: Cell<u64>,
    faulty: Cell<bool>,
    /// True if progress stands on the terminal or has stood there.
    shown: Cell<bool>,
}

impl Talk {
    /// Shows how far it is if stderr is a terminal.
    pub(crate) fn new() -> Self {
        // Draws to stderr, and nothing where that is no terminal.
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Talk {
            bar,
            started: std::time::Instant::now(),
            entries: Cell::new(0),
            bytes: Cell::new(0),
            faulty: Cell::new(false),
            shown: Cell::new(false),
        }
    }

    /// Says what is wrong; the walk goes on.
    pub(crate) fn fault(&self, text: &[u8]) {
        self.faulty.set(true);
        self.aside(|| say(text));
    }

    /// True if anything has failed.
    pub(crate) fn faulty(&self) -> bool {
        self.faulty.get()
    }

    /// Another entry has been counted.
    #[inline]
    pub(crate) fn count(&self, bytes: u64) {
        self.entries.set(self.entries.get() + 1);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// Shows how far it is; cheap enough for once a batch.
    pub(crate) fn progress(&self) {
        if !self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            let (entries, bytes) = (HumanCount(self.entries.get()), HumanBytes(self.bytes.get()));
            self.bar.set_message(format!("{entries} entries, {bytes}"));
            self.bar.tick();
            self.shown.set(true);
        }
    }

    /// Lets something else be written to the terminal.
    pub(crate) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        // A bar that has shown nothing would draw itself afterwards.
        if self.shown.get() { self.bar.suspend(write) } else { write() }
    }
}

/// An error in du's words: without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.find(" (os error").unwrap_or(text.len()));
    text
}

/// Writes a line to stderr, behind the program's name.
pub(crate) fn say(text: impl AsRef<[u8]>) {
    tell(&[name(), b": ", text.as_ref(), b"\n"].concat());
}

/// Writes to stderr, if somebody listens there.
pub(crate) fn tell(text: &[u8]) {
    let _ = io::stderr().write_all(text);
}

impl Drop for Talk {
    fn drop(&mut self) {
        if self.shown.get() {
            self.bar.finish_and_clear();
        }
    }
}
