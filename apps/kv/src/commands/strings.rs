//! Commands on values.

use super::float;
use super::lcs;
use super::options::{FULL, Options, Time, goes_at, integer, options};
use super::row::flag::{DENYOOM, FAST, LONG, READ, WRITE};
use super::row::{Call, Done, Merge, Refused, Row, Run};
use crate::resp::{digits, number};

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: (i32, i32, i32),
    run: Run,
    since: &'static str,
    summary: &'static str,
) -> Row {
    Row { name, arity, flags, keys, run, group: "string", since, summary }
}

const ONE: (i32, i32, i32) = (1, 1, 1);
const CHANGES: u32 = WRITE | DENYOOM;
const COUNTS: u32 = WRITE | DENYOOM | FAST;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("append", 3, COUNTS, ONE, Run::Keys(append), "2.0.0", "Puts more behind a value, and gives its length."),
    row("decr", 2, COUNTS, ONE, Run::Keys(|c| add(c, -1)), "1.0.0", "Takes one from a number; a key that is not there counts as 0."),
    row("decrby", 3, COUNTS, ONE, Run::Keys(decrby), "1.0.0", "Takes so much from a number."),
    row("get", 2, READ | FAST, ONE, Run::Keys(get), "1.0.0", "Gives a value."),
    row("getdel", 2, WRITE | FAST, ONE, Run::Keys(getdel), "6.2.0", "Gives a value and takes its key away."),
    row("getex", -2, WRITE | FAST, ONE, Run::Keys(getex), "6.2.0", "Gives a value and sets when its key goes."),
    row("getrange", 4, READ, ONE, Run::Keys(getrange), "2.4.0", "Gives a part of a value, from one place to another."),
    row("getset", 3, COUNTS, ONE, Run::Keys(getset), "1.0.0", "Sets a value and gives the one before."),
    row("incr", 2, COUNTS, ONE, Run::Keys(|c| add(c, 1)), "1.0.0", "Adds one to a number; a key that is not there counts as 0."),
    row("incrby", 3, COUNTS, ONE, Run::Keys(incrby), "1.0.0", "Adds so much to a number."),
    row("incrbyfloat", 3, COUNTS, ONE, Run::Keys(incrbyfloat), "2.6.0", "Adds to a number with a point."),
    row("lcs", -3, READ | LONG, (1, 2, 1), Run::Keys(lcs::lcs), "7.0.0", "Gives the longest part that two values have in common."),
    row("mget", -2, READ | FAST, (1, -1, 1), Run::Split(mget, Merge::Array), "1.0.0", "Gives the values of several keys."),
    row("mset", -3, CHANGES, (1, -1, 2), Run::Split(mset, Merge::First), "1.0.1", "Sets the values of several keys, all or none."),
    row("msetnx", -3, CHANGES, (1, -1, 2), Run::Keys(msetnx), "1.0.1", "Sets the values of several keys, if none of them is there."),
    row("psetex", 4, CHANGES, ONE, Run::Keys(|c| setex(c, 1, "ERR invalid expire time in 'psetex' command")), "2.6.0", "Sets a value that goes after so many milliseconds."),
    row("set", -3, CHANGES, ONE, Run::Keys(set), "1.0.0", "Sets a value, on conditions and with a time if those are given."),
    row("setex", 4, CHANGES, ONE, Run::Keys(|c| setex(c, 1000, "ERR invalid expire time in 'setex' command")), "2.0.0", "Sets a value that goes after so many seconds."),
    row("setnx", 3, COUNTS, ONE, Run::Keys(setnx), "1.0.0", "Sets a value if the key is not there."),
    row("setrange", 4, CHANGES, ONE, Run::Keys(setrange), "2.2.0", "Writes over a part of a value, from a place on."),
    row("strlen", 2, READ | FAST, ONE, Run::Keys(strlen), "2.2.0", "Gives a value's length."),
    row("substr", 4, READ, ONE, Run::Keys(getrange), "1.0.0", "Gives a part of a value: the old name of GETRANGE."),
];

const TOO_LONG: Refused = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// Writes a key's value; when it goes, if it is there.
#[inline]
fn answer(c: &mut Call<'_>, key: &[u8]) -> Option<u64> {
    match c.shard.keys.get(key, c.now) {
        Some(found) => {
            c.shard.hits += 1;
            c.out.bulk(found.value);
            Some(found.goes_at)
        }
        None => {
            c.shard.misses += 1;
            c.out.nothing();
            None
        }
    }
}

