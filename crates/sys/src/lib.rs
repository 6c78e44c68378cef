//! x.
pub mod affinity;
pub mod clock;
pub mod cpu;
pub mod cpuset;
pub mod error;
pub mod futex;
pub mod shm;
pub mod syscall;
pub mod topology;
pub use error::{Error, Result};
