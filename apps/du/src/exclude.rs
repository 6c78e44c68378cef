//! Names left out: shell patterns as fnmatch(3) reads them without flags.
//!
//! A pattern is held against the whole path as it would be printed, and against
//! what follows each slash in it, one with wildcards only where that is no slash;
//! `*`, `?` and brackets match slashes, too. A `?`
//! is a byte, in a UTF-8 locale also a character: there the C library (2.36) takes
//! a match of either kind.

use std::fmt::Write;

use regex::bytes::{RegexSet, RegexSetBuilder};

/// Patterns compiled.
#[derive(Debug, Default)]
pub(crate) struct Exclude {
    /// Patterns of characters; `None` if characters are bytes.
    characters: Option<RegexSet>,
    bytes: RegexSet,
}

/// Reason for which a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the patterns to exclude cannot be compiled; give fewer or shorter ones")]
pub(crate) struct TooLarge(#[from] regex::Error);

impl Exclude {
    /// `utf8` says whether characters are those of UTF-8; `posix`, that `[^…]` stands for
    /// what is in it, as POSIX leaves open.
    pub(crate) fn new<P: AsRef<[u8]>>(
        patterns: &[P],
        utf8: bool,
        posix: bool,
    ) -> Result<Self, TooLarge> {
        let set = |utf8| {
            let expressions = patterns.iter().filter_map(|p| expression(p.as_ref(), utf8, posix));
            RegexSetBuilder::new(expressions).size_limit(64 << 20).build()
        };
        Ok(Exclude { characters: utf8.then(|| set(true)).transpose()?, bytes: set(false)? })
    }

    /// True if `path` is left out.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        let characters = self.characters.as_ref();
        self.bytes.is_match(path) || characters.is_some_and(|set| set.is_match(path))
    }

    /// `path()` if there is anything that a path could match.
    pub(crate) fn prefix(&self, path: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then(path)
    }
}

/// The regular expression for a pattern; `None` if it matches nothing.
fn expression(pattern: &[u8], utf8: bool, posix: bool) -> Option<String> {
    let text = std::str::from_utf8(pattern).ok().filter(|_| utf8);
    let units: Vec<char> = match text {
        Some(text) => text.chars().collect(),
        None => pattern.iter().copied().map(char::from).collect(),
    };
    // Without Unicode a `char` up to 255 stands for the byte.
    let mode = if text.is_some() { "s" } else { "s-u" };
    let mut out = format!(r"(?{mode})");
    let wild = has_wildcards(&units);
    let mut rest = units.as_slice();
    match rest.first() {
        Some('/' | '*') if wild => out.push_str(r"\A"),
        Some('?') => {
            out.push_str(r"(?:\A.|/[^/])");
            rest = &rest[1..];
        }
        Some('[') => match bracket(&rest[1..], text.is_some(), posix)? {
            Some((class, after)) => {
                let _ = write!(out, r"(?:\A{class}|/[{class}&&[^/]])");
                rest = after;
            }
            None => out.push_str(r"(?:\A|/)"),
        },
        _ => out.push_str(r"(?:\A|/)"),
    }
    while let Some((&unit, after)) = rest.split_first() {
        rest = after;
        match unit {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            // A backslash at the end has nothing to escape, so fnmatch(3) matches
            // nothing; a pattern without wildcards is no pattern but a name.
            '\\' if rest.is_empty() && !wild => literal(&mut out, '\\'),
            '\\' => {
                let (&escaped, after) = rest.split_first()?;
                rest = after;
                literal(&mut out, escaped);
            }
            '[' => match bracket(rest, text.is_some(), posix)? {
                Some((class, after)) => {
                    out.push_str(&class);
                    rest = after;
                }
                None => literal(&mut out, '['),
            },
            unit => literal(&mut out, unit),
        }
    }
    out.push_str(r"\z");
    Some(out)
}

fn has_wildcards(units: &[char]) -> bool {
    let mut units = units.iter();
    while let Some(unit) = units.next() {
        match unit {
            '*' | '?' | '[' => return true,
            '\\' => _ = units.next(),
            _ => {}
        }
    }
    false
}

/// Escapes a character, or in a pattern of bytes a byte, for which only the form
/// without braces will do.
fn literal(out: &mut String, unit: char) {
    let _ = match u32::from(unit) {
        byte @ ..=0xff => write!(out, r"\x{byte:02X}"),
        unit => write!(out, r"\x{{{unit:X}}}"),
    };
}

/// Class after a `[`, and the rest behind its `]`; `Some(None)` if it is not closed, so that the
/// `[` stands for itself; `None` if it names a class that does not exist, so that nothing matches.
#[allow(clippy::type_complexity)]
fn bracket(inside: &[char], utf8: bool, posix: bool) -> Option<Option<(String, &[char])>> {
    let mut class = String::new();
    let negated = match inside.first() {
        Some('!') => true,
        Some('^') => !posix,
        _ => false,
    };
    let mut rest = &inside[usize::from(negated)..];
    let mut first = true;
    loop {
        let Some((&unit, after)) = rest.split_first() else { return Some(None) };
        rest = after;
        if unit == ']' && !first {
            break;
        }
        first = false;
        if unit == '['
            && let Some((name, after)) = named(rest, ':')
        {
            class.push_str(named_class(&name, utf8)?);
            rest = after;
            continue;
        }
        let (low, after) = member(unit, rest)?;
        rest = after;
        // A hyphen before the end stands for itself.
        if let [&'-', next, ..] = rest.iter().take(2).collect::<Vec<_>>()[..]
            && *next != ']'
        {
            let (high, after) = member(rest[1], &rest[2..])?;
            rest = after;
            if low <= high {
                literal(&mut class, low);
                class.push('-');
                literal(&mut class, high);
            }
        } else {
            literal(&mut class, low);
        }
    }
    let class = match (class.is_empty(), negated) {
        (false, false) => format!("[{class}]"),
        (false, true) => format!("[^{class}]"),
        (true, true) => r"[\s\S]".to_owned(),
        (true, false) => return None,
    };
    Some(Some((class, rest)))
}

