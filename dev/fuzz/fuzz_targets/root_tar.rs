//! Any bytes where an archive of all files should be, with checksums made right; held against tar.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    kumiki_rootfs::fixtures::with_sums(&mut bytes);
    kumiki_rootfs::fixtures::like_tar(&bytes);
});
