//! Parts of a file: `Range` and `Content-Range` (RFC 9110, section 14).

/// Part that a `Range` asks for, before the file's length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeRequest {
    /// Bytes from this one on, to this one if one is named.
    From(u64, Option<u64>),
    /// The last bytes.
    Last(u64),
}

/// A part, as far as the file is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Bytes from this one on, so many.
    Bytes { start: u64, length: u64 },
    /// All of a file that has nothing: no `Content-Range` can say so.
    Empty,
    /// The file has none of it: 416.
    None,
}

impl RangeRequest {
    /// The one range of a `Range` header. `None` if there is none that is understood, or more
    /// than one: then the whole file is the answer.
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        let (unit, ranges) = header.split_at_checked(6)?;
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return None;
        }
        // A list may have elements that are empty (section 5.6.1.2).
        let ranges = ranges.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut ranges = ranges.filter(|range| !range.is_empty());
        let (range, None) = (ranges.next()?, ranges.next()) else { return None };
        let dash = range.iter().position(|byte| *byte == b'-')?;
        let (first, last) = range.split_at_checked(dash)?;
        let last = last.get(1..)?;
        match (first, last) {
            (b"", last) => Some(RangeRequest::Last(number(last)?)),
            (first, b"") => Some(RangeRequest::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(RangeRequest::From(first, Some(last)))
            }
        }
    }

    /// The part of a file of this length.
    pub(crate) fn of(self, size: u64) -> Part {
        let (start, end) = match self {
            RangeRequest::From(first, last) => {
                (first, last.map_or(size, |last| last.saturating_add(1).min(size)))
            }
            RangeRequest::Last(1..) if size == 0 => return Part::Empty,
            RangeRequest::Last(bytes) => (size - bytes.min(size), size),
        };
        if start < end { Part::Bytes { start, length: end - start } } else { Part::None }
    }
}

/// Digits alone: neither signs nor spaces. One beyond 64 bits is beyond every file.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(std::str::from_utf8(digits).ok()?.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_of_bytes_is_understood() {
        let parse = |header: &str| RangeRequest::parse(header.as_bytes());
        assert_eq!(parse("bytes=0-9"), Some(RangeRequest::From(0, Some(9))));
        assert_eq!(parse("Bytes=7-"), Some(RangeRequest::From(7, None)));
        assert_eq!(parse("bytes=-5"), Some(RangeRequest::Last(5)));
        for one in ["bytes=0-1,", "bytes=,0-1", "bytes= , 0-1 ,,\t"] {
            assert_eq!(parse(one), Some(RangeRequest::From(0, Some(1))), "{one}");
        }
        let beyond = "99999999999999999999";
        assert_eq!(
            parse(&format!("bytes=0-{beyond}")),
            Some(RangeRequest::From(0, Some(u64::MAX)))
        );
        assert_eq!(parse(&format!("bytes={beyond}-")), Some(RangeRequest::From(u64::MAX, None)));
        assert_eq!(parse(&format!("bytes=-{beyond}")), Some(RangeRequest::Last(u64::MAX)));
        for other in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=9-0",
            "bytes=99999999999999999999-0",
            "bytes=0-1,3-4",
            "bytes=a-b",
            "bytes=+1-2",
            "lines=0-1",
            "bytes=1 - 2",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_part_ends_with_the_file() {
        let bytes = |start, length| Part::Bytes { start, length };
        assert_eq!(RangeRequest::From(0, Some(9)).of(100), bytes(0, 10));
        assert_eq!(RangeRequest::From(90, Some(u64::MAX)).of(100), bytes(90, 10));
        assert_eq!(RangeRequest::From(99, None).of(100), bytes(99, 1));
        assert_eq!(RangeRequest::From(100, None).of(100), Part::None);
        assert_eq!(RangeRequest::Last(5).of(100), bytes(95, 5));
        assert_eq!(RangeRequest::Last(500).of(100), bytes(0, 100));
        assert_eq!(RangeRequest::Last(0).of(100), Part::None);
        assert_eq!(RangeRequest::Last(5).of(0), Part::Empty);
        assert_eq!(RangeRequest::Last(0).of(0), Part::None);
        assert_eq!(RangeRequest::From(0, None).of(0), Part::None);
    }
}
