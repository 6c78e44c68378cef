//! Lines on standard error.

use std::fmt;
use std::io::Write;

/// Says a line. Where nobody reads it, it is not said: `eprintln!` would panic then, and with it
/// the thread that serves.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "kumiki-httpd: {line}");
}
