//! Raw ground.

pub mod clock;
