//! Why a request has no answer.

use std::any::Any;
use std::fmt;

use super::LINES;

/// An error of a request.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server had ended or died before it began the request.
    #[error("the server has ended, and has not begun this request: ask another one, or start one")]
    Gone,
    /// The server died while it was at the request.
    #[error(
        "the server's thread died during this request, which may or may not have had its effect: \
         look before asking again"
    )]
    Died,
    /// The server caught a panic in the request; it serves on.
    #[error("the request panicked on the server, which serves on: {0}")]
    Panicked(Panic),
    /// The time limit was over.
    #[error("no answer in time: the request {}", if *.begun {
        "had begun, or it was not to be told; it has its effect, and its result is dropped"
    } else {
        "had not begun, and never will"
    })]
    TimedOut {
        /// True if it runs, or may.
        begun: bool,
    },
    /// All lines of this caller are in use.
    #[error(
        "{LINES} requests of this caller are under way or have answers that nobody has taken, \
         which is the limit: take an answer first, or use another caller"
    )]
    Full,
}

kumiki_sys::debug_is_display!(Error);

/// The payload of a request's panic, and its text.
pub struct Panic {
    text: String,
    payload: Box<dyn Any + Send>,
}

// SAFETY: by a shared reference only the text can be had.
unsafe impl Sync for Panic {}

impl Panic {
    /// Wraps a payload that [`catch_unwind`](std::panic::catch_unwind) has caught.
    pub fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Panic { text: text.unwrap_or("no text").to_owned(), payload }
    }

    /// Payload for [`resume_unwind`](std::panic::resume_unwind).
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Panic({:?})", self.text)
    }
}
