//! Static files over HTTP/1.1 from few threads, which no cold file stops.
//!
//! ```text
//!  epoll ─▶ connection: head ─▶ candidates ─▶ attempt(open, attributes, first bytes)
//!                                               │ in memory: answered at once, by this thread
//!                                               └ else: handed over; the others go on
//!  eventfd of the engine ◀── ended ── a thread that may sleep
//! ```
//!
//! Each worker is one thread with an epoll of its own, and never sleeps in a call on a file:
//! those are tried first, and handed over where they would sleep ([`kumiki_parasc::tries`]).
//! Nothing outside of the folder is reached: the kernel resolves each path beneath it
//! (`RESOLVE_BENEATH`).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod accept;
mod answer;
pub mod args;
mod authority;
mod beneath;
mod conditions;
mod connection;
mod counts;
mod date;
mod described;
mod devices;
#[cfg(test)]
mod dying;
mod encoding;
mod failure;
#[cfg(test)]
mod fixtures;
mod held;
mod kept;
mod line;
mod listing;
mod log;
mod metrics;
mod moved;
mod pages;
mod range;
pub mod request;
mod response;
mod say;
mod second;
mod serve;
mod site;
pub mod target;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod work;
mod worker;

pub use serve::run;
