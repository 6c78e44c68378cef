//! Any text where a kernel's configuration should be, and any kernel that carries one.
#![no_main]

use kumiki_boot::{Compression, KernelConfig};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(config) = KernelConfig::parse(&String::from_utf8_lossy(bytes)) {
        let _ = config.check(None).map_err(|error| error.to_string());
        let _ = config.check(Compression::of(bytes).ok());
    }
    let _ = KernelConfig::within(bytes);
    // Few inputs have the mark and a stream behind it: one that has.
    let carried = [b"IKCFG_ST".as_slice(), bytes, b"IKCFG_ED"].concat();
    let _ = KernelConfig::within(&carried);
});
