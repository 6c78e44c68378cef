//! Keys and their values in memory that is bounded to the byte.

mod followed;
mod invalidations;
mod keys;
mod log;
mod prefixes;
mod scan;
mod slots;
#[cfg(test)]
mod tests;
mod watch;

pub use invalidations::{How, Invalidation, redirection_is_broken};
pub use keys::{Found, Hash, Keys};
pub use log::Full;
pub use watch::Seen;
