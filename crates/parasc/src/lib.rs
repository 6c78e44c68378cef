//! Any system call in parallel, on a stock kernel.

mod callset;
pub mod op;
mod refusal;
mod request;

pub use op::Operation;
pub use refusal::{Refusal, RefusalKind, refusal, refusal_of, refusals};
pub use request::{Place, Request};
