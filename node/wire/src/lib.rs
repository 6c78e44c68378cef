//! What an OS node and its host share: a window of memory that both kernels see, with words,
//! time stamps, the log, and channels of frames; streams by vsock; the module that both ask.
//!
//! ```text
//!   window ── ring ── link, wish   words and stamps: window, stages
//!   early: log from before the node's module    silence: the error made of both
//!   module: the ABI of osnode.ko and osnode-guest.ko    memory: physical memory, mapped
//!   hotplug: memory that came while a node ran
//! ```

#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod asleep;
#[doc(hidden)]
pub mod brought;
#[doc(hidden)]
pub mod device;
#[doc(hidden)]
pub mod early;
mod error;
#[doc(hidden)]
pub mod hotplug;
mod json;
#[doc(hidden)]
pub mod link;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod module;
#[doc(hidden)]
pub mod ring;
#[doc(hidden)]
pub mod silence;
#[doc(hidden)]
pub mod stages;
mod subject;
#[doc(hidden)]
pub mod times;
pub mod vsock;
#[doc(hidden)]
pub mod window;
#[doc(hidden)]
pub mod wish;

pub use error::{Error, ErrorKind, Refusal, Result};
#[doc(hidden)]
pub use json::json;
pub use subject::Subject;

/// Path of the agent in a node.
pub const AGENT: &str = "/bin/kumiki";

/// The time stamp counter, which all cpus of the machine share.
pub fn time_stamp() -> u64 {
    kumiki_sys::ticks()
}
