//! Any bytes where a node and its host write for each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_node::fixtures::window(bytes));
