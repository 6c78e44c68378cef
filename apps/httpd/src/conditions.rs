//! Conditional requests (RFC 9110, section 13).

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use kumiki_parasc::op::Attributes;

use crate::date::{self, http_date, second_of, shown_second};
use crate::encoding::Encoding;
use crate::request::{Fields, Lines};

/// Up to this second a time says nothing: package managers and builders of images give all files
/// the first or the second one of 1970.
const NOTHING: i64 = 1;

/// Version of a file, or of a variant of it: which one it is, when it was changed, how long it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The entity tag, with its quotes; none where attributes say nothing.
    tag: Option<String>,
    /// Second of the last change of its content, as answers say it; that of its last change at all, which
    /// nobody can set.
    modified: i64,
    changed: i64,
    /// The date of the last modification, if it says something.
    date: Option<String>,
}

/// The answer's kind, as the conditions have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send the whole, as without conditions; whether a range counts.
    Whole { range: bool },
    /// 304
    NotModified,
    /// 412
    Failed,
}

impl Version {
    /// The tag is of device, inode, size and time of change, which differ where two files, or two
    /// versions of one, have one time of modification. As one number, since nobody is to know the
    /// inode.
    pub(crate) fn of(attributes: &Attributes, encoding: Option<Encoding>) -> Self {
        let raw = attributes.as_raw();
        let (changed, modified) = (raw.stx_ctime, raw.stx_mtime.tv_sec);
        let size = attributes.size();
        let says = changed.tv_sec > NOTHING && attributes.ino() != 0;
        let tag = says.then(|| {
            let mut hasher = DefaultHasher::new();
            (attributes.dev(), attributes.ino(), changed.tv_sec, changed.tv_nsec).hash(&mut hasher);
            let variant = encoding.map_or("", Encoding::suffix).replace('.', "-");
            format!("\"{:016x}-{size:x}{variant}\"", hasher.finish())
        });
        let date = (modified > NOTHING).then(|| http_date(modified));
        Version { tag, modified, changed: changed.tv_sec, date }
    }

    /// Version that cannot be named: of a file that is another at each look.
    pub(crate) fn none() -> Self {
        Version { tag: None, modified: 0, changed: 0, date: None }
    }

    /// The entity tag, with its quotes.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Second of the last modification, if it says something.
    pub(crate) fn modified(&self) -> Option<i64> {
        (self.modified > NOTHING).then_some(self.modified)
    }

    /// Date of that second, as answers say it in this second: none is later than the answer itself
    /// (section 8.8.2.1).
    pub(crate) fn date(&self, now: i64) -> Option<Cow<'_, str>> {
        match self.modified > now {
            true => self.modified().map(|_| Cow::Owned(http_date(now))),
            false => self.date.as_deref().map(Cow::Borrowed),
        }
    }

    /// Answers to these conditions.
    pub(crate) fn judge(&self, fields: &Fields<'_>) -> Verdict {
        let after = |date: &[u8]| Some(shown_second(self.modified()?) > second_of(date)?);
        // In the order of section 13.2.2.
        let has_failed = match fields.if_match.is_there() {
            true => !self.is_among(&fields.if_match, true),
            false => fields.if_unmodified_since.and_then(after) == Some(true),
        };
        if has_failed {
            return Verdict::Failed;
        }
        let is_known = match fields.if_none_match.is_there() {
            true => self.is_among(&fields.if_none_match, false),
            false => fields.if_modified_since.and_then(after) == Some(false),
        };
        if is_known {
            return Verdict::NotModified;
        }
        let range = fields.if_range.is_none_or(|validator| match validator.first() {
            Some(b'"') => self.tag.as_deref().is_some_and(|own| own.as_bytes() == validator),
            _ => self.is_of_date(validator),
        });
        Verdict::Whole { range }
    }

    /// True if it is surely the only version of this date: the file was written then, was not given
    /// the date, and that second is over (section 8.8.2.2).
    fn is_of_date(&self, date: &[u8]) -> bool {
        let is_same =
            || self.modified().is_some_and(|own| second_of(date) == Some(shown_second(own)));
        self.modified == self.changed && self.changed < date::now() && is_same()
    }

    /// True if its tag stands in a list of one or more lines, or that is `*`. Ours are strong; a
    /// weak one is equal only where a strong one is not asked for.
    fn is_among(&self, lines: &Lines<'_>, strongly: bool) -> bool {
        if lines.is_star() {
            return true;
        }
        let Some(own) = self.tag.as_deref() else { return false };
        lines.iter().flat_map(tags).any(|tag| match tag.strip_prefix(b"W/") {
            Some(tag) => !strongly && tag == own.as_bytes(),
            None => tag == own.as_bytes(),
        })
    }
}

