//! Commands on keys, whatever their values.

use super::glob;
use super::options::{FULL, SYNTAX, integer, small_integer};
use super::row::flag::{DANGEROUS, DENYOOM, FAST, LONG, READ, WRITE};
use super::row::{Call, Done, Here, Merge, Row, Run};
use super::strings::is_number;
use crate::resp::Out;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: (i32, i32, i32),
    run: Run,
    since: &'static str,
    summary: &'static str,
) -> Row {
    Row { name, arity, flags, keys, run, group: "generic", since, summary }
}

const ONE: (i32, i32, i32) = (1, 1, 1);
const EACH: (i32, i32, i32) = (1, -1, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);
const SUM: Merge = Merge::Sum;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("copy", -3, WRITE | DENYOOM, (1, 2, 1), Run::Keys(copy), "6.2.0", "Copies a value to another key."),
    row("dbsize", 1, READ | FAST, NONE, Run::All(dbsize, SUM), "1.0.0", "Gives the number of keys."),
    row("del", -2, WRITE, EACH, Run::Split(del, SUM), "1.0.0", "Takes keys away, and gives how many were there."),
    row("exists", -2, READ | FAST, EACH, Run::Split(exists, SUM), "1.0.0", "Gives how many of the keys are there."),
    row("flushall", -1, WRITE | DANGEROUS, NONE, Run::All(flush, Merge::First), "1.0.0", "Takes all keys away."),
    row("flushdb", -1, WRITE | DANGEROUS, NONE, Run::All(flush, Merge::First), "1.0.0", "Takes all keys of the database away: all that there are."),
    row("keys", 2, READ | DANGEROUS | LONG, NONE, Run::All(keys, Merge::Array), "1.0.0", "Gives the names of all keys that match a pattern."),
    row("move", 3, WRITE | FAST, ONE, Run::Keys(moves), "1.0.0", "Refuses to move a key to another database, as there is none."),
    row("object", -2, READ, NONE, Run::Group(OBJECT), "2.2.3", "Asks how a value is kept."),
    row("memory", -2, READ, NONE, Run::Group(MEMORY), "4.0.0", "Asks what memory is used for."),
    row("randomkey", 1, READ, NONE, Run::All(randomkey, Merge::Any), "1.0.0", "Gives the name of some key."),
    row("rename", 3, WRITE, (1, 2, 1), Run::Keys(|c| rename(c, false)), "1.0.0", "Gives a key another name; one that had it is gone."),
    row("renamenx", 3, WRITE | FAST, (1, 2, 1), Run::Keys(|c| rename(c, true)), "1.0.0", "Gives a key another name, if no key has it."),
    row("scan", -2, READ | LONG, NONE, Run::Cursor(scan), "2.8.0", "Gives the names of keys step by step."),
    row("touch", -2, READ | FAST, EACH, Run::Split(exists, SUM), "3.2.1", "Gives how many of the keys are there."),
    row("type", 2, READ | FAST, ONE, Run::Keys(kind), "1.0.0", "Gives the type of a value: string, or none."),
    row("unlink", -2, WRITE | FAST, EACH, Run::Split(del, SUM), "4.0.0", "Takes keys away, and gives how many were there."),
];

#[rustfmt::skip]
const OBJECT: &[Row] = &[
    row("object|encoding", 3, READ, (2, 2, 1), Run::Keys(encoding), "2.2.3", "Gives the form in which Redis would keep a value."),
    row("object|freq", 3, READ, (2, 2, 1), Run::Keys(|c| not_kept(c, "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")), "4.0.0", "Is refused: how often a key is read is not kept."),
    row("object|idletime", 3, READ, (2, 2, 1), Run::Keys(|c| not_kept(c, "ERR idle times of keys are not kept")), "2.2.3", "Is refused: when a key was last read is not kept."),
    row("object|refcount", 3, READ, (2, 2, 1), Run::Keys(refcount), "2.2.3", "Gives how many references a value has: one."),
    row("object|help", 2, 0, NONE, Run::Here(object_help), "6.2.0", "Lists the subcommands of OBJECT."),
];

#[rustfmt::skip]
const MEMORY: &[Row] = &[
    row("memory|usage", -3, READ, (2, 2, 1), Run::Keys(usage), "4.0.0", "Gives the bytes that a key and its value take."),
    row("memory|help", 2, 0, NONE, Run::Here(memory_help), "4.0.0", "Lists the subcommands of MEMORY."),
];

