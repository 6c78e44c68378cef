//! Programs that run at the other end of a stream as if they ran here.
//!
//! ```text
//!            Client                               Running
//!      │ Open: a Program, in what else is asked ──►  │
//!      │ Input, End, Signal, Resize ──────────────►  │
//!      │ ◄──────────────────────── Output, Errors    │
//!      │ ◄───────────────────────► Credit            │
//!      │ ◄───────────────────────── Close: Ending    │
//! ```
//!
//! A client that is gone, or closes the stream, ends the program and all of its process group.

mod client;
mod ends;
mod running;

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::frame::{Kind, decode};

pub use crate::stream::Size;
pub use client::{Beside, Client, Order, Orders, Outcome, Show};
pub use running::{Running, Started};

/// Bytes of a reason, at most.
const REASON_BYTES: usize = 8 << 10;

/// A program to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name and its arguments.
    pub words: Vec<OsString>,
    /// Variables beside those that every program there has.
    pub environment: Vec<(OsString, OsString)>,
    /// Folder to run in; if none is given, that of whoever runs it.
    pub folder: Option<OsString>,
    /// A terminal of this size instead of pipes.
    pub terminal: Option<Size>,
}

/// End of a program, or of anything else that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Exit by itself, with this status.
    Exited(u8),
    /// End by this signal.
    Signalled(u8),
    /// Nothing was done, or begun.
    Refused(Refusal),
}

/// Reason for which something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Status that a shell gives: 127 for a program that is not there, 126 for one that cannot be run.
    pub status: u8,
    /// Thing that failed, and why.
    pub reason: String,
}

impl Refusal {
    /// Refusal of a program that could not be started.
    pub fn of(error: &std::io::Error, reason: String) -> Self {
        let status = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        Refusal { status, reason }
    }
}

impl Ending {
    /// Its form as the body of a closing frame.
    pub fn refused(status: u8, reason: impl Into<String>) -> Self {
        let mut reason: String = reason.into();
        let end =
            (0..=reason.len().min(REASON_BYTES)).rev().find(|at| reason.is_char_boundary(*at));
        reason.truncate(end.unwrap_or(0));
        Ending::Refused(Refusal { status, reason })
    }

    /// Reads the body of a closing frame.
    ///
    /// # Errors
    /// It says nothing of this kind.
    pub fn of_body(body: &[u8]) -> Result<Self> {
        match body {
            // Closed without an answer.
            [] => Err(Error::Gone),
            body => decode(Kind::Close, body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::encode;

    #[test]
    fn an_ending_fits_into_its_frame_whatever_the_reason() {
        for text in ["é".repeat(20_000), "x".repeat(9), String::new()] {
            let ending = Ending::refused(126, text.clone());
            let body = encode(&ending).unwrap();
            assert!(body.len() <= Kind::Close.most_bytes());
            assert_eq!(Ending::of_body(&body).unwrap(), ending);
            let Ending::Refused(Refusal { reason, .. }) = ending else { unreachable!() };
            assert!(text.starts_with(&reason) && (text.len() > REASON_BYTES || text == reason));
        }
        assert!(matches!(Ending::of_body(b""), Err(Error::Gone)));
        assert!(Ending::of_body(&[9]).is_err());
    }
}
