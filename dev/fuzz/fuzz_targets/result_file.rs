//! Any bytes where somebody's `kumiki results export` or `kumiki measure --json` should
//! have been.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_report::fixtures::result(bytes));
