//! Dates laid out as date(1) does it: `%Y-%m-%d`, with GNU's flags and widths, in the
//! words of the C locale.

use super::Moment;
use super::calendar::Date;
use super::zone::Zone;

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A format and the place by whose clocks it is filled in.
#[derive(Debug)]
pub(crate) struct Layout {
    format: Vec<u8>,
    zone: Zone,
}

/// Bytes that fill a field up to its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pad {
    /// The conversion's own.
    Usual,
    Space,
    Nothing,
    Zero,
    /// Zeros, and a plus sign where a year has more digits than usual.
    Sign,
}

/// Flags and width between `%` and the letter.
#[derive(Clone, Copy, Debug)]
struct Field {
    pad: Pad,
    width: Option<usize>,
    upper: bool,
    lower: bool,
    /// `#`: capitals where there are none, or the other way round.
    change: bool,
    /// `E` or `O`.
    modifier: Option<u8>,
}

/// Form of a number.
struct Figure {
    negative: bool,
    magnitude: u64,
    digits: usize,
    /// Write a plus sign.
    plus: bool,
}

impl Layout {
    /// Makes a layout that goes by the clocks of the environment's zone.
    pub(crate) fn new(format: Vec<u8>) -> Self {
        Layout { format, zone: Zone::of_environment() }
    }

    /// Writes `moment`; `false`, and its seconds, if its year is beyond any calendar.
    pub(crate) fn write(&self, out: &mut Vec<u8>, moment: Moment) -> bool {
        match Date::new(moment, &self.zone) {
            Some(date) => {
                write(out, &date, &self.format, false, Pad::Usual, None);
                true
            }
            None => {
                out.extend(moment.seconds.to_string().bytes());
                false
            }
        }
    }
}

/// Writes `format`, all in capitals if `upper`. A year in it is padded as `year_pad`
/// says if it does not say so itself, the first one to `year_width`.
fn write(
    out: &mut Vec<u8>,
    date: &Date,
    format: &[u8],
    upper: bool,
    year_pad: Pad,
    year_width: Option<usize>,
) {
    let mut rest = format;
    let mut width = year_width;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        out.extend(&rest[..at]);
        let percent = &rest[at..];
        let (mut field, length) = field(&percent[1..], upper);
        field.width = field.width.or(width.take());
        let after = &percent[1 + length..];
        let colons = after.iter().take_while(|&&byte| byte == b':').count();
        let zone = (1..=3).contains(&colons) && after.get(colons) == Some(&b'z');
        let taken = match after.first() {
            Some(b'%') if length > 0 => None,
            Some(b':') if zone => {
                offset(out, &field, date, colons);
                Some(colons + 1)
            }
            Some(&letter) => convert(out, &field, date, letter, year_pad).then_some(1),
            None => None,
        };
        match taken {
            Some(taken) => rest = &after[taken..],
            // What is no conversion stands for itself.
            None => {
                let whole = match after.first() {
                    Some(b'%') | None => length + 1,
                    Some(b':') if after.get(colons) == Some(&b'z') => length + colons + 2,
                    Some(_) => length + 2,
                };
                pad_text(out, &field, &percent[..whole]);
                rest = &percent[whole..];
            }
        }
    }
    out.extend(rest);
}

/// Reads flags, width and modifier; returns how many bytes they are.
fn field(text: &[u8], upper: bool) -> (Field, usize) {
    let mut field =
        Field { pad: Pad::Usual, width: None, upper, lower: false, change: false, modifier: None };
    let mut at = 0;
    loop {
        match text.get(at) {
            Some(b'_') => field.pad = Pad::Space,
            Some(b'-') => field.pad = Pad::Nothing,
            Some(b'+') => field.pad = Pad::Sign,
            Some(b'0') => field.pad = Pad::Zero,
            Some(b'^') => field.upper = true,
            Some(b'#') => field.change = true,
            _ => break,
        }
        at += 1;
    }
    while let Some(digit) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
        let width = field.width.unwrap_or(0).saturating_mul(10);
        field.width = Some(width.saturating_add(usize::from(digit - b'0')).min(i32::MAX as usize));
        at += 1;
    }
    if let Some(&modifier @ (b'E' | b'O')) = text.get(at) {
        field.modifier = Some(modifier);
        at += 1;
    }
    (field, at)
}

