//! Operating system resources owned per core (Horii et al., "Evaluation of Tender, which
//! manages OS resources on each core"; Tender is an operating system of Okayama
//! University).
//!
//! Cores fight over tables that all of them use. Here each core has its own: whatever is
//! made on a core belongs to it, its manager's thread alone touches it, and no lock is
//! taken on the way. Another core asks the owner, by a call in one cache line
//! ([`desk`]). Every resource has a name, an id and one interface.
//!
//! ```text
//!  any thread ── Interface ── create · with · destroy · open · ls · watch
//!                    │
//!        ┌───────────┴───────────┐   by the place in the id or the name
//!     core0                    core1
//!     manager's thread         manager's thread
//!     names  core0/…/…         names  core1/…/…
//!     a table of each kind     a table of each kind, with its pool
//! ```
//!
//! # Where callers should run
//!
//! A call to another core takes about 0.2 µs while both threads run, and is a matter of the
//! scheduler beside other work on their cpus: one busy process on two cpus makes 10 µs of it,
//! a load of three 100 to 200 µs, where a mutex that the caller takes itself stays below one.
//! Give managers cpus that nothing else uses, or have the program's own threads manage
//! (`Builder::adopted`): what stays on its core is a function call whoever else runs.
//! What is small, hot and used by all on shared cpus belongs under a mutex.
//! `docs/design/rpc.md` has the figures.
//!
//! # A first program
//!
//! ```
//! use kumiki_resource::kind::{About, Kind};
//! use kumiki_resource::{Interface, Name, Place, Result};
//!
//! /// A counter, owned by a core.
//! struct Counter(u64);
//!
//! impl Kind for Counter {
//!     const NAME: &'static str = "counter";
//!     type Spec = u64;
//!     type Pool = ();
//!
//!     fn pool(_: Place) -> Result<()> {
//!         Ok(())
//!     }
//!     fn create(from: u64, (): &mut ()) -> Result<Counter> {
//!         Ok(Counter(from))
//!     }
//!     fn destroy(self, (): &mut ()) {}
//!     fn about(&self) -> About {
//!         About { state: self.0.to_string(), bytes: 8 }
//!     }
//! }
//!
//! let interface = Interface::builder().kind::<Counter>().per_core()?;
//! let place = interface.places()[0];
//! let hits = interface.create::<Counter>(place, Some("hits"), 41)?;
//! let now = interface.with(&hits, |counter, ()| {
//!     counter.0 += 1;
//!     counter.0
//! })?;
//! assert_eq!(now, 42);
//!
//! let name: Name = interface.ls(&kumiki_resource::Pattern::all())?[0].name.parse()?;
//! assert_eq!((name.kind(), name.unique()), ("counter", "hits"));
//! interface.destroy(hits)?;
//! assert!(interface.lookup(&name).is_err());
//! # Ok::<(), kumiki_resource::Error>(())
//! ```

mod alloc;
mod answer;
mod core;
pub mod desk;
mod each;
mod error;
mod frames;
mod glob;
mod handle;
mod here;
mod id;
mod interface;
mod item;
pub mod kind;
mod kinds;
mod large;
mod list;
mod memory;
mod name;
mod names;
pub mod page;
mod per_core;
pub mod published;
mod region;
mod rights;
mod send;
mod share;
mod space;
mod standard;
mod table;
mod thread;
mod tree;
mod user_space;
mod word;

pub use alloc::PageAlloc;
pub use answer::Answer;
pub use desk::{Error as CallError, Panic};
pub use error::{Error, Result};
pub use handle::Handle;
pub use id::{Id, KindId, Place, Serial};
pub use interface::{Builder, Interface, Manager, Next};
pub use kumiki_crew::Error as ThreadError;
pub use kumiki_wait::{Error as WaitError, Policy, Relax, Sleep, Threshold};
pub use large::{LARGE_FRAME_BYTES, LargeMemory, LargeMemoryPool};
pub use list::{Change, Listed, Pattern};
pub use memory::{Memory, MemoryPool};
pub use name::Name;
pub use region::{Region, RegionPool, RegionSpec};
pub use rights::Rights;
pub use space::Space;
pub use thread::{Stop, Thread, ThreadEnd, ThreadSpec};
pub use user_space::{Attach, UserSpace, UserSpacePool, UserSpaceSpec};
