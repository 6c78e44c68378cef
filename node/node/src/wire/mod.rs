//! The wire between a node and who started it: a window of memory that both kernels see,
//! with words, time stamps, the log, and channels of frames; and streams by vsock.
//!
//! ```text
//!   window ── ring ── frame        words and stamps: window, stages
//!   early: log from before the node's module    silence: the error made of both
//! ```

pub(crate) mod asleep;
pub(crate) mod early;
pub(crate) mod frame;
pub(crate) mod ring;
pub(crate) mod silence;
pub(crate) mod stages;
pub mod vsock;
pub(crate) mod window;

/// Path of the agent in a node.
pub(crate) const AGENT: &str = "/bin/kumiki";

/// The time stamp counter, which all cpus of the machine share.
pub(crate) fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and no system of ours
    // keeps it from user space.
    unsafe { std::arch::x86_64::_rdtsc() }
}
