//! Parallel system calls as a program uses them.

mod allocations;
mod backend;
mod calling_thread;
#[path = "../child/mod.rs"]
mod child;
mod engine;
mod op;
mod open;
mod processing_thread;
mod stress;
mod tokio_read;
mod tries;
