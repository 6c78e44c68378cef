//! What a shadow promises.

mod bad_input;
#[path = "../../../sys/tests/child/mod.rs"]
mod child;
mod common;
#[path = "../../../wait/tests/filter/mod.rs"]
mod filter;
mod fork;
mod line;
mod promises;
mod timeout;
mod unjoined;