#[inline]
fn put(c: &mut Call<'_>, key: &[u8], value: &[u8], goes_at: u64) -> Done {
    c.shard.keys.set(key, value, goes_at).map_err(|_| FULL)
}

fn get(c: &mut Call<'_>) -> Done {
    answer(c, c.word(1));
    Ok(())
}

fn set(c: &mut Call<'_>) -> Done {
    let (key, value) = (c.word(1), c.word(2));
    if c.words.len() == 3 {
        put(c, key, value, 0)?;
        c.out.ok();
        return Ok(());
    }
    let Options { if_absent, if_present, gets, time, .. } = options(c.words, 3, false)?;
    let found = c.shard.keys.get(key, c.now);
    let at = match time {
        Time::Never => 0,
        Time::Kept => found.map_or(0, |found| found.goes_at),
        Time::Word { at, unit, is_from_now } => {
            let at = goes_at(integer(c.word(at))?, unit, is_from_now, c.now);
            at.ok_or("ERR invalid expire time in 'set' command")?
        }
    };
    let is_there = found.is_some();
    if gets {
        answer(c, key);
    }
    if if_absent && is_there || if_present && !is_there {
        if !gets {
            c.out.nothing();
        }
        return Ok(());
    }
    put(c, key, value, at)?;
    if !gets {
        c.out.ok();
    }
    Ok(())
}

fn setnx(c: &mut Call<'_>) -> Done {
    let key = c.word(1);
    let is_new = c.shard.keys.get(key, c.now).is_none();
    if is_new {
        put(c, key, c.word(2), 0)?;
    }
    c.out.integer(is_new.into());
    Ok(())
}

fn setex(c: &mut Call<'_>, unit: i64, wrong: Refused) -> Done {
    let at = goes_at(integer(c.word(2))?, unit, true, c.now).ok_or(wrong)?;
    put(c, c.word(1), c.word(3), at)?;
    c.out.ok();
    Ok(())
}

fn getset(c: &mut Call<'_>) -> Done {
    let key = c.word(1);
    answer(c, key);
    put(c, key, c.word(2), 0)
}

fn getdel(c: &mut Call<'_>) -> Done {
    let key = c.word(1);
    if answer(c, key).is_some() {
        c.shard.keys.remove(key, c.now);
    }
    Ok(())
}

fn getex(c: &mut Call<'_>) -> Done {
    let key = c.word(1);
    let Options { persists, time, .. } = options(c.words, 2, true)?;
    let at = match time {
        Time::Word { at, unit, is_from_now } if c.shard.keys.get(key, c.now).is_some() => {
            let at = goes_at(integer(c.word(at))?, unit, is_from_now, c.now);
            Some(at.ok_or("ERR invalid expire time in 'getex' command")?)
        }
        _ => None,
    };
    let Some(before) = answer(c, key) else { return Ok(()) };
    match at {
        Some(at) if at <= c.now => _ = c.shard.keys.remove(key, c.now),
        Some(at) => c.shard.keys.goes(key, at),
        None if persists && before != 0 => c.shard.keys.goes(key, 0),
        None => {}
    }
    Ok(())
}

fn append(c: &mut Call<'_>) -> Done {
    let (key, more) = (c.word(1), c.word(2));
    let Some(found) = c.shard.keys.get(key, c.now) else {
        put(c, key, more, 0)?;
        c.out.integer(more.len() as i64);
        return Ok(());
    };
    let length = found.value.len() + more.len();
    if length > c.shard.longest {
        return Err(TOO_LONG);
    }
    let (old, goes_at) = (found.value.to_vec(), found.goes_at);
    c.shard.keys.set_pieces(key, &[&old, more], goes_at).map_err(|_| FULL)?;
    c.out.integer(length as i64);
    Ok(())
}

fn strlen(c: &mut Call<'_>) -> Done {
    let length = c.shard.keys.get(c.word(1), c.now).map_or(0, |found| found.value.len());
    c.out.integer(length as i64);
    Ok(())
}

