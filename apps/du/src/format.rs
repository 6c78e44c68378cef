//! Sizes as du prints them: rounded up, in units of a block or with a letter.

use std::fmt;

use crate::choice::choose;
use crate::number::{self, Refused, Units, exponent};

/// Powers of the base, from the first.
const LETTERS: &[u8] = b"KMGTPEZY";

/// Form in which sizes are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Number of blocks of so many bytes, with a suffix that names the block.
    Blocks { bytes: u64, suffix: String },
    /// Number with the letter that fits: powers of 1024, or of 1000.
    Human { base: u16 },
}

/// A block size that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoBlockSize {
    pub(crate) refused: Refused,
    /// Format before the part that cannot be read: in the environment GNU du goes by that.
    pub(crate) readable: Option<Format>,
}

impl Format {
    pub(crate) fn blocks(bytes: u64) -> Self {
        Format::Blocks { bytes, suffix: String::new() }
    }

    /// A block size as after `--block-size`: `1024`, `0x400`, `4K`, `MB`, `si`.
    ///
    /// Letters count in powers of 1024, with `B` in powers of 1000, with `iB`
    /// again of 1024; a unit without a number is printed after the size.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, NoBlockSize> {
        // Grouping of digits is the C locale's: none.
        let spec = text.strip_prefix(b"'").unwrap_or(text);
        let words = [("human-readable", 1024), ("si", 1000)];
        if let Ok(base) = choose(spec, &words) {
            return Ok(Format::Human { base });
        }
        let refuse = |refused, readable| NoBlockSize { refused, readable };
        let number = number::read(spec, 0, u64::MAX.into(), Units::Block)
            .ok_or(refuse(Refused::Invalid, None))?;
        // Within the limits.
        let bytes = number.value as u64;
        if bytes == 0 {
            return Err(refuse(Refused::Invalid, None));
        }
        number.checked().map_err(|refused| refuse(refused, Some(Format::blocks(bytes))))?;
        let unit = &spec[..number.end];
        let named = !unit.iter().any(u8::is_ascii_digit);
        Ok(Format::Blocks { bytes, suffix: if named { suffix(unit) } else { String::new() } })
    }

    /// Format for numbers of files: blocks are one.
    pub(crate) fn for_inodes(self) -> Self {
        match self {
            Format::Blocks { suffix, .. } => {
                let mark = if suffix.ends_with('B') { "B" } else { "" };
                Format::Blocks { bytes: 1, suffix: mark.to_owned() }
            }
            human => human,
        }
    }

    /// `bytes` in this format.
    pub(crate) fn size(&self, bytes: u64) -> Size<'_> {
        Size { format: self, bytes }
    }
}

/// Printed form of a unit: `k` is 1000, and all others are large letters.
fn suffix(unit: &[u8]) -> String {
    let letter = unit.first().and_then(|&letter| exponent(letter)).unwrap_or(1);
    let letter = char::from(LETTERS[letter as usize - 1]);
    match unit[1..] {
        [b'B'] if letter == 'K' => "kB".to_owned(),
        [b'B'] => format!("{letter}B"),
        [b'i', b'B'] => format!("{letter}iB"),
        _ => letter.to_string(),
    }
}

/// A size to print.
pub(crate) struct Size<'a> {
    format: &'a Format,
    bytes: u64,
}

impl fmt::Display for Size<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            // As many or more.
            _ if self.bytes == u64::MAX => f.write_str("Infinity"),
            Format::Blocks { bytes: block, suffix } => {
                write!(f, "{}{suffix}", self.bytes.div_ceil(*block))
            }
            Format::Human { base } => human(f, self.bytes.into(), (*base).into()),
        }
    }
}

/// Three digits at most, four with powers of 1024: one behind the point below
/// ten, none above; never less than there is.
fn human(f: &mut fmt::Formatter<'_>, bytes: u128, base: u128) -> fmt::Result {
    let mut unit = 1;
    let mut exponent = 0;
    while bytes / unit >= base && exponent < LETTERS.len() {
        unit *= base;
        exponent += 1;
    }
    if exponent == 0 {
        return write!(f, "{bytes}");
    }
    let letter = |exponent: usize| match (exponent, base) {
        (1, 1000) => 'k',
        _ => char::from(LETTERS[exponent - 1]),
    };
    let tenths = (bytes * 10).div_ceil(unit);
    if tenths < 100 {
        return write!(f, "{}.{}{}", tenths / 10, tenths % 10, letter(exponent));
    }
    match bytes.div_ceil(unit) {
        whole if whole == base && exponent < LETTERS.len() => {
            write!(f, "1.0{}", letter(exponent + 1))
        }
        whole => write!(f, "{whole}{}", letter(exponent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn human(bytes: u64, base: u16) -> String {
        Format::Human { base }.size(bytes).to_string()
    }

    #[test]
    fn human_sizes_round_up() {
        for (bytes, expected) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (4096, "4.0K"),
            (10 * 1024 - 1, "10K"),
            (10 * 1024 + 1, "11K"),
            (1023 * 1024 + 1, "1.0M"),
            (5_825_612 * 1024, "5.6G"),
            (u64::MAX - 1, "16E"),
            (u64::MAX, "Infinity"),
        ] {
            assert_eq!(human(bytes, 1024), expected, "{bytes}");
        }
        assert_eq!(human(1001, 1000), "1.1k");
        assert_eq!(human(999_001, 1000), "1.0M");
    }

    #[test]
    fn block_sizes() {
        for (text, bytes, expected) in [
            ("1", 5, "5"),
            ("1024", 1025, "2"),
            ("0x10", 17, "2"),
            ("010", 17, "3"),
            ("4K", 4097, "2"),
            ("K", 1025, "2K"),
            ("k", 1025, "2K"),
            ("kB", 1001, "2kB"),
            ("kD", 1001, "2K"),
            ("MiB", 1, "1MiB"),
            ("2MB", 4_000_001, "3"),
            ("'1", 1_000_000, "1000000"),
            ("human-readable", 2048, "2.0K"),
            ("human", 2048, "2.0K"),
            ("'s", 2000, "2.0k"),
        ] {
            let format = Format::parse(text.as_bytes()).unwrap();
            assert_eq!(format.size(bytes).to_string(), expected, "{text} {bytes}");
        }
        let inodes = |text: &str| Format::parse(text.as_bytes()).unwrap().for_inodes();
        assert_eq!(inodes("M").size(5).to_string(), "5");
        assert_eq!(inodes("MiB").size(5).to_string(), "5B");
        assert_eq!(inodes("si").size(5000).to_string(), "5.0k");
    }

    #[test]
    fn no_block_sizes() {
        for (text, refused, readable) in [
            ("", Refused::Invalid, None),
            ("0", Refused::Invalid, None),
            ("0K", Refused::Invalid, None),
            ("B", Refused::Invalid, None),
            ("-1", Refused::Invalid, None),
            ("0x", Refused::Invalid, None),
            ("1X", Refused::WrongUnit, Some(1)),
            ("1z", Refused::WrongUnit, Some(1)),
            ("K4", Refused::WrongUnit, Some(1024)),
            ("1Mi", Refused::WrongUnit, Some(1 << 20)),
            ("2KBB", Refused::WrongUnit, Some(2000)),
            ("16E", Refused::TooLarge, Some(u64::MAX)),
            ("Y", Refused::TooLarge, Some(u64::MAX)),
        ] {
            let readable = readable.map(Format::blocks);
            let error = Format::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error, NoBlockSize { refused, readable }, "{text}");
        }
    }
}
