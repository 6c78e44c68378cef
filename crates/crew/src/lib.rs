//! Threads that serve.
//!
//! What serves requests of others is a thread with manners: bound to its cpu, so that it
//! is where its memory and its callers expect it; named, so that `top -H` tells what it
//! is; without the program's signals; there when the call that starts it returns; and
//! gone when it is told to retire, after it has served what had come.
//!
//! ```text
//!  start   a thread on its cpu, or an error that says why not
//!  Member  such a thread at a desk (kumiki_slot): anybody's calls run on it
//!  roll    who serves in this process, for who looks on
//! ```
//!
//! ```
//! use kumiki_crew::Member;
//! use kumiki_wait::Policy;
//!
//! let cpu = kumiki_sys::affinity::current()?.first().unwrap();
//! let member = Member::start("counter", cpu, &Policy::default(), None, || ())?;
//! let mut caller = member.caller()?;
//! let name = caller.call(|| std::thread::current().name().map(str::to_owned)).unwrap();
//! assert_eq!(name.as_deref(), Some("counter"));
//! member.retire();
//! assert!(matches!(caller.call(|| ()), Err(kumiki_slot::Error::Gone)));
//! # Ok::<(), kumiki_crew::Error>(())
//! ```

mod error;
mod member;
pub mod roll;
mod start;

pub use error::{Error, Result};
pub use kumiki_sys::signals::with_signals_blocked;
pub use member::Member;
pub use start::start;
