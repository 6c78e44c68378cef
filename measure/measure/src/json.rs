//! JSON that a terminal shows as it is.

use std::io::{self, Write};

use kumiki_sys::visible::is_shown;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Writes any value as one line of JSON, with `\u` for each character that a terminal
/// would carry out, not show: readers of JSON see no difference.
///
/// # Errors
///
/// Fails if `out` does, or if the value cannot be JSON.
pub fn line(value: &(impl Serialize + ?Sized), mut out: impl Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut out, Visible))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// JSON as serde_json writes it, which escapes what JSON asks for: U+0000 to U+001F.
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        to: &mut W,
        mut text: &str,
    ) -> io::Result<()> {
        while let Some((at, hidden)) = text.char_indices().find(|(_, c)| !is_shown(*c)) {
            to.write_all(&text.as_bytes()[..at])?;
            for unit in hidden.encode_utf16(&mut [0; 2]) {
                write!(to, "\\u{unit:04x}")?;
            }
            text = &text[at + hidden.len_utf8()..];
        }
        to.write_all(text.as_bytes())
    }
}
