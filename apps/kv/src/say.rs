//! Words for who has started the server.

use std::io::Write;

/// Says something on standard error; it is no fault if nobody listens.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "kumiki-kv: {text}");
}
