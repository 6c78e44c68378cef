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
    "{0:?} is no block size: give a number of bytes above 0 (1024), a unit (K, MiB, MB, … up to Y), \
     both (4K), `human-readable` or `si`"
)]
pub(crate) struct NoBlockSize(String);

impl Format {
    pub(crate) fn blocks(bytes: u32) -> Self {
        Format::Blocks { bytes: bytes.into(), suffix: String::new() }
    }

    /// A block size as after `--block-size`: `1024`, `4K`, `MB`, `si`.
    ///
    /// Letters count in powers of 1024, with `B` in powers of 1000, with `iB`
    /// again of 1024; a unit without a number is printed after the size.
    pub(crate) fn parse(text: &str) -> Result<Self, NoBlockSize> {
        let wrong = || NoBlockSize(text.to_owned());
        // Grouping of digits is the C locale's: none.
        let spec = text.strip_prefix('\'').unwrap_or(text);
        match spec {
            "human-readable" => return Ok(Format::Human { base: 1024 }),
            "si" => return Ok(Format::Human { base: 1000 }),
            _ => {}
        }
        let digits = spec.len() - spec.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = spec.split_at(digits);
        let number: u128 = match number {
            "" if unit.is_empty() => return Err(wrong()),
            "" => 1,
            number => number.parse::<u64>().map_err(|_| wrong())?.into(),
        };
        let (factor, mut suffix) = power(unit).ok_or_else(wrong)?;
        if digits > 0 {
            suffix.clear();
        }
        let bytes = number.checked_mul(factor).filter(|&bytes| bytes > 0).ok_or_else(wrong)?;
        Ok(Format::Blocks { bytes, suffix })
    }

    /// `bytes` in this format.
    pub(crate) fn size(&self, bytes: u64) -> Size<'_> {
        Size { format: self, bytes }
    }
}

/// How many bytes a unit has, and how it is printed.
fn power(unit: &str) -> Option<(u128, String)> {
    let mut chars = unit.chars();
    let Some(letter) = chars.next() else { return Some((1, String::new())) };
    let (base, mark) = match chars.as_str() {
        "" => (1024, ""),
        "iB" => (1024, "iB"),
        "B" => (1000, "B"),
        _ => return None,
    };
    let letter = letter.to_ascii_uppercase();
    let exponent = LETTERS.iter().position(|&l| char::from(l) == letter)? as u32 + 1;
    let printed = if exponent == 1 && base == 1000 { 'k' } else { letter };
    Some((u128::checked_pow(base, exponent)?, format!("{printed}{mark}")))
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
            (u64::MAX, "16E"),
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
        for text in ["", "0", "B", "K4", "1X", "1KBB", "-1", "99999999999999999999", "0K"] {
            assert_eq!(Format::parse(text), Err(NoBlockSize(text.to_owned())), "{text}");
        }
    }
}
