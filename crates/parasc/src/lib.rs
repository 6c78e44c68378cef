//! Any system call in parallel, on a stock kernel.

mod allow;
mod callset;
mod kind;
pub mod op;
mod refusal;
mod request;

pub use allow::{AllowError, AllowList};
pub use kind::{Contends, Kind, default_place, kind, may_sleep};
pub use op::Operation;
pub use refusal::{Refusal, RefusalKind, refusal, refusal_of, refusals};
pub use request::{Place, Request};
