//! Conditional requests (RFC 9110, section 13).

use std::fmt;

use kumiki_parasc::op::Attributes;

use crate::date::{second_of, told};
use crate::request::Fields;

/// Version of a file: when it was changed and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// As the file system has it, which may be any: seconds since 1970, and nanoseconds.
    modified: (i64, u32),
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
        let modified = attributes.as_raw().stx_mtime;
        Version { modified: (modified.tv_sec, modified.tv_nsec), size: attributes.size() }
    }

    /// Second since 1970, of which `Last-Modified` says what a date can tell.
    pub(crate) fn modified(self) -> i64 {
        self.modified.0
    }

    /// Answers to these conditions.
    pub(crate) fn judge(self, fields: &Fields<'_>) -> Verdict {
        let modified = told(self.modified());
        // In the order of section 13.2.2.
        match (fields.if_match, fields.if_unmodified_since) {
            (Some(tags), _) if !self.is_among(tags, true) => return Verdict::Failed,
            (None, Some(date)) if second_of(date).is_some_and(|date| modified > date) => {
                return Verdict::Failed;
            }
            _ => (),
        }
        match (fields.if_none_match, fields.if_modified_since) {
            (Some(tags), _) if self.is_among(tags, false) => return Verdict::NotModified,
            (None, Some(date)) if second_of(date).is_some_and(|date| modified <= date) => {
                return Verdict::NotModified;
            }
            _ => (),
        }
        let range = fields.if_range.is_none_or(|validator| match validator.first() {
            Some(b'"') => self.is_among(validator, true),
            _ => second_of(validator) == Some(modified),
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
        let (seconds, nanoseconds) = self.modified;
        write!(f, "\"{seconds:x}.{nanoseconds:x}-{:x}\"", self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::http_date;

    fn version() -> Version {
        Version { modified: (1_000_000, 500_000_000), size: 0x77 }
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
        let (last, before) = (version.modified(), version.modified() - 1);
        let since = |time: i64, tag: Option<&'static str>| {
            let date = http_date(time);
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
        let unless = |time: i64| {
            let date = http_date(time);
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
            (http_date(version.modified()), true),
            (format!("W/{version}"), false),
            ("\"other\"".to_owned(), false),
            (http_date(version.modified() + 1), false),
        ] {
            assert_eq!(judge(&validator), Verdict::Whole { range }, "{validator}");
        }
    }
}
