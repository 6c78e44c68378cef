//! Takes the operating system off the critical path of a many-core Linux
//! machine. Each part works alone and is a feature of this crate, none of them
//! on by default; a program links only the parts it names:
//!
//! ```text
//!   kumiki ── shadow ┐      a helper thread beside yours: fork and join in one
//!     │              │      cache line's round trip; feature "shadow"
//!     ├── copy ──────┤      memory copied by both of them; feature "copy"
//!     ├── parasc ────┤      any system call made by other threads, in batches or
//!     │              │      awaited; feature "parasc"
//!     ├── resource ──┤      what a core owns, under names; others ask its owner in one
//!     │              │      cache line; feature "resource"
//!     ├── spawn ─────┤      processes made by a small server, however large yours is;
//!     │              │      feature "spawn"
//!     ├── tokio ─────┤      files for async programs: tried, else handed over; feature
//!     │              │      "tokio"
//!     ├── places ────┤      resources of other processes and machines by the same
//!     │              │      calls, programs run there; feature "places"
//!     ├── node ──────┤      several stock kernels on one machine; feature "node"
//!     ├── wait ──────┤      spin, then sleep; feature "wait"
//!     ├── measure ───┤      what the operating system costs: sampler, statistics,
//!     │              │      cases; feature "measure", with "store" a database
//!     ├── ab ────────┤      whether one command is slower than another; feature "ab"
//!     ├── tracing ───┤      events of claims, hand-overs, sleeps and wakes, leases, retries:
//!     │              │      what came last before a hang; feature "tracing"
//!     └── sys ◄──────┘      cpus: which there are, how near, who runs where; always
//!                           there
//! ```
//!
//! # Fork and join
//! Two threads sum a half each of a slice that they borrow ([`shadow`]):
//!
//! ```
//! # #[cfg(feature = "shadow")] {
//! use kumiki::shadow::Shadow;
//!
//! // On a single cpu, jobs run in this thread.
//! let mut shadow = Shadow::create_or_inline()?;
//! let numbers: Vec<u64> = (0..100_000).collect();
//! let (left, right) = numbers.split_at(numbers.len() / 2);
//! let (a, b) = shadow.both(|| left.iter().sum::<u64>(), || right.iter().sum::<u64>());
//! assert_eq!(a + b, 4_999_950_000);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # System calls in a batch
//! Other threads make some of them, where that is faster ([`parasc`]):
//!
//! ```
//! # #[cfg(feature = "parasc")] {
//! use kumiki::parasc::op::{AtFlags, CWD, Statx, StatxFlags};
//! use kumiki::parasc::{Config, Engine};
//!
//! let engine = Engine::new(&Config::default())?;
//! let mut requester = engine.requester()?;
//! let stat = |name| Statx::new(CWD, name, AtFlags::empty(), StatxFlags::SIZE);
//! let mut batch: Vec<_> = [c"/", c"/proc", c"/nowhere"].map(stat).into();
//! let outputs = requester.run(&mut batch)?;
//! assert_eq!(outputs.iter().filter(|output| output.is_ok()).count(), 2);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What things cost
//! The cases by which the command `kumiki measure` measures ([`cases`], [`measure`]):
//!
//! ```
//! # #[cfg(feature = "measure")] {
//! use kumiki::cases::catalogue;
//! use kumiki::measure::case::{Choice, Level};
//!
//! let quick = catalogue(&Choice { level: Some(Level::Quick), ..Choice::default() });
//! let entry: Vec<_> = quick.iter().filter(|case| case.name.starts_with("entry.")).collect();
//! for case in &entry {
//!     println!("{}: {}", case.name, case.about);
//! }
//! assert!(entry.iter().any(|case| case.name == "entry.getppid"));
//! # }
//! ```
//!
//! # What stays
//! Versions follow Semantic Versioning for all that this crate names, also where it comes from a
//! crate that alone promises nothing, as `kumiki-sys` and the operations of [`parasc`] do. The
//! features `node` and `ab` are excepted: they are for trying, and may change at any time.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Names of parts that are left out are no links.
#![cfg_attr(
    not(all(feature = "measure", feature = "parasc", feature = "shadow")),
    allow(rustdoc::broken_intra_doc_links)
)]

#[cfg(feature = "ab")]
#[doc(inline)]
pub use kumiki_ab as ab;
#[cfg(feature = "measure")]
#[doc(inline)]
pub use kumiki_cases as cases;
#[cfg(feature = "copy")]
#[doc(inline)]
pub use kumiki_copy as copy;
#[cfg(feature = "measure")]
#[doc(inline)]
pub use kumiki_measure as measure;
#[cfg(feature = "node")]
#[doc(inline)]
pub use kumiki_node as node;
#[cfg(feature = "parasc")]
#[doc(inline)]
pub use kumiki_parasc as parasc;
#[cfg(feature = "places")]
#[doc(inline)]
pub use kumiki_places as places;
#[cfg(feature = "resource")]
#[doc(inline)]
pub use kumiki_resource as resource;
#[cfg(feature = "shadow")]
#[doc(inline)]
pub use kumiki_shadow as shadow;
#[cfg(feature = "spawn")]
#[doc(inline)]
pub use kumiki_spawn as spawn;
#[cfg(feature = "tokio")]
#[doc(inline)]
pub use kumiki_tokio as tokio;
#[cfg(feature = "wait")]
#[doc(inline)]
pub use kumiki_wait as wait;

pub mod sys;
