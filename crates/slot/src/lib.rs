//! The cache line that changes its owner.
//!
//! A call to another core, a fork to a helper, a parallel system call are one thing: a
//! thread writes a request into a cache line, another one finds it there, serves it and
//! answers in the same line. The status word says whose the line is. It costs one round
//! trip of the line between the two cpus, and no system call.
//!
//! ```text
//!  requester               lane: one cache line a request         server
//!  pack, submit(n) ──────▶ REQUEST(n) · function · captures ────▶ pending, begin(n)
//!  own work                                                       execute
//!  done(n), unpack ◀────── SUCCESS(n) · function · result ◀────── complete(n)
//! ```
//!
//! [`Lane`] has the protocol, with its proof and its models; [`job`] packs closures and
//! results into the line's words. Waiting, bells and threads are others' matter.

pub mod job;
mod lane;
mod line;
mod primitive;

pub use lane::{Event, Lane};
pub use line::{Request, Run, WORDS, Words};