/// Writes which subcommands there are, and what each does.
pub(super) fn help(out: &mut Out, rows: &[Row]) -> Done {
    out.array(2 * rows.len());
    for row in rows {
        out.simple(&row.name.replace('|', " ").to_uppercase());
        out.simple(&format!("    {}", row.summary));
    }
    Ok(())
}

fn del(c: &mut Call<'_>) -> Done {
    let mut gone = 0;
    for key in c.words.from(1).iter() {
        gone += i64::from(c.shard.keys.remove(key, c.now));
    }
    c.out.integer(gone);
    Ok(())
}

fn exists(c: &mut Call<'_>) -> Done {
    let mut there = 0;
    for key in c.words.from(1).iter() {
        let is_there = c.shard.keys.get(key, c.now).is_some();
        c.shard.hits += u64::from(is_there);
        c.shard.misses += u64::from(!is_there);
        there += i64::from(is_there);
    }
    c.out.integer(there);
    Ok(())
}

fn kind(c: &mut Call<'_>) -> Done {
    let is_there = c.shard.keys.get(c.word(1), c.now).is_some();
    c.out.simple(if is_there { "string" } else { "none" });
    Ok(())
}

fn dbsize(c: &mut Call<'_>) -> Done {
    c.out.integer(c.shard.keys.len() as i64);
    Ok(())
}

fn flush(c: &mut Call<'_>) -> Done {
    let is_way =
        |word: &[u8]| word.eq_ignore_ascii_case(b"SYNC") || word.eq_ignore_ascii_case(b"ASYNC");
    if c.words.len() > 2 || c.words.len() == 2 && !is_way(c.word(1)) {
        return Err(SYNTAX);
    }
    c.shard.clear(c.now);
    c.out.ok();
    Ok(())
}

fn rename(c: &mut Call<'_>, if_absent: bool) -> Done {
    let (from, to) = (c.word(1), c.word(2));
    let found = c.shard.keys.get(from, c.now).ok_or("ERR no such key")?;
    let is_there = from == to || c.shard.keys.get(to, c.now).is_some();
    let is_done = !(if_absent && is_there);
    if is_done && from != to {
        let (value, goes_at) = (found.value.to_vec(), found.goes_at);
        c.shard.keys.set(to, &value, goes_at).map_err(|_| FULL)?;
        c.shard.keys.remove(from, c.now);
    }
    match if_absent {
        true => c.out.integer(is_done.into()),
        false => c.out.ok(),
    }
    Ok(())
}

/// Checks the number of a database.
fn database(word: &[u8]) -> Done {
    match small_integer(word)? {
        0 => Ok(()),
        _ => Err("ERR DB index is out of range"),
    }
}

