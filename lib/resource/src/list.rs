//! Listing, searching and watching names.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::glob::Tokens;
use crate::id::Id;
use crate::kind::About;
use crate::name::{Name, plain};

/// A pattern of names, as shells have them: `*` and `?` within a part, `[a-c]`, `**`
/// across parts. `core*/memory/*`.
#[derive(Clone, Debug)]
pub struct Pattern(Tokens);

/// A pattern's bytes, at most: more than a name has.
const LONGEST_PATTERN: usize = 1024;

impl Pattern {
    /// Makes a pattern from its text.
    ///
    /// # Errors
    /// [`Error::Pattern`] says where it is wrong.
    pub fn new(pattern: &str) -> Result<Pattern> {
        let refused = |pattern: String, why: String| Err(Error::Pattern { pattern, why });
        if pattern.len() > LONGEST_PATTERN {
            let why = format!("it has {} bytes, of {LONGEST_PATTERN} at most", pattern.len());
            return refused(plain(pattern, LONGEST), why);
        }
        match ::glob::Pattern::new(pattern) {
            Ok(_) => Ok(Pattern(Tokens::of(pattern))),
            Err(error) => refused(pattern.to_owned(), error.to_string()),
        }
    }

    /// One for all names.
    pub fn all() -> Pattern {
        Pattern(Tokens::of("**"))
    }

    /// True if `name` is one of them.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

/// A resource as a listing shows it.
///
/// Read from what another process wrote, it has a name that a resource can have, and texts of
/// bounded length without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Read")]
pub struct Listed {
    /// Its whole name; of one without a name of its own, with its id in that place.
    pub name: String,
    /// Its id.
    pub id: Id,
    /// True if it has a name of its own.
    pub named: bool,
    /// Owner: its core, or a thread.
    pub owner: String,
    /// Number of its uses so far.
    pub calls: u64,
    /// Its kind's words about it.
    #[serde(flatten)]
    pub about: About,
}

/// Fields as they are read: unknown ones are passed over, where a flattened `about` would keep
/// them.
#[derive(Deserialize)]
struct Read {
    name: String,
    id: Id,
    named: bool,
    owner: String,
    calls: u64,
    state: String,
    bytes: u64,
}

/// The longest owner and state that are read, characters.
const LONGEST: usize = 200;

impl TryFrom<Read> for Listed {
    type Error = Error;

    fn try_from(read: Read) -> Result<Listed> {
        let Read { name, id, named, owner, calls, state, bytes } = read;
        if let Err(error) = name.parse::<Name>() {
            // Of a name of any length.
            return Err(match error {
                Error::Name { why, .. } => Error::Name { name: plain(&name, LONGEST), why },
                other => other,
            });
        }
        let (owner, state) = (plain(&owner, LONGEST), plain(&state, LONGEST));
        Ok(Listed { name, id, named, owner, calls, about: About { state, bytes } })
    }
}

/// A name that has come or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The whole name.
    pub name: String,
    /// Number of the resource, which may be gone.
    pub id: Id,
    /// True if it has come.
    pub created: bool,
}
