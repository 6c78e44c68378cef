//! Sizes as du prints them: rounded up, in units of a block or with a letter.

use std::fmt;

/// Powers of the base, from the first.
const LETTERS: &[u8] = b"KMGTPEZY";

/// How sizes are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// In blocks of so many bytes, with a suffix that names the block.
    Blocks { bytes: u128, suffix: String },
    /// With the letter that fits: powers of 1024, or of 1000.
    Human { base: u16 },
}

/// A block size that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no block size: give a number of bytes above 0 (1024), a unit (K, MiB, MB, … up to E), \
     both (4K), `human-readable` or `si`"
)]
pub(crate) struct NoBlockSize {
    text: String,
    /// What stands before that which cannot be read: in the environment GNU du
    /// goes by that.
    pub(crate) readable: Option<Format>,
}

impl Format {
    pub(crate) fn blocks(bytes: u128) -> Self {
        Format::Blocks { bytes, suffix: String::new() }
    }

    /// A block size as after `--block-size`: `1024`, `4K`, `MB`, `si`.
    ///
    /// Letters count in powers of 1024, with `B` in powers of 1000, with `iB`
    /// again of 1024; a unit without a number is printed after the size.
    pub(crate) fn parse(text: &str) -> Result<Self, NoBlockSize> {
        // Grouping of digits is the C locale's: none.
        let spec = text.strip_prefix('\'').unwrap_or(text);
        match spec {
            "human-readable" => return Ok(Format::Human { base: 1024 }),
            "si" => return Ok(Format::Human { base: 1000 }),
            _ => {}
        }
        let digits = spec.len() - spec.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = spec.split_at(digits);
        let (factor, suffix, rest) = power(unit);
        let number = match number {
            "" => u128::from(!suffix.is_empty()),
            number => number.parse().unwrap_or(u128::MAX),
        };
        let bytes = number.saturating_mul(factor);
        if !rest.is_empty() || !(1..=u64::MAX.into()).contains(&bytes) {
            let readable = (bytes > 0).then(|| Format::blocks(bytes));
            return Err(NoBlockSize { text: text.to_owned(), readable });
        }
        let suffix = if digits == 0 { suffix } else { String::new() };
        Ok(Format::Blocks { bytes, suffix })
    }

    /// `bytes` in this format.
    pub(crate) fn size(&self, bytes: u64) -> Size<'_> {
        Size { format: self, bytes }
    }
}

/// How many bytes the unit has that `text` begins with, how it is printed, and
/// what follows; without a unit they are 1.
fn power(text: &str) -> (u128, String, &str) {
    let mut rest = text.chars();
    let letter = match rest.next() {
        // GNU du takes no other small ones.
        Some(small @ ('k' | 'm' | 'g' | 't')) => small.to_ascii_uppercase(),
        other => other.unwrap_or_default(),
    };
    let Some(exponent) = LETTERS.iter().position(|&l| char::from(l) == letter) else {
        return (1, String::new(), text);
    };
    let rest = rest.as_str();
    let mark = ["iB", "B"].into_iter().find(|mark| rest.starts_with(mark)).unwrap_or_default();
    let base = if mark == "B" { 1000 } else { 1024 };
    let printed = if exponent == 0 && base == 1000 { 'k' } else { letter };
    (u128::pow(base, exponent as u32 + 1), format!("{printed}{mark}"), &rest[mark.len()..])
}

/// A size to print.
pub(crate) struct Size<'a> {
    format: &'a Format,
    bytes: u64,
}

impl fmt::Display for Size<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = u128::from(self.bytes);
        match self.format {
            // As many or more.
            _ if self.bytes == u64::MAX => f.write_str("Infinity"),
            Format::Blocks { bytes: block, suffix } => {
                write!(f, "{}{suffix}", bytes.div_ceil(*block))
            }
            Format::Human { base } => human(f, bytes, (*base).into()),
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
            ("4K", 4097, "2"),
            ("K", 1025, "2K"),
            ("k", 1025, "2K"),
            ("kB", 1001, "2kB"),
            ("MiB", 1, "1MiB"),
            ("2MB", 4_000_001, "3"),
            ("human-readable", 2048, "2.0K"),
            ("si", 2000, "2.0k"),
        ] {
            let format = Format::parse(text).unwrap();
            assert_eq!(format.size(bytes).to_string(), expected, "{text} {bytes}");
        }
    }

    #[test]
    fn no_block_sizes() {
        for (text, readable) in [
            ("", None),
            ("0", None),
            ("0K", None),
            ("B", None),
            ("-1", None),
            ("1X", Some(1)),
            ("1z", Some(1)),
            ("K4", Some(1024)),
            ("1Mi", Some(1 << 20)),
            ("2KBB", Some(2000)),
            ("16E", Some(1 << 64)),
            ("Y", Some(1 << 80)),
            ("99999999999999999999", Some(99_999_999_999_999_999_999)),
        ] {
            let readable = readable.map(Format::blocks);
            let error = Format::parse(text).unwrap_err();
            assert_eq!(error, NoBlockSize { text: text.to_owned(), readable });
        }
    }
}
