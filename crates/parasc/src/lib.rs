//! Any system call in parallel, on a stock kernel.

pub mod op;
mod request;

pub use op::Operation;
pub use request::{Place, Request};
