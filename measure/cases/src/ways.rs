//! The ways to start a program that `process.spawn.*` measures, for who measures others
//! beside them.

pub use crate::process::spawn::{Resident, program, smallest_program};
pub use crate::process::start::{Target, clone3, command, fork_exec, posix_spawn, vfork};
