//! Why a request has no answer.

use std::any::Any;
use std::fmt;

use crate::desk::LINES;

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
    #[error("the request panicked on the server, which serves on: {}", text(.0.as_ref()))]
    Panicked(Box<dyn Any + Send>),
    /// All lines of this caller are in use.
    #[error(
        "{LINES} requests of this caller are under way or have answers that nobody has taken, \
         which is the limit: take an answer first, or use another caller"
    )]
    Full,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What somebody panicked with, if it is text.
fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
