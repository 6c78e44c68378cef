//! OS nodes: stock Linux kernels, each on its own cpus and memory of one
//! machine, without a hypervisor, started from images that stay in memory.
//!
//! ```text
//!   kumiki node …                      the node
//!   +--------------------+   window    +-----------------------------+
//!   | image   add ls rm  |  2 MiB of   | stock kernel                |
//!   | node    create …   |<----------->| osnode-guest.ko, its log    |
//!   | client  exec       |  rings and  | kumiki-node-agent           |
//!   +--------------------+  doorbells  +-----------------------------+
//!   | osnode.ko: cpus, memory, INIT–SIPI, who owns what              |
//!   +------------------------------------------------------------------+
//! ```
//!
//! Isolation is by agreement: a node's kernel runs with all memory and devices
//! in reach. See `docs/design/node.md`.
//!
//! ```no_run
//! use kumiki_node::{Cpus, KernelForm, MemorySource, Node, Spec};
//!
//! let node = Node::create(&Spec {
//!     name: "n1".into(),
//!     image: "deb".into(),
//!     cpus: Cpus::Count(1),
//!     numa: Vec::new(),
//!     elastic: None,
//!     memory_limits: None,
//!     memory_bytes: vec![256 << 20],
//!     memory_from: MemorySource::Any,
//!     command_line: String::new(),
//!     devices: vec![],
//!     init: None,
//!     pci: Vec::new(),
//!     dma_unconfined: false,
//! })?;
//! node.start(KernelForm::Vmlinux, std::time::Duration::from_secs(60))?;
//! # Ok::<(), kumiki_node::Error>(())
//! ```

#![forbid(unsafe_code)]

mod balance;
mod delegated;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fixtures;
mod host;
mod idle;
mod machine;
mod node;
mod service;
mod supervise;

pub use balance::balance;
pub use delegated::Delegated;
pub use host::spec::{Cpus, Spec};
pub use idle::{default_file, idle, wake_if_idle};
#[doc(no_inline)]
pub use kumiki_node_agent as agent;
pub use kumiki_node_agent::delegated::is_node;
pub use kumiki_node_devices::interface::Address;
pub use kumiki_node_devices::pci::Function;
pub use kumiki_node_devices::record::{Elastic, MemoryLimits, Record};
pub use kumiki_node_devices::service_state::ServiceState;
pub use kumiki_node_devices::spec::{Addressing, Assigned, DeviceSpec, Disk, Net, Share};
pub use kumiki_node_devices::{nat, program, serve};
pub use kumiki_node_image::files::Files;
pub use kumiki_node_image::image::{Image, ImageInfo, ImageKind, KernelForm};
pub use kumiki_node_image::initramfs::Base;
pub use kumiki_node_image::listing::{NodeInfo, NodeState, seen_here};
pub use kumiki_node_image::reservation::{MemorySource, Reservation};
pub use kumiki_node_image::root::RootOf;
pub use kumiki_node_wire::device::Dma;
use kumiki_node_wire::json;
pub use kumiki_node_wire::module::requests::probe;
pub use kumiki_node_wire::module::sysfs::low_slices;
pub use kumiki_node_wire::stages::{LoadParts, Stages};
pub use kumiki_node_wire::wish::Run;
pub use kumiki_node_wire::{AGENT, Error, ErrorKind, Refusal, Result, Subject, vsock};
pub use kumiki_rootfs::{Source, mkfs};
pub use kumiki_stream::exec::{Client, Order, Orders, Size};
pub use machine::{
    Apply, Blocks, Changes, Free, ImageWanted, Machine, NodeWanted, Rollout, RolloutState, Step,
};
pub use node::Node;
pub use node::copying;
pub use node::lanes::Lanes;
pub use node::plugging::DeviceInfo;
pub use node::session::{Ending, Session};
pub use node::snapshot::SnapshotTaken;
pub use node::usage::Usage;
pub use node::watchman::Watchman;
pub use service::{NOT_ASKED, Service};
pub use supervise::supervise;
