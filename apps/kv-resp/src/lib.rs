//! RESP, the protocol of Redis, as far as a server reads and writes it: versions 2 and 3.
//!
//! ```text
//!  bytes of a client ──▶ Reader ──▶ Command, Words ──▶ (the server) ──▶ Out ──▶ bytes to it
//!                          │ Limits
//!                          ╰──▶ Wrong: an answer, and the connection's end
//! ```
#![forbid(unsafe_code)]

mod answer;
mod number;
mod quotes;
mod reader;
mod words;

pub use answer::Out;
pub use number::{MOST_DIGITS, digits, number};
pub use reader::{Limits, Reader, Wrong};
pub use words::{Command, Words};
