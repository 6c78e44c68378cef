//! Any bytes where a layer of a container image should be.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kumiki_rootfs::fixtures::layer(bytes));
