//! Text of another party on its way to a terminal.
//!
//! Names of processes, labels of results, lines of another machine: whoever wrote
//! them may have written what a terminal carries out (an escape sequence moves the
//! cursor, renames the window, fills the clipboard), what forges a row (a line's
//! end), or what shows letters in another order than they stand in (the overrides of
//! the bidirectional algorithm, <https://trojansource.codes>). [`visible`] shows such
//! characters as `\u{1b}`, as Rust's `{:?}` does, and leaves all others as they are:
//!
//! ```
//! use kumiki_sys::visible::visible;
//!
//! assert_eq!(visible("core0/\x1b[2Jgone\nroot").to_string(), r"core0/\u{1b}[2Jgone\nroot");
//! assert_eq!(visible("naïve 12 µs").to_string(), "naïve 12 µs");
//! ```
//!
//! The other direction does not exist: `\u{1b}` may also be what was written.

use std::fmt::{self, Display, Write};

/// Shows `text` in one line, without anything that a terminal would carry out.
pub fn visible<T: Display>(text: T) -> Visible<T> {
    Visible { text, lines: false }
}

/// Makes a text of several lines visible, whose ends stay.
pub fn visible_lines<T: Display>(text: T) -> Visible<T> {
    Visible { text, lines: true }
}

/// True if a terminal shows the character as itself, in its place.
///
/// It does not for controls (Cc), formats (Cf: bidirectional marks, invisible
/// operators, tags) and the separators of lines and paragraphs (Zl, Zp), by the
/// general categories of Unicode 16. The joiners U+200C and U+200D, which are Cf,
/// belong to words of Persian and to emoji, and stay.
pub const fn is_shown(character: char) -> bool {
    !matches!(character,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{180e}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Text that [`visible`] and [`visible_lines`] return; width, precision and alignment of a format
/// apply to the shown form.
#[derive(Clone, Copy, Debug)]
pub struct Visible<T> {
    text: T,
    lines: bool,
}

impl<T: Display> Display for Visible<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() && f.precision().is_none() {
            return write!(Filter { to: f, lines: self.lines }, "{}", self.text);
        }
        let mut shown = String::new();
        write!(Filter { to: &mut shown, lines: self.lines }, "{}", self.text)?;
        f.pad(&shown)
    }
}

/// Passes text on, character by character.
struct Filter<'a, W> {
    to: &'a mut W,
    lines: bool,
}

impl<W: Write> Filter<'_, W> {
    fn passes(&self, character: char) -> bool {
        is_shown(character) || (self.lines && character == '\n')
    }
}

impl<W: Write> Write for Filter<'_, W> {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        while let Some((at, hidden)) = text.char_indices().find(|(_, c)| !self.passes(*c)) {
            self.to.write_str(&text[..at])?;
            write!(self.to, "{}", hidden.escape_debug())?;
            text = &text[at + hidden.len_utf8()..];
        }
        self.to.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_carries_out_is_shown_instead() {
        for (written, shown) in [
            ("\x1b]52;c;aGk=\x07", r"\u{1b}]52;c;aGk=\u{7}"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("a\r\nb\tc\u{7f}", r"a\r\nb\tc\u{7f}"),
            ("user\u{202e}txt.exe", r"user\u{202e}txt.exe"),
            ("\u{2066}x\u{2069}\u{200f}", r"\u{2066}x\u{2069}\u{200f}"),
            ("a\u{2028}b\u{200b}c\u{feff}", r"a\u{2028}b\u{200b}c\u{feff}"),
            (r"C:\n'a'\u{1b}", r"C:\n'a'\u{1b}"),
            ("e\u{301} 組木 12\u{202f}µs 👩\u{200d}💻", "e\u{301} 組木 12\u{202f}µs 👩\u{200d}💻"),
        ] {
            assert_eq!(visible(written).to_string(), shown, "{written:?}");
        }
        assert_eq!(visible_lines("a\x1bb\r\nc").to_string(), "a\\u{1b}b\\r\nc");
    }

    #[test]
    fn columns_are_counted_in_what_is_shown() {
        assert_eq!(format!("{:>4}|{:<6}|", visible("ab"), visible("\n")), r"  ab|\n    |");
        assert_eq!(format!("{:.2}", visible("\x1b[2J")), r"\u");
    }

    /// The standard library has tables of what can be printed, by the same categories:
    /// whatever it prints as itself is shown here, and whatever it does not print and a
    /// terminal could carry out is hidden.
    #[test]
    fn no_assigned_control_or_format_is_missing() {
        for character in '\0'..=char::MAX {
            // After a letter, marks that combine with it are printed.
            let printed = format!("{:?}", format!("a{character}"));
            let is_printed = printed.contains(character);
            let joins = matches!(character, '\u{200c}' | '\u{200d}');
            assert!(!is_printed || is_shown(character), "{character:?}");
            assert!(!character.is_control() || !is_shown(character), "{character:?}");
            assert!(joins || !is_bidi_or_separator(character) || !is_shown(character));
        }
    }

    /// Property Bidi_Control of Unicode, and the separators.
    fn is_bidi_or_separator(character: char) -> bool {
        matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
    }

    proptest! {
        #[test]
        fn nothing_hidden_remains_and_nothing_else_changes(text in any::<String>()) {
            let shown = visible(&text).to_string();
            prop_assert!(shown.chars().all(is_shown));
            if text.chars().all(is_shown) {
                prop_assert_eq!(shown, text);
            }
        }

        /// However the text arrives, in pieces or whole.
        #[test]
        fn pieces_are_as_the_whole(one in any::<String>(), two in any::<String>()) {
            let pieces = visible(format_args!("{one}{two}")).to_string();
            prop_assert_eq!(pieces, visible(format!("{one}{two}")).to_string());
        }
    }
}
