//! Words for who has started the server.

use std::io::Write;

/// Exit status of a server one of whose threads has died; its unit starts it anew.
pub(crate) const DIED: i32 = 70;

/// Says something on standard error; it is no fault if nobody listens.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "kumiki-kv: {text}");
}
