//! Any bytes where a client should have sent a request.
#![no_main]

use kumiki_httpd::request::{Parsed, parse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Parsed::Head(head) = parse(bytes) else { return };
    assert!(bytes[..head.length].ends_with(b"\r\n\r\n"));
    // Where it ends does not depend on what comes after it.
    let Parsed::Head(alone) = parse(&bytes[..head.length]) else { panic!("not taken alone") };
    assert_eq!((alone.length, &alone.target), (head.length, &head.target));
    let path = &head.target.path;
    assert!(!path.starts_with(b"/") && !path.contains(&0));
    assert!(path.split(|byte| *byte == b'/').all(|part| part != b".." && part != b"."));
});
