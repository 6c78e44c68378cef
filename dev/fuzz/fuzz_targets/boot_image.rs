//! Any bytes where a kernel image should be.
#![no_main]

use kumiki_boot::{Compression, Form, Kernel};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Kernel::compressed(bytes);
    if let Ok((kernel, kept)) = Kernel::parse(bytes)
        && let Form::Vmlinux(vmlinux) = &kernel.form
    {
        for segment in &vmlinux.segments {
            assert!(segment.offset + segment.bytes <= kept.len() as u64);
            assert!(segment.bytes <= segment.memory_bytes);
        }
    }
    // Few inputs have a header that leads here: the decompressors by themselves.
    if let Ok(compression) = Compression::of(bytes) {
        let _ = compression.decompress(bytes);
    }
});
