//! Any bytes where a machine of the lab should have sent frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_lab::fixtures::frames(bytes));
