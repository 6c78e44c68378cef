//! The cache line that changes its owner.
//!
//! A call to another core and a fork to a helper are one thing: a thread writes a request
//! into a cache line, another one finds it there, serves it and answers in the same line.
//! The status word says whose the line is. It costs one round trip of the line between
//! the two cpus, and no system call. (A parallel system call has a line of its own, in
//! `kumiki-parasc`.)
//!
//! ```text
//!  requester               lane: one cache line a request         server
//!  pack, submit(n) ──────▶ REQUEST(n) · function · captures ────▶ pending, begin(n)
//!  own work                                                       execute
//!  done(n), unpack ◀────── SUCCESS(n) · function · result ◀────── complete(n)
//! ```
//!
//! [`Lane`] has the protocol, with its proof and its models; [`job`] packs closures and
//! results into the line's words. [`open`] makes a desk of it: one server for any number
//! of callers, whose answers are waited for or awaited, and which come whatever happens
//! to the server.
//!
//! ```
//! use kumiki_wait::{Policy, Waiter};
//!
//! let (door, server) = kumiki_slot::open();
//! let thread = std::thread::spawn(move || {
//!     let mut waiter = Waiter::new(&Policy::default()).unwrap();
//!     server.serve(&mut waiter);
//! });
//! let mut caller = door.caller(Waiter::new(&Policy::default())?);
//!
//! let numbers = [1, 2, 3];
//! assert_eq!(caller.call(|| numbers.iter().sum::<u32>()).unwrap(), 6);
//! let answers: Vec<_> = (0..10).map(|i| caller.submit(move || i * i).unwrap()).collect();
//! let squares: Result<Vec<u32>, _> = answers.into_iter().map(|a| caller.join(a)).collect();
//! assert_eq!(squares.unwrap()[9], 81);
//!
//! door.close();
//! thread.join().unwrap();
//! assert!(matches!(caller.call(|| 1), Err(kumiki_slot::Error::Gone)));
//! # Ok::<(), kumiki_wait::Error>(())
//! ```

mod answer;
mod caller;
mod desk;
mod door;
mod error;
mod fate;
mod first_look;
pub mod job;
mod lane;
mod life;
mod line;
mod primitive;
mod server;

pub use answer::Answer;
pub use caller::Caller;
pub use door::{Door, open};
pub use error::{Error, Panic};
pub use lane::{Event, LINES, Lane};
pub use life::{Held, Life};
pub use line::{Request, Run, WORDS, Words};
pub use server::{Server, Serving};
