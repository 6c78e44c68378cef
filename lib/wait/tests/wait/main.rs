//! Waits as programs make them.
#![cfg(not(loom))]

#[path = "../filter/mod.rs"]
mod filter;
mod handoffs;
mod process;
mod waits;
