//! Any bytes where a process's listing of its resources should be.
#![no_main]

use kumiki_resource::{Name, published};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(listing) = published::parse(1, bytes) else { return };
    for listed in listing {
        assert!(listed.name.parse::<Name>().is_ok());
        for text in [&listed.name, &listed.owner, &listed.about.state] {
            assert!(!text.chars().any(char::is_control) && text.len() <= 1000);
        }
    }
});
