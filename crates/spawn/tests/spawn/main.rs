//! Spawning as a program does it: what std's `Command` does, and what goes wrong.

mod attributes;
#[path = "../../../sys/tests/child/mod.rs"]
mod child;
mod commands;
mod confined;
mod descriptors;
mod faults;
#[path = "../../../wait/tests/filter/mod.rs"]
mod filter;
mod inherits;
mod limits;
mod named;
mod programs;
mod zygotes;
