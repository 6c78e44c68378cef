//! Cases that run, and results that are kept.

mod cases;
#[path = "../child/mod.rs"]
mod child;
#[path = "../leaves_nothing/mod.rs"]
mod leaves_nothing;
#[cfg(feature = "store")]
mod store_survives;
