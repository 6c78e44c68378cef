//! Processes started at a cost that does not grow with their parent.
//!
//! fork(2) copies the page tables of its caller: from a process with 8 GiB that takes
//! 176 ms. Here the child begins in memory that it has together with who makes it, makes the
//! system calls that were listed for it, and executes its program: no page tables are copied,
//! and nobody needs a hook that runs in it.
//!
//! The calling thread makes it itself, or a *spawn server* does, a process of some kilobytes:
//! for children that become another user or have namespaces of their own, for who has a
//! [`SpawnServer`], and for futures. The child's parent is the caller all the same
//! (CLONE_PARENT), which waits for it as for any other.
//!
//! ```text
//!  caller (any size)           shared memory        server (some KiB)
//!   program, arguments, … ──── request ──────────▶   clone3(VM|VFORK|PARENT) ─▶ child
//!   descriptors ────────────── message ──────────▶                             execve
//!   pid, or errno ◀─────────── answer ────────────
//! ```
//!
//! ```
//! use kumiki_spawn::Command;
//!
//! let output = Command::new("echo").args(["hello", "world"]).output()?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello world\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! What a child inherits from whom, and who dies when: `docs/design/spawn.md`.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "kumiki-spawn needs Linux on x86-64 or aarch64: its server makes system calls itself."
);

mod actions;
mod attributes;
mod child;
mod command;
mod ends;
mod identity;
mod image;
mod itself;
#[cfg(feature = "resource")]
mod kinds;
mod making;
mod maps;
mod memory;
mod outcome;
mod primitive;
mod program;
mod refusal;
mod request;
mod running;
mod server;
mod servers;
mod stdio;
mod steps;
mod tree;
mod valgrind;
mod zygote;

pub use actions::Action;
pub use attributes::{Namespaces, Resource, SignalNumber};
pub use child::{Child, Output};
pub use command::Command;
pub use ends::WaitAsync;
pub use image::NoProgram;
#[cfg(feature = "resource")]
pub use kinds::Process;
pub use making::SpawnAsync;
pub use program::Program;
pub use refusal::Refusal;
pub use rustix::process::Signal;
pub use servers::{SpawnServer, start_server};
pub use stdio::Stdio;
pub use zygote::{Started, Zygotes, ready};
