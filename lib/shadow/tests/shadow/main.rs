//! What a shadow promises.

mod bad_input;
#[path = "../child/mod.rs"]
mod child;
mod common;
#[path = "../filter/mod.rs"]
mod filter;
mod fork;
mod line;
mod promises;
mod timeout;
mod unjoined;
