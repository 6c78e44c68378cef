//! Any bytes where a client's request, a place's reply, a pattern of names or an allow-list should be.
#![no_main]

use kumiki_places::wire::{self, Reply, Request};
use kumiki_places::{Allow, standard, to_json};
use kumiki_resource::Pattern;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = wire::parse::<Request>(bytes);
    if let Ok(reply) = wire::parse::<Reply>(bytes) {
        for answer in reply.answers.into_iter().flatten() {
            let _ = to_json(&answer);
        }
    }
    // A list's pattern, and a name: it ends, whatever both are.
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some((pattern, name)) = text.split_once('\n')
        && let Ok(pattern) = Pattern::new(pattern)
    {
        let _ = pattern.matches(name);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Err((at, why)) = Allow::parse(text, &standard::parts())
    {
        assert!(at.start <= text.len() && !why.is_empty());
    }
});
