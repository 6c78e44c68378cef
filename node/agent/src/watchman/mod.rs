//! A node that outlives its host, and says what was.
//!
//! ```text
//!   host                                     node that watches
//!   osnode-watch.ko: beats of each cpu,      looks ten times a second, where the page is
//!     and the panic's text, in a page of
//!     the host's own            <----------- /dev/mem
//!   kumiki: where memory is, which
//!     nodes there are, in that page          dead: says so, lists nodes, writes a vmcore
//! ```
//!
//! The host is asked nothing once it is dead: all that is needed was told before, and the rest
//! stands in its memory. See `docs/design/node-watchman.md`.

mod core_file;
mod dump;
mod free;
mod keep;
mod nodes;
mod order;
mod physical;
mod signs;
mod tables;
mod told;
mod vmcoreinfo;
mod voice;

pub(crate) use keep::keep;
pub use nodes::{Seen, seen_here};
pub use order::Order;
pub(crate) use order::{accept, is_ordered};
pub use told::{can_be, tell};
