//! Takes the operating system off the critical path of a many-core Linux
//! machine. Each part works alone and is a feature of this crate; a program
//! links only the parts it names. Today that is [`measure`], which says what
//! the operating system costs here, and [`sys`], the ground all parts stand on.
//!
//! ```text
//!   kumiki ── measure   sampler, statistics, the operating system's own cases
//!     │          │      feature "measure" (default); feature "store" adds an
//!     │          │      embedded database of results
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
pub use kumiki_sys as sys;
