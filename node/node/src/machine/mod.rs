//! A whole machine by one file: images and nodes that are to be there.
//!
//! ```text
//!   FILE --parse--> Machine --plan--> steps --carry_out--> the machine
//!                      ^        ^                |
//!     what no machine could    what is free,     a step fails: those before
//!     give is refused here     what is there     it are undone, last first
//! ```
//!
//! Nothing is touched before all steps are known, and what exists is left as it
//! is: a file that asks for something else under the same name is refused, or on demand its
//! nodes are replaced one after the other.

mod apply;
mod change;
mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fixtures;
mod plan;
mod rollout;
mod situation;

pub use apply::Apply;
pub use change::Changes;
pub use file::{ImageWanted, Machine, NodeWanted};
pub use plan::Step;
pub use rollout::{Rollout, RolloutState};
pub use situation::{Blocks, Free};
