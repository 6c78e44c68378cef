//! Sums of numbers with a point.

use super::row::Refused;

/// Digits behind the point.
const PLACES: usize = 17;
const ONE: i128 = 10_i128.pow(PLACES as u32);
const WRONG: Refused = "ERR value is not a valid float";
const ENDLESS: Refused = "ERR increment would produce NaN or Infinity";

/// The sum of two numbers as text, with 17 digits behind the point at most. It is exact as long as
/// the numbers have no more, and some twenty digits in front of it; others are added as floats.
pub(super) fn sum(a: &[u8], b: &[u8]) -> Result<String, Refused> {
    let (a, b) = (text(a)?, text(b)?);
    if let (Some(a), Some(b)) = (fixed(a), fixed(b))
        && let Some(sum) = a.checked_add(b)
    {
        let sign = if sum < 0 { "-" } else { "" };
        let sum = sum.unsigned_abs();
        let (whole, part) = (sum / ONE as u128, sum % ONE as u128);
        return Ok(trimmed(format!("{sign}{whole}.{part:0PLACES$}")));
    }
    let sum = number(a)? + number(b)?;
    if !sum.is_finite() {
        return Err(ENDLESS);
    }
    Ok(trimmed(format!("{sum:.PLACES$}")))
}

fn text(word: &[u8]) -> Result<&str, Refused> {
    let text = std::str::from_utf8(word).map_err(|_| WRONG)?;
    // Whether it is a number at all.
    number(text).map(|_| text)
}

fn number(text: &str) -> Result<f64, Refused> {
    let number: f64 = text.parse().map_err(|_| WRONG)?;
    // What is too large to be a float is none; infinity by name is one, whose sum is refused.
    let is_named =
        text.bytes().any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E'));
    if number.is_nan() || number.is_infinite() && !is_named { Err(WRONG) } else { Ok(number) }
}

/// A number of 17 digits behind the point, if it is exactly that.
fn fixed(text: &str) -> Option<i128> {
    let (is_negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() > 20 || part.len() > PLACES || !all_digits(whole) || !all_digits(part) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: i128 = format!("{part:0<PLACES$}").parse().ok()?;
    let sum = whole.checked_mul(ONE)?.checked_add(part)?;
    Some(if is_negative { -sum } else { sum })
}

fn trimmed(mut text: String) -> String {
    if text.contains('.') {
        let length = text.trim_end_matches('0').trim_end_matches('.').len();
        text.truncate(length);
    }
    if text == "-0" { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sums_are_those_of_redis() {
        for (a, b, sum) in [
            ("3", "1.1", "4.1"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0", "-1.1", "-1.1"),
            ("1", "-1", "0"),
            ("3.0", "1.00", "4"),
            ("17179869184", "1.5", "17179869185.5"),
            (".5", "5.", "5.5"),
        ] {
            assert_eq!(super::sum(a.as_bytes(), b.as_bytes()).as_deref(), Ok(sum), "{a} {b}");
        }
        for wrong in ["", " 1", "1 ", "x", "nan", "1e400", "1,5"] {
            assert_eq!(super::sum(wrong.as_bytes(), b"1"), Err(super::WRONG), "{wrong}");
        }
        assert_eq!(super::sum(b"1", b"inf"), Err(super::ENDLESS));
    }
}
