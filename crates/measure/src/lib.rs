//! What the operating system costs, against the parameters that decide it.

pub mod case;
pub mod cases;
pub mod error;
pub mod meter;
mod program;
pub mod schema;

pub use error::{Error, Result};
