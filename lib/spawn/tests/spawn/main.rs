//! Spawning as a program does it: what std's `Command` does, and what goes wrong.

#![allow(clippy::duplicate_mod, reason = "what holds for both makers is tested of both")]

/// Runs what test `name` of the module is in a process of its own.
macro_rules! alone {
    ($name:literal, $work:expr) => {{
        let module = module_path!().split_once("::").unwrap().1;
        crate::child::in_a_child(&format!("{module}::{}", $name), $work)
    }};
}

mod actions;
mod by_server;
#[path = "../child/mod.rs"]
mod child;
mod descriptors;
mod faults;
mod features;
#[path = "../filter/mod.rs"]
mod filter;
mod itself;
mod kept;
mod named;
mod nodes;
mod programs;
mod refused;
mod zygotes;