fn copy(c: &mut Call<'_>) -> Done {
    let (from, to) = (c.word(1), c.word(2));
    let (mut replaces, mut at) = (false, 3);
    while at < c.words.len() {
        let word = c.word(at);
        if word.eq_ignore_ascii_case(b"REPLACE") {
            replaces = true;
        } else if word.eq_ignore_ascii_case(b"DB") && at + 1 < c.words.len() {
            at += 1;
            database(c.word(at))?;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    if from == to {
        return Err("ERR source and destination objects are the same");
    }
    let found = c.shard.keys.get(from, c.now);
    let is_free = replaces || c.shard.keys.get(to, c.now).is_none();
    let is_done = match found.filter(|_| is_free) {
        Some(found) => {
            let (value, goes_at) = (found.value.to_vec(), found.goes_at);
            c.shard.keys.set(to, &value, goes_at).map_err(|_| FULL)?;
            true
        }
        None => false,
    };
    c.out.integer(is_done.into());
    Ok(())
}

fn moves(c: &mut Call<'_>) -> Done {
    database(c.word(2))?;
    Err("ERR source and destination objects are the same")
}

fn randomkey(c: &mut Call<'_>) -> Done {
    let draw = c.shard.draw();
    match c.shard.keys.random(draw, c.now) {
        Some(key) => c.out.bulk(key),
        None => c.out.nothing(),
    }
    Ok(())
}

fn keys(c: &mut Call<'_>) -> Done {
    let pattern = c.word(1);
    let (mut names, mut count, now) = (c.out.list(), 0, c.now);
    c.shard.keys.each(|key, goes_at| {
        let is_there = goes_at == 0 || goes_at > now;
        if is_there && (pattern == b"*" || glob::matches(pattern, key)) {
            names.bulk(key);
            count += 1;
        }
    });
    c.out.array_of(count, names);
    Ok(())
}

/// Bits of a cursor that say how far a shard has been walked; above them is the shard's number.
const CURSOR: u32 = 44;

/// Shard of a cursor.
pub fn shard_of_cursor(cursor: &[u8]) -> usize {
    let cursor: u64 = std::str::from_utf8(cursor).ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    (cursor >> CURSOR) as usize
}

fn scan(c: &mut Call<'_>) -> Done {
    let cursor = std::str::from_utf8(c.word(1)).ok().and_then(|cursor| cursor.parse::<u64>().ok());
    let cursor = cursor.ok_or("ERR invalid cursor")?;
    let (mut count, mut pattern, mut is_kind, mut at) = (10, &b"*"[..], true, 2);
    while at < c.words.len() {
        let (word, value) = (c.word(at), c.word(at + 1));
        let has_value = at + 1 < c.words.len();
        if word.eq_ignore_ascii_case(b"COUNT") && has_value {
            count = integer(value)?;
            if count < 1 {
                return Err(SYNTAX);
            }
        } else if word.eq_ignore_ascii_case(b"MATCH") && has_value {
            pattern = value;
        } else if word.eq_ignore_ascii_case(b"TYPE") && has_value {
            is_kind = value.eq_ignore_ascii_case(b"string");
        } else {
            return Err(SYNTAX);
        }
        at += 2;
    }
    let own = cursor & ((1 << CURSOR) - 1);
    let (mut names, mut found, now) = (c.out.list(), 0, c.now);
    // So many at once that others do not wait.
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(100_000);
    let next = match (cursor >> CURSOR) as usize == c.shard.number {
        true => c.shard.keys.scan(own, count, |key, goes_at| {
            let is_there = goes_at == 0 || goes_at > now;
            if is_there && is_kind && glob::matches(pattern, key) {
                names.bulk(key);
                found += 1;
            }
        }),
        false => None,
    };
    let next = match next {
        Some(next) => (c.shard.number as u64) << CURSOR | next,
        None if c.shard.number + 1 < c.shard.of => (c.shard.number as u64 + 1) << CURSOR,
        None => 0,
    };
    c.out.array(2);
    c.out.bulk(next.to_string().as_bytes());
    c.out.array_of(found, names);
    Ok(())
}

fn encoding(c: &mut Call<'_>) -> Done {
    match c.shard.keys.get(c.word(2), c.now) {
        Some(found) => c.out.bulk(match found.value {
            value if is_number(value) => b"int",
            value if value.len() <= 44 => b"embstr",
            _ => b"raw",
        }),
        None => c.out.nothing(),
    }
    Ok(())
}

/// Refuses to tell of a key that is there what is not kept.
fn not_kept(c: &mut Call<'_>, refusal: &'static str) -> Done {
    if c.shard.keys.get(c.word(2), c.now).is_some() {
        return Err(refusal);
    }
    c.out.nothing();
    Ok(())
}

fn refcount(c: &mut Call<'_>) -> Done {
    match c.shard.keys.get(c.word(2), c.now) {
        Some(_) => c.out.integer(1),
        None => c.out.nothing(),
    }
    Ok(())
}

fn usage(c: &mut Call<'_>) -> Done {
    for at in (3..c.words.len()).step_by(2) {
        if !c.word(at).eq_ignore_ascii_case(b"SAMPLES") || at + 1 >= c.words.len() {
            return Err(SYNTAX);
        }
        if integer(c.word(at + 1))? < 0 {
            return Err(SYNTAX);
        }
    }
    let key = c.word(2);
    match c.shard.keys.get(key, c.now) {
        // With its place in a table.
        Some(found) => {
            c.out.integer(32 + (key.len() + found.value.len()).next_multiple_of(8) as i64)
        }
        None => c.out.nothing(),
    }
    Ok(())
}

fn object_help(h: &mut Here<'_>) -> Done {
    help(h.out, OBJECT)
}

fn memory_help(h: &mut Here<'_>) -> Done {
    help(h.out, MEMORY)
}
