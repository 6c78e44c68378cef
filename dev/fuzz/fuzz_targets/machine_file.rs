//! Any text where a person should have written a machine file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kumiki_node::fixtures::machine(&String::from_utf8_lossy(bytes));
});