/// Writes what `letter` stands for; `false` if that is nothing.
fn convert(out: &mut Vec<u8>, field: &Field, date: &Date, letter: u8, year_pad: Pad) -> bool {
    let era = field.modifier == Some(b'E');
    let other = field.modifier == Some(b'O');
    let refused = match letter {
        b'a' | b'A' | b'D' | b'F' => era || other,
        b'c' | b'x' | b'X' | b'Y' => other,
        b'B' | b'b' | b'h' | b'd' | b'e' | b'H' | b'I' | b'k' | b'l' | b'j' | b'M' | b'm'
        | b'N' | b'S' | b'U' | b'V' | b'g' | b'G' | b'W' | b'w' => era,
        _ => false,
    };
    if refused {
        return false;
    }
    let capitals = Field { upper: field.upper || field.change, ..*field };
    let small = Field { upper: field.upper && !field.change, lower: field.change, ..*field };
    let weekday = date.weekday as i64;
    let hour_of_half = (date.hour + 11) % 12 + 1;
    let half = if date.hour < 12 { "AM" } else { "PM" };
    let mut composed = |format: &str| compose(out, field, date, format);
    match letter {
        b'%' => pad_text(out, field, b"%"),
        b'n' => pad_text(out, field, b"\n"),
        b't' => pad_text(out, field, b"\t"),
        b'a' => pad_text(out, &capitals, &WEEKDAYS[date.weekday].as_bytes()[..3]),
        b'A' => pad_text(out, &capitals, WEEKDAYS[date.weekday].as_bytes()),
        b'b' | b'h' => pad_text(out, &capitals, &MONTHS[date.month].as_bytes()[..3]),
        b'B' => pad_text(out, &capitals, MONTHS[date.month].as_bytes()),
        b'p' => pad_text(out, &small, half.as_bytes()),
        b'P' => pad_text(out, &Field { lower: true, ..*field }, half.as_bytes()),
        b'Z' => pad_text(out, &small, date.local.abbreviation.as_bytes()),
        b'c' => composed("%a %b %e %H:%M:%S %Y"),
        b'x' => composed("%m/%d/%y"),
        b'X' => composed("%H:%M:%S"),
        b'r' => composed("%I:%M:%S %p"),
        b'D' => nested(out, field, date, "%m/%d/%y", field.pad, None),
        b'R' => nested(out, field, date, "%H:%M", field.pad, None),
        b'T' => nested(out, field, date, "%H:%M:%S", field.pad, None),
        b'F' => {
            let usual = field.pad == Pad::Usual && field.width.is_none();
            let pad = if usual { Pad::Sign } else { field.pad };
            let width = if usual { 4 } else { field.width.unwrap_or(0).saturating_sub(6) };
            nested(out, field, date, "%Y-%m-%d", pad, Some(width));
        }
        b'C' => {
            let century = date.year / 100;
            yearish(out, field, year_pad, 2, date.year < 0, century.unsigned_abs());
        }
        b'Y' => yearish(out, field, year_pad, 4, date.year < 0, date.year.unsigned_abs()),
        b'y' => yearish(out, field, year_pad, 2, false, year_of_century(date.year)),
        b'G' => {
            let (year, _) = date.week();
            yearish(out, field, year_pad, 4, year < 0, year.unsigned_abs());
        }
        b'g' => yearish(out, field, year_pad, 2, false, year_of_century(date.week().0)),
        b'V' => number(out, field, 2, date.week().1),
        b'd' => number(out, field, 2, date.day),
        b'e' => spaced(out, field, date.day),
        b'H' => number(out, field, 2, date.hour),
        b'I' => number(out, field, 2, hour_of_half),
        b'k' => spaced(out, field, date.hour),
        b'l' => spaced(out, field, hour_of_half),
        b'j' => number(out, field, 3, date.day_of_year + 1),
        b'M' => number(out, field, 2, date.minute),
        b'm' => number(out, field, 2, date.month as i64 + 1),
        b'N' => nanoseconds(out, field, date.moment.nanoseconds),
        b'q' => number(out, field, 1, date.month as i64 / 3 + 1),
        b'S' => number(out, field, 2, date.second),
        b's' => number(out, &Field { modifier: None, ..*field }, 1, date.moment.seconds),
        b'u' => number(out, field, 1, (weekday + 6) % 7 + 1),
        b'w' => number(out, field, 1, weekday),
        b'U' => number(out, field, 2, (date.day_of_year - weekday + 7) / 7),
        b'W' => number(out, field, 2, (date.day_of_year - (weekday + 6) % 7 + 7) / 7),
        b'z' => offset(out, field, date, 0),
        _ => return false,
    }
    true
}

