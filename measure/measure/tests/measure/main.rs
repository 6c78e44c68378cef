//! Results that are kept.

#[cfg(feature = "store")]
mod store_survives;
