//! An allow-list as a file: read, and held against what the place has.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use kumiki_resource::Pattern;
use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, Result};
use crate::place::allow::{Allow, Rules};
use crate::place::parts::Parts;

/// The word for all program parts of a kind.
const ALL: &str = "*";

/// The file, as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    list: bool,
    #[serde(default, rename = "move")]
    leave: bool,
    #[serde(default)]
    chain: Vec<Spanned<String>>,
    #[serde(default)]
    kind: BTreeMap<Spanned<String>, KindTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindTable {
    #[serde(default)]
    create: bool,
    #[serde(default)]
    destroy: bool,
    #[serde(default)]
    parts: Vec<Spanned<String>>,
}

impl Allow {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Allow`] with line and column: no TOML, a word that means nothing here, a kind or
    /// program part that `parts` does not have.
    pub fn read(path: &Path, parts: &Parts) -> Result<Allow> {
        let text = fs::read_to_string(path)
            .map_err(|source| Error::Io { what: format!("reading {}", path.display()), source })?;
        Allow::parse(&text, parts).map_err(|(at, why)| {
            let (line, column) = position(&text, at.start);
            Error::Allow { path: path.to_owned(), line, column, why }
        })
    }

    /// Parses as [`read`](Self::read), from a text; an error gives its place there, in bytes.
    ///
    /// # Errors
    /// As above.
    pub fn parse(text: &str, parts: &Parts) -> Result<Allow, (Range<usize>, String)> {
        let file: File = toml::from_str(text).map_err(|error| {
            (error.span().unwrap_or_default(), error.message().trim().to_owned())
        })?;
        let mut kinds = BTreeMap::new();
        for (kind, table) in file.kind {
            let (at, kind) = (kind.span(), kind.into_inner());
            if !parts.has(&kind, None) {
                return Err((at, format!("there is no kind {kind:?} here")));
            }
            let mut rules =
                Rules { create: table.create, destroy: table.destroy, ..Rules::default() };
            for name in table.parts {
                let (at, name) = (name.span(), name.into_inner());
                if name == ALL {
                    rules.all_parts = true;
                } else if parts.has(&kind, Some(&name)) {
                    rules.parts.insert(name);
                } else {
                    return Err((at, format!("kind {kind} has no program part {name:?}")));
                }
            }
            kinds.insert(kind, rules);
        }
        let pattern = |text: Spanned<String>| {
            Pattern::new(text.get_ref()).map_err(|error| (text.span(), error.to_string()))
        };
        let chain = file.chain.into_iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
        Ok(Allow::of(file.list, file.leave, kinds).chaining(chain))
    }
}

/// Line and column of a byte, from 1 on.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::standard;

    #[test]
    fn it_allows_what_it_says_and_nothing_else() {
        let text = "list = true\n[kind.counter]\ncreate = true\nparts = [\"add\"]\n\
                    [kind.memory]\nparts = [\"*\"]\n";
        let allow = Allow::parse(text, &standard::parts()).unwrap();
        assert!(allow.lists() && allow.creates("counter") && allow.calls("counter", "add"));
        assert!(allow.calls("memory", "read") && allow.calls("memory", "write"));
        assert!(!allow.destroys("counter") && !allow.calls("counter", "get"));
        assert!(!allow.creates("memory"));
        let chains =
            Allow::parse("chain = [\"hostb.*\", \"c.core1\"]", &standard::parts()).unwrap();
        assert!(
            chains.chains("hostb.core3") && chains.chains("c.core1") && !chains.chains("c.core2")
        );
        assert!(!allow.chains("hostb.core3") && !Allow::everything().chains("hostb.core3"));
        let nothing = Allow::parse("", &standard::parts()).unwrap();
        assert!(
            !nothing.lists() && !nothing.creates("counter") && !nothing.calls("counter", "add")
        );
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_column() {
        for (text, line, column, why) in [
            ("list = yes", 1, 8, ""),
            ("liste = true", 1, 1, "unknown field `liste`"),
            ("\n[kind.conuter]\ncreate = true", 2, 7, "no kind \"conuter\""),
            ("[kind.counter]\nparts = [\"add\", \"dad\"]", 2, 17, "no program part \"dad\""),
            ("[kind.counter]\nparts = \"*\"", 2, 9, "expected a sequence"),
            ("[kind.counter]\ncreate = 1", 2, 10, "expected a boolean"),
            ("list = true\nchain = [\"a.*\", \"***\"]", 2, 17, "no pattern"),
            ("[kind.counter]\nerase = true", 2, 1, "unknown field `erase`"),
        ] {
            let (at, said) = Allow::parse(text, &standard::parts()).unwrap_err();
            assert_eq!(position(text, at.start), (line, column), "{text:?}: {said}");
            assert!(said.contains(why), "{text:?}: {said}");
        }
    }
}
