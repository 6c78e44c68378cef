//! What the operating system costs, against the parameters that decide it.
//!
//! Two samples of a cost, and whether the second is larger by more than chance:
//!
//! ```
//! use kumiki_measure::stats::{describe, mann_whitney};
//!
//! // Nanoseconds of one call before and after a change.
//! let before = describe::sorted([86.0, 87.5, 86.2, 91.0, 86.9, 87.1, 86.4, 88.0]);
//! let after = describe::sorted([93.1, 95.0, 92.8, 97.4, 93.3, 94.9, 93.0, 99.2]);
//! assert!(describe::median(&before) < 88.0 && describe::median(&after) > 93.0);
//! assert!(mann_whitney::p_value(&before, &after) < 0.01);
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod activity;
pub mod bench;
pub mod cache_line;
pub mod case;
mod check;
pub mod compare;
pub mod error;
pub mod file;
pub mod format;
pub mod helper;
pub mod json;
pub mod label;
pub mod machine;
pub mod meter;
pub mod moves;
mod neighbours;
pub mod others;
mod peak;
pub mod round_trip;
pub mod sampler;
pub mod schema;
pub mod stats;
pub mod stopwatch;
#[cfg(feature = "store")]
pub mod store;
pub mod summary;

pub use error::{Error, Result};
