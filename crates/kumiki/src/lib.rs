//! Takes the operating system off the critical path of a many-core Linux
//! machine. Each part works alone and is a feature of this crate; a program
//! links only the parts it names:
//!
//! ```text
//!   kumiki ── measure   sampler, statistics, the operating system's own cases
//!     │          │      feature "measure" (default); feature "store" adds an
//!     │          │      embedded database of results
//!     ├── parasc ┤      any system call in parallel; feature "parasc"
//!     ├── shadow ┤      a helper thread beside you; feature "shadow"
//!     ├── wait ──┤      spin, then sleep; feature "wait"
//!     └── sys ◄──┘      cpus, clocks, futex, shared memory
//! ```
//!
//! What a quick run measures about entering the kernel:
//!
//! ```
//! # #[cfg(feature = "measure")] {
//! use kumiki::measure::case::{Choice, Level};
//! use kumiki::measure::cases::catalogue;
//!
//! let quick = catalogue(&Choice { level: Some(Level::Quick), ..Choice::default() });
//! let entry: Vec<_> = quick.iter().filter(|case| case.name.starts_with("entry.")).collect();
//! for case in &entry {
//!     println!("{}: {}", case.name, case.about);
//! }
//! assert!(entry.iter().any(|case| case.name == "entry.getppid"));
//! # }
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "measure")]
pub use kumiki_measure as measure;
#[cfg(feature = "parasc")]
pub use kumiki_parasc as parasc;
#[cfg(feature = "shadow")]
pub use kumiki_shadow as shadow;
pub use kumiki_sys as sys;
#[cfg(feature = "wait")]
pub use kumiki_wait as wait;
