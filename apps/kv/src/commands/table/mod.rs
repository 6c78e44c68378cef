//! Finding a command by its name.

mod introspection;

pub use introspection::command;

use super::row::{Row, Run};
use super::{connection, expire, keys, server, strings, transaction};
use crate::resp::Words;

const GROUPS: [&[Row]; 7] = [
    introspection::ROWS,
    strings::ROWS,
    keys::ROWS,
    expire::ROWS,
    transaction::ROWS,
    connection::ROWS,
    server::ROWS,
];

/// Places of the table of names: a power of two, several times as many as there are.
const PLACES: usize = 512;

static PLACED: [Option<&Row>; PLACES] = placed();

const fn placed() -> [Option<&'static Row>; PLACES] {
    let mut places = [None; PLACES];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut at = 0;
        while at < GROUPS[group].len() {
            let row = &GROUPS[group][at];
            let mut place = place(row.name.as_bytes());
            while places[place].is_some() {
                place = (place + 1) % PLACES;
            }
            places[place] = Some(row);
            at += 1;
        }
        group += 1;
    }
    places
}

#[inline]
const fn place(name: &[u8]) -> usize {
    let (mut hash, mut at) = (name.len() as u32, 0);
    while at < name.len() {
        // Small letters and large ones are the same.
        hash = hash.wrapping_mul(31).wrapping_add((name[at] | 0x20) as u32);
        at += 1;
    }
    (hash ^ (hash >> 9)) as usize % PLACES
}

/// No command has a longer name.
const LONGEST: usize = 16;

#[inline]
fn named(name: &[u8]) -> Option<&'static Row> {
    if name.len() > LONGEST {
        return None;
    }
    let mut place = place(name);
    loop {
        let row = PLACED[place]?;
        if row.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(row);
        }
        place = (place + 1) % PLACES;
    }
}

/// A name of no command.
#[derive(Clone, Copy, Debug)]
pub enum Unknown {
    /// The name.
    Name,
    /// The name of a subcommand of this.
    Sub(&'static Row),
}

/// The row of a command with these words, or of its subcommand.
///
/// # Errors
/// There is none of this name.
#[inline]
pub fn find(words: Words<'_>) -> Result<&'static Row, Unknown> {
    let row = named(words.get(0)).ok_or(Unknown::Name)?;
    let Run::Group(rows) = row.run else { return Ok(row) };
    if words.len() < 2 {
        return Ok(row);
    }
    sub(rows, words.get(1)).ok_or(Unknown::Sub(row))
}

fn sub(rows: &'static [Row], name: &[u8]) -> Option<&'static Row> {
    let short = |row: &Row| row.name.split_once('|').map_or(row.name, |(_, short)| short);
    rows.iter().find(|row| short(row).as_bytes().eq_ignore_ascii_case(name))
}

/// The row of a name, which may be `client|list`.
pub(super) fn of_name(name: &[u8]) -> Option<&'static Row> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let row = named(parts.next()?)?;
    match (parts.next(), row.run) {
        (None, _) => Some(row),
        (Some(name), Run::Group(rows)) => sub(rows, name),
        _ => None,
    }
}

/// All of them, without subcommands.
pub fn all() -> impl Iterator<Item = &'static Row> {
    GROUPS.into_iter().flatten()
}

/// The error of a wrong number of words.
pub fn wrong_count(row: &Row) -> String {
    format!("ERR wrong number of arguments for '{}' command", row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name() {
        for row in all() {
            assert!(row.name.len() <= LONGEST, "{}", row.name);
            for name in [row.name.to_owned(), row.name.to_uppercase()] {
                assert_eq!(named(name.as_bytes()).map(|found| found.name), Some(row.name));
            }
            assert!(row.summary.ends_with('.') && !row.since.is_empty(), "{}", row.name);
            let Run::Group(rows) = row.run else { continue };
            for sub in rows {
                assert_eq!(of_name(sub.name.as_bytes()).map(|found| found.name), Some(sub.name));
            }
        }
        for name in ["", "HSET", "GETT", "AVERYLONGCOMMANDINDEED", "client|list"] {
            assert!(named(name.as_bytes()).is_none(), "{name}");
        }
    }

    /// A row that is found after many others makes each command slow.
    #[test]
    fn names_stand_at_their_places() {
        let far = all().filter(|row| {
            let found = PLACED[place(row.name.as_bytes())];
            found.is_none_or(|found| found.name != row.name)
        });
        let far: Vec<&str> = far.map(|row| row.name).collect();
        assert!(far.len() < 20, "{far:?}");
        assert!(!far.contains(&"get") && !far.contains(&"set"));
    }
}
