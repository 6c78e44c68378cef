//! Room in the log (`--durable`) for what a command may write, which is asked for before it runs.

use crate::commands::flag::WRITE;
use crate::commands::{Row, Run};
use crate::resp::{Words, number};
use crate::shard::Shard;
use crate::store::Keys;

/// Refusal of what cannot be kept.
pub(crate) const NO_ROOM: &str =
    "MISCONF The disk has no room for the log (--durable): nothing was done";
/// Refusal of what one record of the log has not.
pub(crate) const TOO_MUCH: &str = "ERR One record of the log (--durable) has 3 GiB at most, and all that this would write is \
                            one: nothing was done; write less at once";

/// Bytes of a word, at most, whatever is said: places in a command are of 32 bits.
pub(crate) const LONGEST: usize = 512 << 20;
/// Bytes that one command, or transaction, may write at most: a frame has them whole.
const MOST_OF_ONE: u64 = 3 << 30;
// The longest key and the longest value are one record.
const _: () = assert!(MOST_OF_ONE > 2 * LONGEST as u64 + (1 << 20));

/// Bytes of a record beside each word that it may have, at most.
const BESIDE: u64 = 64;

/// Bytes of a command's words in the log, at most.
fn own(words: Words<'_>) -> u64 {
    words.iter().map(|word| word.len() as u64 + BESIDE).sum()
}

/// Bytes of the value that a command writes whole, though it changes a part of it or gives it to another key; none of other
/// commands, which write no more than their words.
fn whole(row: &Row, words: Words<'_>, keys: &Keys, now: u64) -> Option<u64> {
    let is_whole = matches!(row.name, "append" | "setrange" | "copy" | "rename" | "renamenx");
    let length = || keys.get(words.get(1), now).map_or(0, |found| found.value.len() as u64);
    is_whole.then(|| match row.name {
        "setrange" => {
            let offset = number(words.get(2)).and_then(|offset| u64::try_from(offset).ok());
            // What is longer than may be is refused.
            let end = offset.unwrap_or(0).saturating_add(words.get(3).len() as u64);
            length().max(end.min(LONGEST as u64))
        }
        _ => length(),
    })
}

/// Checks that what a command writes finds room.
///
/// # Errors
/// The refusal.
pub(crate) fn has_room(
    row: &Row,
    words: Words<'_>,
    shard: &Shard,
    now: u64,
) -> Result<(), &'static str> {
    match row.run {
        // For all of several shards it was asked before any of them runs it: it is not to be half done.
        Run::All(..) if shard.of > 1 || shard.keys.has_room_to_clear() => Ok(()),
        Run::All(..) => Err(NO_ROOM),
        _ => within(shard, || own(words) + whole(row, words, &shard.keys, now).unwrap_or(0)),
    }
}

/// Checks the same of a transaction.
///
/// # Errors
/// The refusal.
pub(crate) fn has_room_for_all<'a>(
    commands: impl Iterator<Item = (&'a Row, Words<'a>)>,
    shard: &Shard,
    now: u64,
) -> Result<(), &'static str> {
    let sum = || {
        let writes = commands.filter(|(row, _)| row.is(WRITE));
        let (mut words, mut longest, mut wholes) = (0, 0, 0);
        for (row, its) in writes {
            words += own(its);
            if let Some(whole) = whole(row, its, &shard.keys, now) {
                longest = whole.max(longest);
                wholes += 1;
            }
        }
        // A value that one of them writes whole is one of these, and what all of them have put to it.
        let longest = (longest + words).min(shard.longest as u64);
        words + wholes * longest
    };
    within(shard, sum)
}

fn within(shard: &Shard, bytes: impl FnOnce() -> u64) -> Result<(), &'static str> {
    if !shard.keys.asks_for_room() {
        return Ok(());
    }
    match bytes() {
        bytes if bytes > MOST_OF_ONE => Err(TOO_MUCH),
        bytes if shard.keys.has_room(bytes) => Ok(()),
        _ => Err(NO_ROOM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::find;
    use crate::resp::Command;

    fn weight(keys: &Keys, text: &str) -> u64 {
        let command = Command::of(text.split(' ').map(str::as_bytes));
        let row = find(command.words()).ok().unwrap();
        own(command.words()) + whole(row, command.words(), keys, 0).unwrap_or(0)
    }

    #[test]
    fn what_is_asked_for_is_what_a_command_writes_and_not_the_longest_that_there_may_be() {
        let mut keys = Keys::new(Default::default(), Default::default());
        keys.loads(true);
        keys.set(b"long", &[7; 5000], 0).unwrap();
        let short = |bytes: u64| bytes < 500;
        let long = |bytes: u64| (5000..5500).contains(&bytes);
        for text in ["SET a b", "APPEND a b", "SETRANGE a 9 b", "COPY a b", "GETSET long b"] {
            assert!(short(weight(&keys, text)), "{text}: {}", weight(&keys, text));
        }
        for text in ["APPEND long b", "SETRANGE long 9 b", "COPY long b", "RENAME long b"] {
            assert!(long(weight(&keys, text)), "{text}: {}", weight(&keys, text));
        }
        assert!(long(weight(&keys, "SETRANGE a 4999 b")));
        // What is refused writes nothing, and what it says is no reason to ask for more than there may be.
        let most = weight(&keys, "SETRANGE a 9223372036854775807 b");
        assert!(most < LONGEST as u64 + 500, "{most}");
    }
}