fn setrange(c: &mut Call<'_>) -> Done {
    let (key, more) = (c.word(1), c.word(3));
    let offset = integer(c.word(2))?;
    let offset = usize::try_from(offset).map_err(|_| "ERR offset is out of range")?;
    let found = c.shard.keys.get(key, c.now);
    let (old, goes_at) = found.map_or((&b""[..], 0), |found| (found.value, found.goes_at));
    if more.is_empty() {
        c.out.integer(old.len() as i64);
        return Ok(());
    }
    let end = offset.checked_add(more.len()).filter(|end| *end <= c.shard.longest);
    let end = end.ok_or(TOO_LONG)?;
    let mut value = vec![0; end.max(old.len())];
    value[..old.len()].copy_from_slice(old);
    value[offset..end].copy_from_slice(more);
    put(c, key, &value, goes_at)?;
    c.out.integer(value.len() as i64);
    Ok(())
}

fn getrange(c: &mut Call<'_>) -> Done {
    let (start, end) = (integer(c.word(2))?, integer(c.word(3))?);
    let value = c.shard.keys.get(c.word(1), c.now).map_or(&b""[..], |found| found.value);
    let length = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        c.out.bulk(b"");
        return Ok(());
    }
    let from = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (start, end) = (from(start), from(end).min(length - 1));
    let range = start.max(0) as usize..(end + 1).max(0) as usize;
    c.out.bulk(value.get(range).unwrap_or_default());
    Ok(())
}

/// A key's number and when it goes, or nought.
fn counted(c: &Call<'_>, key: &[u8]) -> Result<(i64, u64), Refused> {
    match c.shard.keys.get(key, c.now) {
        Some(found) => Ok((integer(found.value)?, found.goes_at)),
        None => Ok((0, 0)),
    }
}

fn add(c: &mut Call<'_>, by: i64) -> Done {
    let key = c.word(1);
    let (old, goes_at) = counted(c, key)?;
    let sum = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    put(c, key, digits(sum, &mut [0; 24]), goes_at)?;
    c.out.integer(sum);
    Ok(())
}

fn incrby(c: &mut Call<'_>) -> Done {
    add(c, integer(c.word(2))?)
}

fn decrby(c: &mut Call<'_>) -> Done {
    let by = integer(c.word(2))?;
    add(c, by.checked_neg().ok_or("ERR decrement would overflow")?)
}

fn incrbyfloat(c: &mut Call<'_>) -> Done {
    let key = c.word(1);
    let found = c.shard.keys.get(key, c.now);
    let (old, goes_at) = found.map_or((&b"0"[..], 0), |found| (found.value, found.goes_at));
    let sum = float::sum(old, c.word(2))?;
    put(c, key, sum.as_bytes(), goes_at)?;
    c.out.bulk(sum.as_bytes());
    Ok(())
}

fn mget(c: &mut Call<'_>) -> Done {
    c.out.array(c.words.len() - 1);
    for key in c.words.from(1).iter() {
        answer(c, key);
    }
    Ok(())
}

/// Positions of each key and of its value; an error if a key has none.
fn pairs(
    c: &Call<'_>,
    wrong: Refused,
) -> Result<impl Iterator<Item = (usize, usize)> + use<>, Refused> {
    let words = c.words.len();
    if words.is_multiple_of(2) {
        Err(wrong)
    } else {
        Ok((1..words).step_by(2).map(|at| (at, at + 1)))
    }
}

fn set_pairs(c: &mut Call<'_>, pairs: impl Iterator<Item = (usize, usize)> + Clone) -> Done {
    let words = c.words;
    if words.len() > 3 {
        let sizes =
            pairs.clone().map(|(key, value)| (words.get(key).len(), words.get(value).len()));
        c.shard.keys.room_for(sizes).map_err(|_| FULL)?;
    }
    for (key, value) in pairs {
        put(c, words.get(key), words.get(value), 0)?;
    }
    Ok(())
}

fn mset(c: &mut Call<'_>) -> Done {
    let pairs: Vec<_> = pairs(c, "ERR wrong number of arguments for 'mset' command")?.collect();
    set_pairs(c, pairs.into_iter())?;
    c.out.ok();
    Ok(())
}

fn msetnx(c: &mut Call<'_>) -> Done {
    let pairs: Vec<_> = pairs(c, "ERR wrong number of arguments for 'msetnx' command")?.collect();
    let is_new = pairs.iter().all(|(key, _)| c.shard.keys.get(c.word(*key), c.now).is_none());
    if is_new {
        set_pairs(c, pairs.into_iter())?;
    }
    c.out.integer(is_new.into());
    Ok(())
}

/// True if Redis would keep a value as a number.
pub(super) fn is_number(value: &[u8]) -> bool {
    value.len() <= crate::resp::MOST_DIGITS && number(value).is_some()
}
