//! Kumiki's parts beside their peers: subjects, each in a process of its own, that take turns in one
//! interleaved run.
//!
//! ```text
//!  run: Plan, phases, rows    subject: a process as its parent sees it    child: the process itself
//!  against: ours of another commit     raw: a cache line's round trip     busy: others on the cpus
//!  shadow: fork and join, loops, copies        parasc: many system calls, walks of trees
//! ```

use kumiki_measure::stopwatch;

#[doc(hidden)]
pub mod against;
#[doc(hidden)]
pub mod busy;
#[doc(hidden)]
pub mod case;
#[doc(hidden)]
pub mod child;
#[doc(hidden)]
pub mod pair;
#[doc(hidden)]
pub mod parasc;
#[doc(hidden)]
pub mod raw;
#[doc(hidden)]
pub mod run;
#[doc(hidden)]
pub mod shadow;
#[doc(hidden)]
pub mod subject;
