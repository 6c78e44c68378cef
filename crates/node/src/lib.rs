//! OS nodes: stock Linux kernels, each on its own cpus and memory of one
//! machine, without a hypervisor, started from images that stay in memory.
//!
//! ```text
//!   kumiki node …                      the node
//!   +--------------------+   window    +-----------------------------+
//!   | image   add ls rm  |  2 MiB of   | stock kernel                |
//!   | node    create …   |<----------->| osnode-guest.ko, its log    |
//!   | client  exec       |  rings and  | agent: kumiki node agent    |
//!   +--------------------+  doorbells  +-----------------------------+
//!   | osnode.ko: cpus, memory, INIT–SIPI, who owns what              |
//!   +------------------------------------------------------------------+
//! ```
//!
//! Isolation is by agreement: a node's kernel runs with all memory and devices
//! in reach. See `docs/design/node.md`.
//!
//! ```no_run
//! use kumiki_node::{MemorySource, Node};
//!
//! let node = Node::create("n1", "deb", 1, &[256 << 20], MemorySource::Any, "")?;
//! node.start(false, std::time::Duration::from_secs(60))?;
//! # Ok::<(), kumiki_node::Error>(())
//! ```

#[cfg(not(target_arch = "x86_64"))]
compile_error!("kumiki-node needs x86-64: how a node is started is written for that processor.");

mod abi;
pub mod agent;
mod blocks;
mod compose;
mod cpus;
mod device;
mod error;
mod frame;
mod image;
mod memory;
mod node;
mod origin;
mod ring;
mod session;
mod stages;
mod taking;
mod tree;
mod window;

pub use compose::Base;
pub use device::probe;
pub use error::{Error, Result};
pub use image::{Image, ImageInfo};
pub use node::{Node, NodeInfo, Record, State};
pub use origin::Files;
pub use session::{Ending, Session};
pub use stages::Stages;
pub use taking::MemorySource;
