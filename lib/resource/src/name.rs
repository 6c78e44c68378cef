//! Resource names: `place/kind/unique`.
//!
//! The paper's resource name (Horii et al., Fig. 1). Place and kind are words of letters,
//! digits, `-`, `_` and, in a place, `.` between a machine and its core
//! (`node1.core0`). The unique part is the owner's choice: anything but `/`, control
//! characters, and those that end a line or turn a text's direction.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use kumiki_sys::visible::is_shown;

use crate::error::Error;
use crate::word::{self, Word};

/// The longest of each part, bytes.
pub(crate) const LONGEST: usize = 200;

/// A whole name. It says nothing of whether there is such a resource.
#[derive(Clone)]
pub struct Name {
    place: Box<str>,
    kind: Box<str>,
    unique: Box<str>,
    /// Hash of the place, made once.
    of_place: Word,
    of_kind: Word,
    hash: u64,
}

impl Name {
    /// Makes a name from its parts.
    ///
    /// # Errors
    /// [`Error::Name`] says which part is malformed and how.
    pub fn new(place: &str, kind: &str, unique: &str) -> Result<Name, Error> {
        let whole = || format!("{place}/{kind}/{unique}");
        let check = |wrong: Option<&'static str>| match wrong {
            Some(why) => Err(Error::Name { name: whole(), why }),
            None => Ok(()),
        };
        check(wrong(place, ".").map(|why| of("place", why)))?;
        check(wrong(kind, "").map(|why| of("kind", why)))?;
        check_unique(unique)?;
        Ok(Name {
            of_place: Word::new(place),
            of_kind: Word::new(kind),
            hash: word::hash(unique),
            place: place.into(),
            kind: kind.into(),
            unique: unique.into(),
        })
    }

    /// Place in the name: `core2`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The kind: `memory`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Part of the name that tells it from the others.
    #[inline]
    pub fn unique(&self) -> &str {
        &self.unique
    }

    #[inline(always)]
    pub(crate) fn of_place(&self) -> &Word {
        &self.of_place
    }

    #[inline(always)]
    pub(crate) fn of_kind(&self) -> &Word {
        &self.of_kind
    }

    /// The hash of the unique part.
    #[inline(always)]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    fn parts(&self) -> [&str; 3] {
        [&self.place, &self.kind, &self.unique]
    }
}

#[derive(Clone, Copy)]
enum Wrong {
    Empty,
    Long,
    Character,
}

fn wrong(part: &str, more: &str) -> Option<Wrong> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c) || more.contains(c);
    match part {
        "" => Some(Wrong::Empty),
        part if part.len() > LONGEST => Some(Wrong::Long),
        part => (!part.chars().all(good)).then_some(Wrong::Character),
    }
}

fn of(part: &str, wrong: Wrong) -> &'static str {
    match (part, wrong) {
        ("place", Wrong::Empty) => "its place is empty",
        ("place", Wrong::Long) => "its place is longer than 200 bytes",
        ("place", Wrong::Character) => "its place has other characters than letters, digits, -_.",
        (_, Wrong::Empty) => "its kind is empty",
        (_, Wrong::Long) => "its kind is longer than 200 bytes",
        (_, Wrong::Character) => "its kind has other characters than letters, digits, -_",
    }
}

/// Checks the part that its owner chooses.
///
/// # Errors
/// [`Error::Name`].
pub(crate) fn check_unique(unique: &str) -> Result<(), Error> {
    let why = match unique {
        "" => "its unique part is empty",
        part if part.len() > LONGEST => "its unique part is longer than 200 bytes",
        part if part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/') => return Ok(()),
        part if part.chars().any(|c| c == '/' || !is_shown(c)) => {
            "its unique part has a / or a control character"
        }
        _ => return Ok(()),
    };
    Err(Error::Name { name: unique.to_owned(), why })
}

/// Another party's text as far as it is repeated: so many characters at most, and none that
/// controls a terminal or ends a line.
pub(crate) fn plain(text: &str, most: usize) -> String {
    let shown = |c: char| if is_shown(c) { c } else { char::REPLACEMENT_CHARACTER };
    text.chars().take(most).map(shown).collect()
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.place, self.kind, self.unique)
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(name: &str) -> Result<Name, Error> {
        let mut parts = name.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(place), Some(kind), Some(unique)) => Name::new(place, kind, unique),
            _ => Err(Error::Name {
                name: name.to_owned(),
                why: "it has not three parts, place/kind/unique",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn malformed_names_say_what_is_wrong() {
        for (name, why) in [
            ("", "three parts"),
            ("core0/memory", "three parts"),
            ("/memory/a", "place is empty"),
            ("core 0/memory/a", "place has other"),
            ("core0//a", "kind is empty"),
            ("core0/mem.ory/a", "kind has other"),
            ("core0/memory/", "unique part is empty"),
            ("core0/memory/a/b", "has a /"),
            ("core0/memory/a\n", "control"),
            ("core0/memory/a\u{2028}", "control"),
            ("core0/memory/\u{202e}a", "control"),
            (&format!("core0/memory/{}", "a".repeat(201)), "longer than 200"),
        ] {
            let error = name.parse::<Name>().unwrap_err().to_string();
            assert!(error.contains(why), "{name:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_parses_prints_as_it_was(name in "[a-z0-9.]{1,9}/[a-z_-]{1,9}/[^/\\pC\\p{Zl}\\p{Zp}]{1,20}") {
            prop_assert_eq!(name.parse::<Name>().unwrap().to_string(), name);
        }

        #[test]
        fn nothing_panics(name in ".*") {
            let _ = name.parse::<Name>();
        }
    }
}
