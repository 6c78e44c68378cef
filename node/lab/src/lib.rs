//! A QEMU machine that runs kernel parts where the host cannot, and tests them.
//!
//! A [`Machine`] is a stock Debian kernel with busybox and an agent of ours,
//! started in seconds from a cache; commands are run in it as root, any number
//! at once, with their streams and exit codes passed through. After each the
//! kernel log is searched for what shows a fault. The machine ends with the
//! value, and with the process, however that ends.
//!
//! ```text
//!  Machine ── keeper thread ── QEMU ──────────────────────────┐
//!     │                         │ serial line → kernel.log    │
//!     │ Guest ═ frames ═ stdin, stdout ═ virtio port ═ agent  │
//!     └ Command, Running                          └ commands  │
//! ```
//!
//! ```no_run
//! use kumiki_lab::{Cache, Config, Machine, Talk};
//!
//! // A program that hands over to kumiki_lab::agent::run when its first argument
//! // is kumiki_lab::agent::WORD.
//! let agent = std::env::current_exe()?;
//! let machine = Machine::start(&Cache::of_user()?, &Config::new(agent), Talk::nowhere())?;
//! let output = machine.command("uname").arg("-r").output()?;
//! assert_eq!(output.exit.code(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod agent;
mod apt;
mod arch;
mod borrowed;
mod cache;
mod chroot;
mod clean;
mod command;
mod config;
mod debug;
mod error;
mod files;
mod guest;
mod initramfs;
pub mod kbuild;
mod kernel;
mod kvm;
mod log;
mod machine;
mod modules;
mod place;
mod qemu;
mod saved;
pub mod standing;
mod talk;
mod tied;
mod wish;

pub use apt::debian_root;
pub use arch::Arch;
pub use borrowed::borrowed;
pub use cache::Cache;
pub use clean::{Cleaned, clean};
pub use command::{Command, Control, Exit, Outcome, Output, Running};
pub use config::{Accelerator, Config};
pub use error::{Error, Result};
pub use guest::Guest;
pub use kernel::{Kernel, KernelName};
pub use machine::{Machine, Times};
pub use modules::Module;
pub use place::remove_all;
#[doc(hidden)]
pub use saved::saved_nginx;
pub use talk::Talk;
