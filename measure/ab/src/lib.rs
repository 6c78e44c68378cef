//! Is B slower than A? Two commands run in interleaved pairs until a verdict stands.
//!
//! ```text
//!  pair 1   A B    each run: wall and processor time, instructions, memory, faults, switches,
//!  pair 2   B A              and how much of the machine others used meanwhile
//!  pair 3   A B    ln(B ÷ A) of each pair ──▶ an interval for each measure that may be looked at
//!  …                                          after each pair ──▶ verdict, or go on
//! ```
//!
//! Whatever moves the machine for longer than a pair takes moves both sides of it, and which
//! of the two runs first is drawn: so if there is no difference, the sign of each pair's
//! difference is a fair coin, whoever else uses the machine. The interval
//! ([`sequence`]) rests on that alone, and may be looked at as often as one likes.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use kumiki_ab::{Plan, Side, trial};
//!
//! let side = |seconds: &str| Side::new(["sleep", seconds]);
//! let plan = Plan::new(side("0.05"), side("0.051"));
//! let outcome = trial::run(plan, &AtomicBool::new(false), |_| ())?;
//! println!("{}", outcome.verdict.word());
//! # Ok::<(), kumiki_ab::Error>(())
//! ```
//!
//! How it was chosen and what others do: `docs/design/measure.md`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod against;
mod cause;
pub mod certify;
#[cfg(feature = "command")]
pub mod command;
mod counters;
mod error;
mod estimate;
mod finding;
mod judge;
mod leaves;
mod measure;
mod note;
mod outcome;
mod outlived;
mod plan;
mod process;
pub mod read;
pub mod sequence;
mod side;
pub mod told;
pub mod trial;
mod usage;
mod verdict;

pub use against::Against;
pub use cause::{Cause, Counted};
pub use counters::Counts;
pub use error::{Error, Result};
pub use estimate::Figures;
pub use finding::Finding;
pub use leaves::Leaves;
pub use measure::Measure;
pub use note::Note;
pub use outcome::{Outcome, SCHEMA};
pub use plan::Plan;
pub use process::{End, Sample};
pub use side::Side;
pub use verdict::{Clear, Verdict};
