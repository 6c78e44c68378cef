//! What calls cost on one cpu and on all of them, beside what was predicted before a machine of that size was seen.
//!
//! A *curve* is the throughput of a call, or of what threads do together without the kernel, at 1, 2, 4, … cpus, each with a thread of its own, as a multiple of one thread's. A
//! *team* is fork, join and barrier of nothing by so many members. Both are measured in turns over the sizes: what
//! else goes on reaches all of them. A [`Record`] holds them with the machine's shape and nothing that says
//! whose machine it is.
#![forbid(unsafe_code)]

mod calls;
mod curve;
mod joint;
mod order;
mod prediction;
mod rate;
mod record;
mod teams;

pub use curve::{Curve, Point};
pub use prediction::{Predicted, predicted};
pub use record::{Lines, Machine, Record, record};
pub use teams::Team;

/// Cpus from which on a curve says something.
pub const LEAST: usize = 4;

/// Time to spend on measuring.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Time of one run of a call at one size.
    pub span: std::time::Duration,
    /// Runs of each size, in turns.
    pub rounds: usize,
}

impl Default for Effort {
    /// Some two minutes on 64 cpus.
    fn default() -> Self {
        Effort { span: std::time::Duration::from_millis(100), rounds: 7 }
    }
}

/// Says what is under way, in words.
pub type Say<'a> = &'a mut dyn FnMut(&str);
