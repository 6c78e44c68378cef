//! Copying memory with two threads.
//!
//! One core cannot fill the memory bus: it waits for the few cache lines that
//! it may have under way at a time. A helper on another core brings its own.
//!
//! ```text
//!            Prefetch                Block(b)                 Split, Auto
//!  main    ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓    ▓▓  ▓▓  ▓▓  ▓▓  ▓▓        ▓▓▓▓▓▓▓▓
//!  helper  ░░░░░░░░░░░░░░░░      ▓▓  ▓▓  ▓▓  ▓▓  ▓▓              ▓▓▓▓▓▓▓▓
//!          touches, ahead      every second block           the other half
//! ```
//!
//! The methods are those of Hori et al., "A Ultra-light Thread Library Using
//! Hardware Synchronization" (Fig. 9–12), and [`Method::Auto`] and [`Method::Cold`].
//!
//! ```
//! use kumiki_shadow::Shadow;
//! use kumiki_copy::{Method, copy};
//!
//! let mut shadow = Shadow::create_or_inline()?;
//! let from = vec![7_u8; 1 << 20];
//! let mut to = vec![0_u8; 1 << 20];
//! copy(&mut shadow, &mut to, &from, Method::Auto)?;
//! assert_eq!(to, from);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod auto;
mod cold;
mod costs;
mod divide;
mod error;
mod known;
mod line;
mod measuring;
mod method;
#[cfg(test)]
mod one_thread;
mod pair;
mod prefetch;
mod primitive;
mod probe;
mod region;
mod share;
#[cfg(sim)]
#[doc(hidden)]
pub mod simulated;
mod timed;

pub use divide::{copy, copy_raw, prepare, stream};
pub use error::{Error, Result};
pub use method::Method;
pub use pair::Pair;
pub use timed::{copy_raw_timeout, copy_timeout, prepare_timeout};
