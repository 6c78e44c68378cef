//! What the operating system costs, against the parameters that decide it.

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "kumiki-measure needs x86-64: it starts programs of its own in that processor's \
     code. For aarch64 kumiki-sys and kumiki-wait alone compile. (What else is \
     reported follows from this.)"
);

mod activity;
pub mod bench;
mod cache_line;
pub mod case;
pub mod cases;
mod check;
pub mod compare;
pub mod error;
pub mod file;
mod helper;
pub mod label;
pub mod machine;
pub mod meter;
pub mod moves;
mod neighbours;
pub mod others;
mod peak;
mod program;
pub mod round_trip;
pub mod sampler;
pub mod schema;
pub mod stats;
pub mod stopwatch;
#[cfg(feature = "store")]
pub mod store;
pub mod summary;
pub mod ways;

pub use error::{Error, Result};
