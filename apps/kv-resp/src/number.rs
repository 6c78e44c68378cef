//! Decimal numbers, as Redis takes and writes them.

/// Bytes of a 64-bit number, at most.
pub const MOST_DIGITS: usize = 20;

/// A decimal number, if the text is just what would be written for one: no sign of plus, no
/// nought in front, no minus nought.
pub fn number(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    digits.iter().try_fold(0_i64, |sum, digit| {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        let sum = sum.checked_mul(10)?;
        if is_negative { sum.checked_sub(digit) } else { sum.checked_add(digit) }
    })
}

/// Writes a number's digits into the end of `buffer`, and gives them.
pub fn digits(number: i64, buffer: &mut [u8; 24]) -> &[u8] {
    let (mut at, mut left) = (buffer.len(), number.unsigned_abs());
    loop {
        at -= 1;
        buffer[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    #[test]
    fn only_what_would_be_written_is_a_number() {
        for text in ["", "-", "+1", "007", "-0", "-01", "1 ", " 1", "1.0", "0x1", "00", "९"] {
            assert_eq!(super::number(text.as_bytes()), None, "{text}");
        }
        for (text, number) in [("0", 0), ("-1", -1), ("10", 10), ("9223372036854775807", i64::MAX)]
        {
            assert_eq!(super::number(text.as_bytes()), Some(number));
        }
        assert_eq!(super::number(b"9223372036854775808"), None);
        assert_eq!(super::number(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(super::number(b"-9223372036854775809"), None);
    }

    proptest! {
        #[test]
        fn numbers_come_back(number: i64) {
            let mut buffer = [0; 24];
            let text = super::digits(number, &mut buffer);
            prop_assert_eq!(text.to_vec(), number.to_string().into_bytes());
            prop_assert_eq!(super::number(text), Some(number));
        }
    }
}
