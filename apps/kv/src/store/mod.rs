//! Keys and their values in memory that is bounded to the byte.

mod followed;
mod keys;
mod log;
mod prefixes;
mod scan;
mod slots;
#[cfg(test)]
mod tests;
mod told;
mod watch;

pub use keys::{Found, Hash, Keys};
pub use log::Full;
pub use told::{How, Invalidation, redirection_is_broken};
pub use watch::Seen;
