//! Anything in a request area: processing threads answer it or leave it alone,
//! and come to an end.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_parasc::serve_garbage(bytes));
