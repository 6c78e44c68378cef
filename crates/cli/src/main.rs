//! The kumiki command.
fn main() {}