/// One member of a bracket, or an end of a range, that begins with `unit`.
fn member(unit: char, rest: &[char]) -> Option<(char, &[char])> {
    match unit {
        '\\' => rest.split_first().map(|(&escaped, after)| (escaped, after)),
        '[' => match named(rest, '.').or_else(|| named(rest, '=')) {
            Some((name, after)) => {
                let mut name = name.chars();
                let only = name.next()?;
                name.next().is_none().then_some((only, after))
            }
            None => Some((unit, rest)),
        },
        unit => Some((unit, rest)),
    }
}

/// The name in `:name:]`, with another mark than `:` likewise.
fn named(rest: &[char], mark: char) -> Option<(String, &[char])> {
    let inside = rest.strip_prefix(&[mark])?;
    let end = inside.windows(2).position(|pair| pair == [mark, ']'])?;
    Some((inside[..end].iter().collect(), &inside[end + 2..]))
}

/// A class by its POSIX name.
fn named_class(name: &str, utf8: bool) -> Option<&'static str> {
    Some(match (name, utf8) {
        ("alnum", true) => r"\p{Alphabetic}\p{Nd}",
        ("alpha", true) => r"\p{Alphabetic}",
        ("lower", true) => r"\p{Lowercase}",
        ("upper", true) => r"\p{Uppercase}",
        ("alnum", false) => "[:alnum:]",
        ("alpha", false) => "[:alpha:]",
        ("lower", false) => "[:lower:]",
        ("upper", false) => "[:upper:]",
        ("blank", _) => "[:blank:]",
        ("cntrl", _) => "[:cntrl:]",
        ("digit", _) => "[:digit:]",
        ("graph", _) => "[:graph:]",
        ("print", _) => "[:print:]",
        ("punct", _) => "[:punct:]",
        ("space", _) => "[:space:]",
        ("xdigit", _) => "[:xdigit:]",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Exclude::new(&[pattern], true, false).unwrap().matches(path.as_bytes())
    }

    #[test]
    fn a_pattern_matches_the_whole_path_or_what_follows_a_slash() {
        assert!(matches("b", "a/b"));
        assert!(matches("a/b", "a/b"));
        assert!(matches("a/b", "x/a/b"));
        assert!(!matches("a", "a/b"));
        assert!(!matches("b", "a/bc"));
        assert!(matches("a*b", "a/x/b"));
        assert!(matches("?b", "/b"));
        assert!(matches("*", ".hidden"));
    }

    #[test]
    fn slashes_in_a_row() {
        assert!(matches("/b", "a//b"));
        assert!(!matches("?b", "x//b") && matches("?b", "x/ab") && matches("?b", "/b"));
        assert!(!matches("[!a]b", "x//b") && matches("[!a]b", "x/bb"));
        assert!(!matches("/?", "a//b") && matches("/?", "/b"));
        assert!(matches("", "a/") && !matches("", "a"));
    }

    #[test]
    fn a_caret_is_a_member_where_posix_is_kept_to() {
        let posix = Exclude::new(&["[^a]"], true, true).unwrap();
        assert!(posix.matches(b"^") && posix.matches(b"a") && !posix.matches(b"b"));
    }

    #[test]
    fn brackets() {
        for (pattern, path, expected) in [
            ("[ab]", "b", true),
            ("[!ab]", "b", false),
            ("[^ab]", "c", true),
            ("[a-c]x", "bx", true),
            ("[c-a]", "b", false),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("[[:digit:]]", "7", true),
            ("[[:nonsense:]]", "7", false),
            ("[[.a.]-c]", "b", true),
            (r"[\]]", "]", true),
            ("[a", "[a", true),
            ("[a", "a", false),
            (r"\*", "*", true),
            (r"\*", "a", false),
            (r"a\", "a", false),
            (r"a\", r"a\", true),
            (r"*\", r"a\", false),
            ("(a|b)+{2}^$.", "(a|b)+{2}^$.", true),
            ("é?", "éé", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn names_that_are_not_text() {
        let exclude = Exclude::new(&[b"a?\xff".as_slice(), b"\xc3?"], true, false).unwrap();
        assert!(exclude.matches(b"a\xfe\xff"));
        assert!(!exclude.matches(b"a\xff"));
        let bytes = Exclude::new(&["??"], false, false).unwrap();
        assert!(bytes.matches("é".as_bytes()));
        assert!(!Exclude::new(&["?"], false, false).unwrap().matches("é".as_bytes()));
        assert!(matches("?", "é") && matches("??", "é") && !matches("???", "é"));
        assert!(!Exclude::default().matches(b"a"));
    }
}
