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
//! results into the line's words. A shadow thread has a lane of one line; a desk
//! (`kumiki_resource::desk`) has one for each of its callers. A line whose other side is in another process or
//! kernel has bytes, and protocol and checks of its own: [`far`].
//!
//! ```
//! use kumiki_slot::{Event, Lane, job};
//!
//! let lane = Lane::<1>::new();
//! std::thread::scope(|threads| {
//!     let n = Lane::<1>::FIRST;
//!     // SAFETY: nothing is submitted yet, so the line is the requester's.
//!     unsafe { job::pack(lane.request(n), || 6 * 7) };
//!     lane.submit(n);
//!     let lane = &lane;
//!     threads.spawn(move || {
//!         while lane.pending(n) != Some(Event::Request(n)) {}
//!         assert!(lane.begin(n));
//!         // SAFETY: begun, so it is the server's until `complete`.
//!         lane.complete(n, unsafe { job::execute(lane.request(n)) });
//!     });
//!     let success = loop {
//!         if let Some(success) = lane.done(n) {
//!             break success;
//!         }
//!     };
//!     // SAFETY: complete, and taken once.
//!     let result: std::thread::Result<i32> = unsafe { job::unpack(lane.request(n), success) };
//!     assert_eq!(result.unwrap(), 42);
//! });
//! ```

pub mod far;
pub mod job;
mod lane;
mod line;
mod primitive;

pub use lane::{Event, Lane};
pub use line::{Request, Run, WORDS, Words};
