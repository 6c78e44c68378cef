//! Any bytes where the other end of a stream should have sent frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_stream::fixtures::frames(bytes));
