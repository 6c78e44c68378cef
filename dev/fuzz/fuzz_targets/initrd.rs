//! Any bytes where a user's initrd or overlay should be.
#![no_main]

use kumiki_boot::{Initramfs, packing};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let accepted = packing(bytes).is_ok();
    let mut initramfs = Initramfs::new();
    assert_eq!(initramfs.archive(bytes).is_ok(), accepted);
    initramfs.file("/bin/kumiki", 0o755, b"agent").unwrap();
    let whole = initramfs.finish().unwrap();
    // What is not packed ends before ours begins, as a kernel reads it.
    if packing(bytes).is_ok_and(|packed| packed.is_none()) {
        assert!(packing(&whole).is_ok_and(|packed| packed.is_none()));
    }
});
