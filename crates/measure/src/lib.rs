//! What the operating system costs, against the parameters that decide it.

pub mod case;
pub mod cases;
pub mod error;
pub mod meter;
pub mod schema;

pub use error::{Error, Result};
