//! Threads that serve.
//!
//! What serves requests of others is a thread with manners: bound to its cpu, so that it
//! is where its memory and its callers expect it; named, so that `top -H` tells what it
//! is; without the program's signals; there when the call that starts it returns.
//!
//! ```text
//!  start    a thread on its cpu, or an error that says why not
//!  roll     who serves in this process, for who looks on
//! ```
//!
//! ```
//! let cpu = kumiki_sys::affinity::current()?.first().unwrap();
//! let (tell, told) = std::sync::mpsc::channel();
//! let body = move || tell.send(std::thread::current().name().map(str::to_owned)).unwrap();
//! let thread = kumiki_crew::start("counter", cpu, None, body)?;
//! assert_eq!(told.recv().unwrap().as_deref(), Some("counter"));
//! thread.join().unwrap();
//! # Ok::<(), kumiki_crew::Error>(())
//! ```

mod error;
pub mod roll;
mod start;

pub use error::{Error, Result};
pub use kumiki_sys::signals::with_signals_blocked;
pub use start::start;

/// A thread that was started, to be joined.
#[cfg(not(sim))]
pub type JoinHandle = std::thread::JoinHandle<()>;
#[cfg(sim)]
pub use kumiki_sys::sim::JoinHandle;
