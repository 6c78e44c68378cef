//! What a copy promises.

#[path = "../child/mod.rs"]
mod child;
mod common;
mod earned;
mod methods;
mod prepared;
mod unjoined;
