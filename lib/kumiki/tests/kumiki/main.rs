//! The façade as a program outside of the workspace uses it.

mod errors;
mod events;
mod new_crate;
mod questions;
mod readme;
