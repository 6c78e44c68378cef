//! Any system call in parallel, on a stock kernel.

mod allow;
mod area;
pub mod backend;
mod callset;
mod claim;
mod config;
mod core;
mod cost;
mod engine;
mod error;
mod execute;
mod finished;
#[cfg(any(test, fuzzing))]
mod garbage;
mod kind;
mod lane;
#[cfg(all(test, loom))]
mod loom;
pub mod op;
mod open;
mod pending;
mod primitive;
mod refusal;
mod request;
mod requester;
mod side;
mod slot;
mod threads;
mod ticket;
#[cfg(all(test, not(loom)))]
mod uapi;

pub use allow::{AllowError, AllowList};
pub use backend::Backend;
pub use config::Config;
pub use engine::Engine;
pub use error::{Error, Result};
#[cfg(fuzzing)]
pub use garbage::serve_garbage;
pub use kind::{Contends, Kind, default_place, kind, may_sleep};
pub use op::Operation;
pub use pending::{Completed, Failed, Outcome, Pending};
pub use refusal::{Refusal, RefusalKind, refusal, refusal_of, refusals};
pub use request::{Place, Request};
pub use requester::Requester;
pub use ticket::Ticket;
