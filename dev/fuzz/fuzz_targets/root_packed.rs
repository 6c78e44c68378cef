//! Any bytes where a packed archive should be: what expands is bounded.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_rootfs::fixtures::packed(bytes));
