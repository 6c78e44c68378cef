//! Keys and their values in memory that is bounded to the byte.

mod keys;
mod log;
mod scan;
mod slots;
#[cfg(test)]
mod tests;
mod watch;

pub use keys::{Found, Hash, Keys};
pub use log::Full;
pub use watch::Seen;
