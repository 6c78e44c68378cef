//! What is known of each system call, and typed operations to make them.
//!
//! A system call is data here, a [`Request`]: number and arguments. A table says of each call what other such calls wait for, whether
//! it commonly sleeps, and why another thread must not make it. This crate starts no
//! thread: who makes calls for other threads (`kumiki-parasc`) builds on it.
//!
//! ```text
//!   op::Pread, op::Statx, …  ── request() ──►  Request ──►  kernel
//!        ▲                                       │            │
//!        └────────────── complete(ret_val) ◄─────┼────────────┘
//!                                                ▼
//!          kind: what it contends on, whether it sleeps
//!          refusal_of: why another thread must not make it
//!          AllowList, Rules: whether it may be made here
//! ```
//!
//! ```
//! use kumiki_calls::op::{Operation, Pread};
//! use kumiki_calls::{Contends, kind};
//!
//! let zero = std::fs::File::open("/dev/zero")?;
//! let mut read = Pread::new(&zero, 0, [1; 512]);
//! let sysnum = read.request().sysnum;
//! assert_eq!(kind(sysnum).contends, Contends::Descriptor(0));
//! assert_eq!(read.call(), Ok(512));
//! assert_eq!(read.filled(), [0; 512]);
//! # Ok::<(), std::io::Error>(())
//! ```

mod allow;
mod callset;
mod contends;
mod kind;
pub mod op;
mod reason;
mod refusal;
mod request;
mod rules;
mod table;

pub use allow::{AllowError, AllowList};
pub use callset::{CallSet, NUMBERS};
pub use contends::Contends;
pub use kind::{Kind, kind, may_sleep};
pub use op::Operation;
pub use reason::{Refusal, RefusalKind};
pub use refusal::{refusal, refusal_of, refusals};
pub use request::{Request, call};
pub use rules::{Denied, Rules};