/// The last two digits; before the first year they count backwards.
fn year_of_century(year: i64) -> u64 {
    if year < 0 { year.unsigned_abs() % 100 } else { year as u64 % 100 }
}

/// Text as the C library composes it, which knows no flags.
fn compose(out: &mut Vec<u8>, field: &Field, date: &Date, format: &str) {
    let mut text = Vec::new();
    write(&mut text, date, format.as_bytes(), false, Pad::Usual, None);
    pad_text(out, field, &text);
}

fn nested(
    out: &mut Vec<u8>,
    field: &Field,
    date: &Date,
    format: &str,
    year_pad: Pad,
    year_width: Option<usize>,
) {
    let mut text = Vec::new();
    write(&mut text, date, format.as_bytes(), field.upper, year_pad, year_width);
    pad_text(out, &Field { upper: false, lower: false, ..*field }, &text);
}

fn number(out: &mut Vec<u8>, field: &Field, digits: usize, value: i64) {
    let figure =
        Figure { negative: value < 0, magnitude: value.unsigned_abs(), digits, plus: false };
    figure.write(out, field, &|text| text);
}

/// Two digits, with a space before one.
fn spaced(out: &mut Vec<u8>, field: &Field, value: i64) {
    let pad = if field.pad == Pad::Usual { Pad::Space } else { field.pad };
    if field.modifier.is_some() {
        return pad_text(out, field, format!("{value:2}").as_bytes());
    }
    number(out, &Field { pad, ..*field }, 2, value);
}

fn yearish(
    out: &mut Vec<u8>,
    field: &Field,
    year_pad: Pad,
    digits: usize,
    negative: bool,
    magnitude: u64,
) {
    let pad = if field.pad == Pad::Usual { year_pad } else { field.pad };
    let usual = if digits == 2 { 99 } else { 9999 };
    let plus = pad == Pad::Sign && (magnitude > usual || field.width.is_some_and(|w| digits < w));
    Figure { negative, magnitude, digits, plus }.write(out, &Field { pad, ..*field }, &|text| text);
}

/// Hours and minutes east of Greenwich; with colons, and seconds, as asked for.
fn offset(out: &mut Vec<u8>, field: &Field, date: &Date, colons: usize) {
    let east = date.local.offset_seconds;
    let unknown = east == 0 && date.local.abbreviation.starts_with('-');
    let negative = east < 0 || unknown;
    let east = u64::from(east.unsigned_abs());
    let (hours, minutes, seconds) = (east / 3600, east / 60 % 60, east % 60);
    let places = match (colons, minutes, seconds) {
        (0, ..) => 0,
        (1, ..) | (3, 1.., 0) => 1,
        (2, ..) | (3, _, 1..) => 2,
        _ => 3,
    };
    let (magnitude, digits, at): (_, _, &[usize]) = match places {
        0 => (hours * 100 + minutes, 5, &[]),
        1 => (hours * 100 + minutes, 6, &[2]),
        2 => (hours * 10_000 + minutes * 100 + seconds, 9, &[4, 2]),
        _ => (hours, 3, &[]),
    };
    let with_colons = |text: String| {
        // As many digits as there must be before a colon.
        let least = at.first().map_or(0, |first| first + 1);
        let mut text = format!("{text:0>least$}");
        for place in at {
            text.insert(text.len() - place, ':');
        }
        text
    };
    let figure = Figure { negative, magnitude, digits, plus: true };
    figure.write(out, &Field { modifier: None, ..*field }, &with_colons);
}

/// Writes as many digits of nanoseconds as the width says, and zeros behind them.
fn nanoseconds(out: &mut Vec<u8>, field: &Field, nanoseconds: u32) {
    let width = field.width.filter(|&width| width > 0).unwrap_or(9);
    let digits = format!("{nanoseconds:09}");
    let kept = &digits[..width.min(9)];
    let kept = kept.trim_end_matches('0');
    let kept = if kept.is_empty() { "0" } else { kept };
    out.extend(kept.bytes());
    let fill = if field.pad == Pad::Space { b' ' } else { b'0' };
    if field.pad != Pad::Nothing {
        out.extend(std::iter::repeat_n(fill, width - kept.len()));
    }
}

