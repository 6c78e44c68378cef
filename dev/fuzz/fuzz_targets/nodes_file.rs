//! Any bytes where somebody's `cargo xtask bench node --json` should have been.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_report::fixtures::nodes(bytes));
