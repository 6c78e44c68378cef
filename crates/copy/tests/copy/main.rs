//! What a copy promises.

#[path = "../../../sys/tests/child/mod.rs"]
mod child;
#[path = "../../../shadow/tests/shadow/common.rs"]
mod common;
mod earned;
mod methods;
mod prepared;
mod unjoined;
