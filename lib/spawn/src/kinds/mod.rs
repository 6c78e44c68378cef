//! Programs and processes as kinds of `kumiki-resource`.

mod process;
mod program;

pub use process::Process;
