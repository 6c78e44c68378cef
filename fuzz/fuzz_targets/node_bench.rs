//! Any bytes where `cargo xtask bench node --json FILE` should have written.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_report::made_up::node_bench(bytes));
