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
//! use kumiki_node::{Cpus, MemorySource, Node, Spec};
//!
//! let node = Node::create(&Spec {
//!     name: "n1".into(),
//!     image: "deb".into(),
//!     cpus: Cpus::Count(1),
//!     memory_bytes: vec![256 << 20],
//!     memory_from: MemorySource::Any,
//!     command_line: String::new(),
//!     devices: vec![],
//!     init: None,
//! })?;
//! node.start(false, std::time::Duration::from_secs(60))?;
//! # Ok::<(), kumiki_node::Error>(())
//! ```

#[cfg(not(target_arch = "x86_64"))]
compile_error!("kumiki-node needs x86-64: how a node is started is written for that processor.");

mod abi;
pub mod agent;
mod bell;
mod blocks;
mod claims;
mod client;
mod clocks;
mod compose;
pub mod copying;
mod cpu_list;
mod cpus;
mod device;
mod devices;
mod drivers;
mod early;
mod error;
mod files;
mod frame;
mod grant;
mod hash;
mod image;
mod ingredients;
mod interface;
mod kind;
mod lent;
mod listing;
mod load;
mod machine;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod made_up;
mod memory;
mod module_file;
pub mod nat;
mod needs;
mod node;
mod numa;
mod origin;
mod plugging;
mod record;
mod requests;
mod ring;
mod root;
mod runtime;
pub mod serve;
mod service;
mod services;
mod session;
mod shipped;
mod silence;
mod spec;
mod stages;
mod taking;
mod tree;
mod usage;
pub mod vsock;
mod window;

pub use client::{Client, Ending, Order, Orders};
pub use compose::Base;
pub use devices::{Addressing, Assigned, DeviceSpec, Disk, Net, Share};
pub use error::{Error, Result};
pub use files::Files;
pub use frame::{Program, Size};
pub use image::{Image, ImageInfo};
pub use interface::Address;
pub use kumiki_rootfs::Source;
pub use lent::{Lent, is_node};
pub use listing::{NodeInfo, State};
pub use machine::{
    Apply, Blocks, Free, ImageWanted, Machine, NodeWanted, Rollout, RolloutState, Step,
};
pub use node::Node;
pub use plugging::DeviceInfo;
pub use record::Record;
pub use requests::probe;
pub use root::RootOf;
pub use service::{Service, ServiceState};
pub use services::watch;
pub use session::Session;
pub use spec::{Cpus, MemorySource, Spec};
pub use stages::{LoadParts, Stages};
pub use taking::Reservation;
pub use tree::low_slices;
pub use usage::Usage;
