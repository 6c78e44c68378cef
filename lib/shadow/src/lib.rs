//! Shadow threads: fork a job to a helper thread on a neighbouring cpu and join it, in
//! one round trip of a cache line.
//!
//! Waking a thread takes tens of microseconds, too long for a job that takes one. A
//! *shadow thread* (Hori et al., "A Ultra-light Thread Library Using Hardware
//! Synchronization") waits all the time on the hardware thread beside its main thread: on
//! the same core where there is SMT, else on the core nearest by cache. A fork writes
//! captures and function into one cache line, a join reads the result from the same line.
//! A helper that is given nothing for a while sleeps, and uses no cpu time.
//!
//! ```text
//!  main thread (cpu a)        one cache line        helper (cpu b)
//!  fork ── captures, REQUEST ────────────────────▶ spins, dozes or sleeps
//!  own work                                        runs the closure
//!  join ◀──────────────────── result, SUCCESS ──── spins again
//! ```
//!
//! ```
//! use kumiki_shadow::Shadow;
//!
//! // On a single cpu, jobs run in this thread.
//! let mut shadow = Shadow::create_or_inline()?;
//! let numbers: Vec<u64> = (0..1000).collect();
//! let (left, right) = numbers.split_at(500);
//!
//! let (a, b) = shadow.both(|| left.iter().sum::<u64>(), || right.iter().sum::<u64>());
//! assert_eq!(a + b, 499_500);
//!
//! // Something else meanwhile: a helper thread in the proper sense.
//! let sum = shadow.scope(|scope| {
//!     let job = scope.fork(|| right.len());
//!     let ours = left.len();
//!     ours + job.join().unwrap()
//! });
//! assert_eq!(sum, 1000);
//! # Ok::<(), kumiki_shadow::Error>(())
//! ```

mod barrier;
mod builder;
mod channel;
mod choice;
mod cpus;
mod error;
mod helper;
mod party;
mod primitive;
mod scope;
mod shadow;
mod shares;
mod shown;
mod team;
mod timed;
mod unscoped;

pub use barrier::Barrier;
pub use builder::Builder;
pub use error::{Error, Result};
pub use kumiki_crew::Error as ThreadError;
pub use kumiki_sys::topology::Relation;
pub use kumiki_wait::{Error as WaitError, Policy, Relax, Sleep, Threshold};
pub use scope::{Job, Scope};
pub use shadow::{Info, Shadow};
pub use team::Team;
