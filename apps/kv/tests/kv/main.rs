//! The server as its clients see it: tools of Redis, pipelines, and those who mean no good.

mod bounds;
mod clients;
mod commands;
mod differ;
mod durable;
mod hostile;
mod listening;
mod page;
mod printed;
mod protocol;
mod redis;
mod scene;
mod tcl;
mod tools;
mod traced;
mod tracking;
mod transactions;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kumiki-kv");
/// Exit status after an error of the program's own.
const FAILED: i32 = 2;
