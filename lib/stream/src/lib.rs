//! Streams between two programs that share bytes or memory, and programs run through them.
//!
//! A [`Link`] carries whole frames of one stream. There are three: one of many over a byte stream
//! ([`Mux`]), the two ends of one within a process ([`pair()`]), and a channel in memory that two kernels share
//! (`kumiki-node-wire`). A [`Stream`] is what a link and credit make: whoever is slow holds up who sends
//! to him, and nobody else. [`exec`] runs a program at one end as if it ran at the other.
//!
//! ```text
//!   exec::Client ─ Stream ─ Link ═ frames ═ Link ─ Stream ─ exec::Running ─ a program
//! ```
//!
//! ```
//! use std::process::Command;
//! use std::thread;
//!
//! use kumiki_stream::exec::{Beside, Client, Ending, Outcome, Running};
//! use kumiki_stream::{Kind, Stream, pair};
//!
//! let (near, far) = pair(64 << 10)?;
//! let server = thread::spawn(move || {
//!     let mut stream = Stream::new(far);
//!     let running = Running::start(Command::new("sh").args(["-c", "echo hello; exit 3"]), None);
//!     let ending = running.unwrap().attend(&mut stream).unwrap().unwrap();
//!     stream.send(Kind::Close, &ending).unwrap();
//! });
//! let (mut out, mut err) = (Vec::new(), Vec::new());
//! let mut client = Client { input: None, out: &mut out, err: &mut err, orders: None };
//! let outcome = client.attend(&mut Stream::new(near), &mut Beside::default())?;
//! server.join().unwrap();
//! assert_eq!(outcome, Outcome::Ended(Ending::Exited(3)));
//! assert_eq!(out, b"hello\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_debug_implementations)]

mod error;
pub mod exec;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fixtures;
pub mod frame;
mod link;
mod mailbox;
mod mux;
mod pair;
mod stream;

pub use error::{Error, Result};
pub use frame::Kind;
pub use link::{Link, Other};
pub use mux::{Incoming, MOST_STREAMS, Mux, MuxHandle, MuxLink, Side, relay};
pub use pair::{Paired, pair};
pub use stream::{FRAME_COST, Message, Stream};
