//! Waiting that is fast when the answer comes soon and cheap when it does not.
//!
//! A waiting thread spins for a bounded time, in which it sees an answer after one
//! transfer of a cache line; then it sleeps in the best way that the machine has. The
//! thread that answers makes a system call only if the waiting thread sleeps. This is the
//! two-phase wait of the Shadow Thread paper (Hori et al., 2011, figure 7), with a
//! threshold that adapts itself and a protocol for a sleep in the kernel.
//!
//! ```text
//!   Waiter (one a thread)                       any other thread
//!   ┌───────┬──────────────┬────────────┐
//!   │ spin  │ doze         │ sleep      │       store the word (Release)
//!   │ looks │ UMWAIT,      │ futex      │            │
//!   │ at the│ MWAIT(X) on  │ on the     │       Bell::ring
//!   │ word  │ word's line  │ Bell       │◄── wakes, if ASLEEP ──┘
//!   └───────┴──────────────┴────────────┘
//!    ≤ 2 × what a     1 ms      until rung
//!    sleep costs or
//!    has cost
//! ```
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::thread;
//!
//! use kumiki_wait::{Bell, Policy, Waiter};
//!
//! static BELL: Bell = Bell::new();
//! static ANSWER: AtomicU64 = AtomicU64::new(0);
//!
//! let answer = || match ANSWER.load(Ordering::Acquire) {
//!     0 => None,
//!     answer => Some(answer),
//! };
//! let mut waiter = Waiter::new(&Policy::default())?;
//! thread::spawn(|| {
//!     ANSWER.store(42, Ordering::Release);
//!     BELL.ring();
//! });
//! assert_eq!(waiter.wait(&BELL, &ANSWER, answer), 42);
//! println!("asleep by {}: {:?}", waiter.sleep(), waiter.counts());
//! # Ok::<(), kumiki_wait::Error>(())
//! ```
//!
//! Linux on x86-64; on aarch64 without a doze.
//!
//! A command lets its user choose the way to sleep by the environment variable `KUMIKI_WAIT`
//! (`auto`, `umwait`, `mwaitx`, `mwait`, `futex`): [`Policy::from_env`].
//!
//! `bell.rs` states the protocol between sleeper and waker and argues its correctness,
//! and loom checks it (`cargo xtask loom`); `docs/design/wait.md` has the trade-offs. Many
//! sleepers have an [`EventCount`]; one that sleeps at descriptors, in poll or epoll, has a
//! [`PollBell`]. A [`Capacity`] tells who frees a place that somebody was refused one.

mod adapt;
pub mod barrier;
mod bell;
mod capacity;
mod cost;
mod deadline;
#[cfg(target_arch = "x86_64")]
mod device;
mod doze;
mod error;
mod event_count;
mod machine;
mod policy;
mod poll_bell;
mod primitive;
mod rested;
mod ticks;
mod waiter;

pub use bell::Bell;
pub use capacity::Capacity;
pub use cost::sleep_cost_ticks;
pub use deadline::Deadline;
pub use error::{Error, TimedOut};
pub use event_count::EventCount;
pub use policy::{Policy, Relax, Sleep, Threshold};
pub use poll_bell::PollBell;
pub use rested::{Rested, rested};
pub use ticks::Ticks;
pub use waiter::{Counts, Waiter};