/// Tags of a line. A comma may stand within one.
fn tags(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_within = false;
    line.split(move |byte| {
        is_within ^= *byte == b'"';
        *byte == b',' && !is_within
    })
    .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::http_date;

    fn version() -> Version {
        let tag = Some("\"0123456789abcdef-77\"".to_owned());
        let date = Some(http_date(1_000_000));
        Version { tag, modified: 1_000_000, changed: 1_000_000, date }
    }

    fn lines(lines: &[&'static str]) -> Lines<'static> {
        let mut all = Lines::default();
        lines.iter().for_each(|line| all.add(line.as_bytes()));
        all
    }

    #[test]
    fn tags_are_compared_as_the_condition_asks() {
        const OWN: &str = "\"0123456789abcdef-77\"";
        const WEAK: &str = "W/\"0123456789abcdef-77\"";
        const LIST: &str = "\"a\", \"0123456789abcdef-77\" ,\"b\"";
        let none_match = |tags: &[&'static str]| {
            version().judge(&Fields { if_none_match: lines(tags), ..Fields::default() })
        };
        for tags in [&[OWN][..], &[WEAK], &[LIST], &["*"], &["\"a\"", OWN], &["", OWN]] {
            assert_eq!(none_match(tags), Verdict::NotModified, "{tags:?}");
        }
        for tags in [&["\"a\""][..], &["\"a,*,b\""], &["\"a\"", "\"b\""], &["\"a\", *"]] {
            assert_eq!(none_match(tags), Verdict::Whole { range: true }, "{tags:?}");
        }
        let matches = |tags: &[&'static str]| {
            version().judge(&Fields { if_match: lines(tags), ..Fields::default() })
        };
        for tags in [&[OWN][..], &[LIST], &["*"], &["\"a\"", OWN]] {
            assert_eq!(matches(tags), Verdict::Whole { range: true }, "{tags:?}");
        }
        for tags in [&[WEAK][..], &["\"a\""], &[""], &["\"a\"", WEAK]] {
            assert_eq!(matches(tags), Verdict::Failed, "{tags:?}");
        }
    }

    #[test]
    fn dates_count_where_there_are_no_tags_and_where_they_say_something() {
        let (version, last) = (version(), 1_000_000);
        let since = |version: &Version, second: i64, tag: &[&'static str]| {
            let date = http_date(second);
            let fields = Fields {
                if_modified_since: Some(date.as_bytes()),
                if_none_match: lines(tag),
                ..Fields::default()
            };
            version.judge(&fields)
        };
        let whole = Verdict::Whole { range: true };
        assert_eq!(since(&version, last, &[]), Verdict::NotModified);
        assert_eq!(since(&version, last - 1, &[]), whole);
        assert_eq!(since(&version, last, &["\"other\""]), whole);
        let unless = |version: &Version, second: i64| {
            let date = http_date(second);
            let fields = Fields { if_unmodified_since: Some(date.as_bytes()), ..Fields::default() };
            version.judge(&fields)
        };
        assert_eq!(unless(&version, last), whole);
        assert_eq!(unless(&version, last - 1), Verdict::Failed);
        let nonsense = Fields { if_modified_since: Some(b"yesterday"), ..Fields::default() };
        assert_eq!(version.judge(&nonsense), whole);
        for modified in [i64::MIN, -1, 0, 1] {
            let version = Version { modified, ..version.clone() };
            assert_eq!((since(&version, last, &[]), unless(&version, 0)), (whole, whole));
        }
    }

    #[test]
    fn a_range_counts_only_of_the_version_that_is_named() {
        let version = version();
        let judge = |version: &Version, validator: &str| {
            version.judge(&Fields { if_range: Some(validator.as_bytes()), ..Fields::default() })
        };
        let (own, date) = (version.tag().unwrap(), http_date(1_000_000));
        for (validator, range) in [
            (own.to_owned(), true),
            (date.clone(), true),
            (format!("W/{own}"), false),
            ("\"other\"".to_owned(), false),
            (http_date(1_000_001), false),
            ("*".to_owned(), false),
        ] {
            assert_eq!(judge(&version, &validator), Verdict::Whole { range }, "{validator}");
        }
        // A date that it was given, and one whose second is not over.
        let given = Version { changed: 2_000_000, ..version.clone() };
        assert_eq!(judge(&given, &date), Verdict::Whole { range: false });
        let now = date::now();
        let fresh = Version { modified: now, changed: now, ..version };
        assert_eq!(judge(&fresh, &http_date(now)), Verdict::Whole { range: false });
    }
}
