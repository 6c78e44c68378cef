//! Numbers with a unit behind them, as GNU's programs take them: decimal, octal after
//! `0`, hexadecimal after `0x`, binary after `0b`; `K`, `KiB` (1024), `KB` (1000).

/// A number that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// Value, or the limit if the number is beyond it.
    pub(crate) value: i128,
    /// True if it is beyond the limit.
    pub(crate) too_large: bool,
    /// The unit is none.
    pub(crate) wrong_unit: bool,
    /// End of the text that was read.
    pub(crate) end: usize,
}

/// Reason for which a number cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Invalid,
    WrongUnit,
    TooLarge,
}

impl Refused {
    /// Message in the words of GNU's programs; `option` as it was given.
    pub(crate) fn text(self, option: &str, value: &[u8]) -> Vec<u8> {
        let option = option.as_bytes();
        match self {
            Refused::Invalid => [b"invalid ", option, b" argument '", value, b"'"].concat(),
            Refused::WrongUnit => {
                [b"invalid suffix in ", option, b" argument '", value, b"'"].concat()
            }
            Refused::TooLarge => [option, b" argument '", value, b"' too large"].concat(),
        }
    }
}

impl Number {
    pub(crate) fn checked(self) -> Result<i128, Refused> {
        match self {
            Number { wrong_unit: true, .. } => Err(Refused::WrongUnit),
            Number { too_large: true, .. } => Err(Refused::TooLarge),
            Number { value, .. } => Ok(value),
        }
    }
}

/// Beginnings of the units that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    None,
    /// Units of a block size: with small letters, and up to Y.
    Block,
    /// Units of a threshold.
    Threshold,
}

impl Units {
    /// Bytes that may begin a unit. Some of a block size are no unit after all, and
    /// make a difference only in what is said.
    fn first(self) -> &'static [u8] {
        match self {
            Units::None => b"",
            Units::Block => b"eEgGkKmMpPtTyYzZ0",
            Units::Threshold => b"kKmMGTPEZYRQ0",
        }
    }
}

/// Reads the number that `text` is; `None` if it is none. With a `lowest` of 0 there is
/// no sign but `+`.
pub(crate) fn read(text: &[u8], lowest: i128, highest: i128, units: Units) -> Option<Number> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    if lowest == 0 && text.get(start) == Some(&b'-') {
        return None;
    }
    let negative = text.get(start) == Some(&b'-');
    let signed = start + usize::from(matches!(text.get(start), Some(b'-' | b'+')));
    let mut number = match digits(&text[signed..]) {
        Some((magnitude, length)) => {
            let value = if negative { magnitude.saturating_neg() } else { magnitude };
            let kept = value.clamp(lowest, highest);
            Number {
                value: kept,
                too_large: kept != value,
                wrong_unit: false,
                end: signed + length,
            }
        }
        // A unit alone is one of it.
        None if !text.is_empty() && units.first().contains(&text[0]) => {
            Number { value: 1, too_large: false, wrong_unit: false, end: 0 }
        }
        None => return None,
    };
    let unit = &text[number.end..];
    let Some(&letter) = unit.first() else { return Some(number) };
    let exponent = exponent(letter).filter(|_| units.first().contains(&letter));
    let Some(exponent) = exponent else {
        number.wrong_unit = true;
        return Some(number);
    };
    let (base, length) = match unit[1..] {
        [b'i', b'B', ..] => (1024, 3),
        // D is an old B.
        [b'B' | b'D', ..] => (1000, 2),
        _ => (1024, 1),
    };
    let scaled = (0..exponent).try_fold(number.value, |value, _| {
        value.checked_mul(base).filter(|scaled| (lowest..=highest).contains(scaled))
    });
    match scaled {
        Some(value) => number.value = value,
        None => {
            number.value = if number.value < 0 { lowest } else { highest };
            number.too_large = true;
        }
    }
    number.end += length;
    number.wrong_unit = number.end < text.len();
    Some(number)
}

/// The power that a unit is.
pub(crate) fn exponent(letter: u8) -> Option<u32> {
    Some(match letter {
        b'k' | b'K' => 1,
        b'm' | b'M' => 2,
        b'g' | b'G' => 3,
        b't' | b'T' => 4,
        b'P' => 5,
        b'E' => 6,
        b'Z' => 7,
        b'Y' => 8,
        b'R' => 9,
        b'Q' => 10,
        _ => return None,
    })
}

/// The number that `text` begins with, and how long it is there.
fn digits(text: &[u8]) -> Option<(i128, usize)> {
    let value_of = |byte: u8, base: u32| char::from(byte).to_digit(base);
    let follows = |base| text.get(2).is_some_and(|&byte| value_of(byte, base).is_some());
    let (base, prefix) = match text {
        [b'0', b'x' | b'X', ..] if follows(16) => (16, 2),
        [b'0', b'b' | b'B', ..] if follows(2) => (2, 2),
        [b'0', ..] => (8, 0),
        _ => (10, 0),
    };
    let digits = text[prefix..].iter().map_while(|&byte| value_of(byte, base));
    let (value, length) = digits.fold((0i128, 0), |(value, length), digit| {
        (value.saturating_mul(base.into()).saturating_add(digit.into()), length + 1)
    });
    (length > 0).then_some((value, prefix + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: i128 = u64::MAX as i128;

    #[test]
    fn numbers() {
        for (text, expected) in [
            ("0x10", Ok(16)),
            ("010", Ok(8)),
            ("0b101", Ok(5)),
            (" \t+7", Ok(7)),
            ("0", Ok(0)),
            ("4KiB", Ok(4096)),
            ("1kB", Ok(1000)),
            ("1kD", Ok(1000)),
            ("m", Ok(1 << 20)),
            ("16E", Err(Refused::TooLarge)),
            ("18446744073709551616", Err(Refused::TooLarge)),
            ("99999999999999999999999999999999999999999999", Err(Refused::TooLarge)),
            ("1Ki", Err(Refused::WrongUnit)),
            ("0x", Err(Refused::WrongUnit)),
            ("08", Err(Refused::WrongUnit)),
            ("1e", Err(Refused::WrongUnit)),
            ("e", Err(Refused::WrongUnit)),
            ("1Yx", Err(Refused::WrongUnit)),
            ("1Q", Err(Refused::WrongUnit)),
            ("-1", Err(Refused::Invalid)),
            ("", Err(Refused::Invalid)),
            ("x", Err(Refused::Invalid)),
            (" K", Err(Refused::Invalid)),
        ] {
            let number = read(text.as_bytes(), 0, MOST, Units::Block);
            assert_eq!(
                number.ok_or(Refused::Invalid).and_then(Number::checked),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_with_a_sign() {
        let (lowest, highest) = (i64::MIN.into(), i64::MAX.into());
        let signed = |text: &str| read(text.as_bytes(), lowest, highest, Units::Threshold).unwrap();
        assert_eq!(signed("-2K").value, -2048);
        assert_eq!(signed("-9E").checked(), Err(Refused::TooLarge));
        assert_eq!(signed("-9E").value, lowest);
        assert_eq!(signed("8E").value, highest);
        assert!(read(b"0xg1", lowest, highest, Units::None).unwrap().wrong_unit);
    }
}
