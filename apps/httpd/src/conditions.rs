//! Conditional requests (RFC 9110, section 13).

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kumiki_parasc::op::Attributes;

use crate::request::Fields;

/// Version of a file: when it was changed and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    modified: SystemTime,
    size: u64,
}

/// The answer's kind, as the conditions have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As if there were none; whether a range counts.
    Whole { range: bool },
    /// 304
    NotModified,
    /// 412
    Failed,
}

impl Version {
    pub(crate) fn of(attributes: &Attributes) -> Self {
        Version { modified: attributes.modified(), size: attributes.size() }
    }

    /// As `Last-Modified` says it: whole seconds, none before 1970.
    pub(crate) fn modified(self) -> SystemTime {
        let since = self.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        UNIX_EPOCH + Duration::from_secs(since.as_secs())
    }

    /// Answers to these conditions.
    pub(crate) fn judge(self, fields: &Fields<'_>) -> Verdict {
        // In the order of section 13.2.2.
        match (fields.if_match, fields.if_unmodified_since) {
            (Some(tags), _) if !self.is_among(tags, true) => return Verdict::Failed,
            (None, Some(date)) if date_of(date).is_some_and(|date| self.modified() > date) => {
                return Verdict::Failed;
            }
            _ => (),
        }
        match (fields.if_none_match, fields.if_modified_since) {
            (Some(tags), _) if self.is_among(tags, false) => return Verdict::NotModified,
            (None, Some(date)) if date_of(date).is_some_and(|date| self.modified() <= date) => {
                return Verdict::NotModified;
            }
            _ => (),
        }
        let range = fields.if_range.is_none_or(|validator| match validator.first() {
            Some(b'"') => self.is_among(validator, true),
            _ => date_of(validator).is_some_and(|date| self.modified() == date),
        });
        Verdict::Whole { range }
    }

    /// Whether its tag stands in a list, or that is `*`. Ours are strong; a weak one is equal
    /// only where a strong one is not asked for.
    fn is_among(self, tags: &[u8], strongly: bool) -> bool {
        let own = self.to_string();
        tags.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|tag| {
            let strong = match tag.strip_prefix(b"W/") {
                Some(_) if strongly => return false,
                Some(tag) => tag,
                None => tag,
            };
            tag == b"*" || strong == own.as_bytes()
        })
    }
}

/// The entity tag, with its quotes.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = match self.modified.duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        write!(f, "\"{nanoseconds:x}-{:x}\"", self.size)
    }
}

fn date_of(field: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(field).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn version() -> Version {
        Version { modified: UNIX_EPOCH + Duration::from_millis(1_000_000_500), size: 0x77 }
    }

    fn date(time: SystemTime) -> String {
        httpdate::fmt_http_date(time)
    }

    #[test]
    fn tags_are_compared_as_the_condition_asks() {
        let (own, version) = (version().to_string(), version());
        let weak = format!("W/{own}");
        let list = format!("\"a\", {own} ,\"b\"");
        let none_match = |tags: &str| {
            version.judge(&Fields { if_none_match: Some(tags.as_bytes()), ..Fields::default() })
        };
        for tags in [&own, &weak, &list, "*"] {
            assert_eq!(none_match(tags), Verdict::NotModified, "{tags}");
        }
        assert_eq!(none_match("\"a\""), Verdict::Whole { range: true });
        let matches = |tags: &str| {
            version.judge(&Fields { if_match: Some(tags.as_bytes()), ..Fields::default() })
        };
        for tags in [&own, &list, "*"] {
            assert_eq!(matches(tags), Verdict::Whole { range: true }, "{tags}");
        }
        for tags in [&weak, "\"a\"", ""] {
            assert_eq!(matches(tags), Verdict::Failed, "{tags}");
        }
    }

    #[test]
    fn dates_count_where_there_are_no_tags() {
        let version = version();
        let (last, before) = (version.modified(), version.modified() - SECOND);
        let since = |time: SystemTime, tag: Option<&'static str>| {
            let date = date(time);
            let fields = Fields {
                if_modified_since: Some(date.as_bytes()),
                if_none_match: tag.map(str::as_bytes),
                ..Fields::default()
            };
            version.judge(&fields)
        };
        assert_eq!(since(last, None), Verdict::NotModified);
        assert_eq!(since(before, None), Verdict::Whole { range: true });
        assert_eq!(since(last, Some("\"other\"")), Verdict::Whole { range: true });
        let unless = |time: SystemTime| {
            let date = date(time);
            let fields = Fields { if_unmodified_since: Some(date.as_bytes()), ..Fields::default() };
            version.judge(&fields)
        };
        assert_eq!(unless(last), Verdict::Whole { range: true });
        assert_eq!(unless(before), Verdict::Failed);
        let nonsense = Fields { if_modified_since: Some(b"yesterday"), ..Fields::default() };
        assert_eq!(version.judge(&nonsense), Verdict::Whole { range: true });
    }

    #[test]
    fn a_range_counts_only_of_the_version_that_is_named() {
        let version = version();
        let judge = |validator: &str| {
            version.judge(&Fields { if_range: Some(validator.as_bytes()), ..Fields::default() })
        };
        for (validator, range) in [
            (version.to_string(), true),
            (date(version.modified()), true),
            (format!("W/{version}"), false),
            ("\"other\"".to_owned(), false),
            (date(version.modified() + SECOND), false),
        ] {
            assert_eq!(judge(&validator), Verdict::Whole { range }, "{validator}");
        }
    }
}
