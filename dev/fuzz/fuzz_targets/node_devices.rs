//! Any words that a node writes while its devices are served.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_node_devices::serve::fixtures::node(bytes));
