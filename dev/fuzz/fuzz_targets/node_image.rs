//! Any text where an image in memory describes itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_node::fixtures::image(bytes));
