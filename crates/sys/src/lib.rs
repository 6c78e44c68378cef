//! x.
pub mod affinity;
pub mod clock;
pub mod cpu;
pub mod cpuset;
pub mod error;
pub mod syscall;
pub mod topology;
pub use error::{Error, Result};
