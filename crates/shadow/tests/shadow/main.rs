//! What a shadow promises.

mod bad_input;
#[path = "../../../sys/tests/child/mod.rs"]
mod child;
mod common;
mod copy;
mod earned;
#[path = "../../../wait/tests/filter/mod.rs"]
mod filter;
mod fork;
mod line;
mod prepared;
mod promises;
mod timeout;
mod unjoined;
