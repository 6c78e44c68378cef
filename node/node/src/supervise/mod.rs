//! Nodes that are to stay up: each is looked at, and started again when it has ended or does
//! not answer, after a pause that grows.
//!
//! ```text
//!   ends, or is not healthy --stop--> pause: 1 s, 2 s, 4 s, … 60 s --start--> ready
//!        ^                                                                       |
//!        +--------- healthy for 60 s: the next pause is 1 s again <--------------+
//! ```

mod backoff;
mod metrics;
mod supervisor;

pub use supervisor::supervise;
