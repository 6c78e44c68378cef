//! Threads that serve.
//!
//! What serves requests of others is a thread with manners: bound to its cpu, so that it
//! is where its memory and its callers expect it; named, so that `top -H` tells what it
//! is; without the program's signals; there when the call that starts it returns; and
//! gone when it is told to retire, after it has served what had come.
//!
//! ```text
//!  start    a thread on its cpu, or an error that says why not
//!  Member   such a thread at a desk (kumiki_slot): anybody's calls run on it
//!  Crew     threads that nobody waits for nor joins, counted as long as they live
//!  Post     a place for one of them, which comes when wanted and retires by itself
//!  Reserve  places for many that sleep until so many are called
//!  roll     who serves in this process, for who looks on
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

mod crew;
mod error;
#[cfg(all(test, loom))]
mod loom;
mod member;
mod post;
mod primitive;
mod reserve;
pub mod roll;
mod start;

pub use crew::{Crew, Unwinding};
pub use error::{Error, Result};
pub use kumiki_sys::signals::with_signals_blocked;
pub use member::Member;
pub use post::{Entry, Post};
pub use reserve::Reserve;
pub use start::start;
