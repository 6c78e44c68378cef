//! The interface for C, from both sides.

mod cmake;
mod header;
mod installed;
mod panics;
mod python;
mod questions;
mod readme;
mod versions;
