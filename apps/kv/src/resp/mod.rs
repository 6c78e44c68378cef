//! RESP, the protocol of Redis, as far as a server reads and writes it: versions 2 and 3.

mod answer;
mod number;
mod quotes;
mod reader;
mod words;

pub use answer::Out;
pub use number::{MOST_DIGITS, digits, number};
pub use reader::{Limits, Reader, Wrong};
pub use words::{Command, Words};