impl Figure {
    fn write(&self, out: &mut Vec<u8>, field: &Field, mark: &dyn Fn(String) -> String) {
        if field.modifier.is_some() && !self.negative {
            // The C library writes these: with its own padding.
            let text = format!("{:0digits$}", self.magnitude, digits = self.digits);
            return pad_text(out, field, text.as_bytes());
        }
        let text = mark(self.magnitude.to_string());
        let sign: &[u8] = match (self.negative, self.plus) {
            (true, _) => b"-",
            (_, true) => b"+",
            _ => b"",
        };
        let width = field.width.unwrap_or(self.digits);
        let missing = width.saturating_sub(sign.len() + text.len());
        match field.pad {
            Pad::Nothing => {
                out.extend(sign);
            }
            Pad::Space => {
                out.extend(std::iter::repeat_n(b' ', missing));
                out.extend(sign);
            }
            Pad::Usual | Pad::Zero | Pad::Sign => {
                out.extend(sign);
                out.extend(std::iter::repeat_n(b'0', missing));
            }
        }
        out.extend(text.bytes());
    }
}

/// Text at the right of its field.
fn pad_text(out: &mut Vec<u8>, field: &Field, text: &[u8]) {
    let width = if field.pad == Pad::Nothing { 0 } else { field.width.unwrap_or(0) };
    let fill = if matches!(field.pad, Pad::Zero | Pad::Sign) { b'0' } else { b' ' };
    out.extend(std::iter::repeat_n(fill, width.saturating_sub(text.len())));
    match (field.lower, field.upper) {
        (true, _) => out.extend(text.to_ascii_lowercase()),
        (_, true) => out.extend(text.to_ascii_uppercase()),
        _ => out.extend(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thursday, the 5th of September 2024.
    const MOMENT: Moment = Moment { seconds: 1_725_531_072, nanoseconds: 120_000_000 };

    fn laid(format: &str, seconds: i64) -> String {
        let layout = Layout { format: format.into(), zone: Zone::utc() };
        let mut out = Vec::new();
        assert!(layout.write(&mut out, Moment { seconds, ..MOMENT }));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn conversions() {
        for (format, expected) in [
            ("%Y-%m-%d %H:%M:%S.%N %z", "2024-09-05 10:11:12.120000000 +0000"),
            ("%a %A %b %B %h", "Thu Thursday Sep September Sep"),
            ("%c|%x|%X|%r", "Thu Sep  5 10:11:12 2024|09/05/24|10:11:12|10:11:12 AM"),
            ("%D %F %R %T", "09/05/24 2024-09-05 10:11 10:11:12"),
            ("%e|%k|%l|%I|%j|%q", " 5|10|10|10|249|3"),
            ("%s %u %w %U %W %V %G %g", "1725531072 4 4 35 36 36 2024 24"),
            ("%:z %::z %:::z %Z", "+00:00 +00:00:00 +00 UTC"),
            ("%^a %#Z %P %#p %^B", "THU utc am am SEPTEMBER"),
            ("%-d %_d %010Y %+6Y %5d %_5d %-m", "5  5 0000002024 +02024 00005     5 9"),
            ("%3N %-N %_N %12N", "120 12 12        120000000000"),
            ("%10a|%010a|%-10a", "       Thu|0000000Thu|Thu"),
            ("%%|%5%|%Q|%:|%::::z|%", "%|   %5%|%Q|%:|%::::z|%"),
            ("%Ed|%Od|%EY|%C", "%Ed|05|2024|20"),
            ("%+F %12F %_12F", "2024-09-05 002024-09-05   2024-09-05"),
        ] {
            assert_eq!(laid(format, MOMENT.seconds), expected, "{format}");
        }
    }

    #[test]
    fn years_beyond_the_usual() {
        assert_eq!(laid("%Y %F %C %y", 253_402_300_800), "10000 +10000-01-01 100 00");
        assert_eq!(laid("%Y %F", -62_200_000_000), "-002 -002-12-17");
        let layout = Layout { format: b"%Y".into(), zone: Zone::utc() };
        let mut out = Vec::new();
        assert!(!layout.write(&mut out, Moment { seconds: i64::MAX, nanoseconds: 0 }));
        assert_eq!(out, b"9223372036854775807");
    }
}
