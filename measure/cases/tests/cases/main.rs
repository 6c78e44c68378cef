//! Cases that run, and what becomes of those that cannot.

mod all;
#[path = "../child/mod.rs"]
mod child;
#[path = "../filter/mod.rs"]
mod filter;
#[path = "../leaves_nothing/mod.rs"]
mod leaves_nothing;
mod skipped;
