//! Devices of OS nodes: as a person writes them, as a node's record keeps them, and as their host
//! serves them. What they are made of, cards, disks and PCI functions, is looked at here, too.

use kumiki_node_wire::{Error, ErrorKind, Refusal, Result, Subject, json};

#[doc(hidden)]
pub mod block;
#[doc(hidden)]
pub mod claims;
#[doc(hidden)]
pub mod clocks;
#[doc(hidden)]
pub mod grant;
#[doc(hidden)]
pub mod interface;
pub mod nat;
#[doc(hidden)]
pub mod pci;
#[doc(hidden)]
pub mod process;
pub mod program;
#[doc(hidden)]
pub mod record;
#[doc(hidden)]
pub mod runtime;
pub mod serve;
#[doc(hidden)]
pub mod service_state;
#[doc(hidden)]
pub mod spec;
#[doc(hidden)]
pub mod stowed;
