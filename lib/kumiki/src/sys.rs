//! The machine's cpus: which there are, how near to each other, and which of them a thread may use.
//!
//! These are the types that the other parts take and return. All else of `kumiki-sys` is for them, and
//! no part of this interface.
//!
//! ```
//! use kumiki::sys::{Topology, affinity};
//!
//! let allowed = affinity::current()?;
//! let cpu = allowed.first().expect("a thread runs on some cpu");
//! match Topology::read()?.nearest_core(cpu, &allowed) {
//!     Some(partner) => println!("cpu {partner} is the nearest core to cpu {cpu}"),
//!     None => println!("cpu {cpu} has no other core beside it"),
//! }
//! # Ok::<(), kumiki::sys::Error>(())
//! ```

pub use kumiki_sys::cpuset::CpuSet;
pub use kumiki_sys::topology::{Cache, CacheKind, Cpu, Node, Relation, Topology};
pub use kumiki_sys::{Errno, Error, Pid, Result};

/// Bindings of threads: the cpus that a thread may use.
pub mod affinity {
    pub use kumiki_sys::affinity::{Bound, bind, current, of_process, set};
}
