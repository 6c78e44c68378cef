//! Any bytes where getdents64(2) should have written entries.
#![no_main]

use kumiki_parasc::op::Entries;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut entries = Entries::new(bytes);
    let mut read = 0;
    for entry in entries.by_ref() {
        // Inode, offset, length, kind, and a name with its end.
        read += 8 + 8 + 2 + 1 + entry.name.to_bytes_with_nul().len();
    }
    assert!(read + entries.rest().len() <= bytes.len());
    // What is left over is not an entry, however often one asks.
    assert!(entries.next().is_none());
});
