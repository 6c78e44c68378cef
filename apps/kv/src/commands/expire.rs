//! Commands on when keys go.

use super::options::integer;
use super::row::flag::{FAST, READ, WRITE};
use super::row::{Call, Done, Refused, Row, Run};

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    run: Run,
    since: &'static str,
    summary: &'static str,
) -> Row {
    let flags = flags | FAST;
    Row { name, arity, flags, keys: (1, 1, 1), run, group: "generic", since, summary }
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("expire", -3, WRITE, Run::Keys(|c| expire(c, 1000, true, "ERR invalid expire time in 'expire' command")), "1.0.0", "Sets in how many seconds a key goes."),
    row("expireat", -3, WRITE, Run::Keys(|c| expire(c, 1000, false, "ERR invalid expire time in 'expireat' command")), "1.2.0", "Sets at which second since 1970 a key goes."),
    row("expiretime", 2, READ, Run::Keys(|c| left(c, |at, _| (at as i64).saturating_add(500) / 1000)), "7.0.0", "Gives the second since 1970 at which a key goes, rounded."),
    row("persist", 2, WRITE, Run::Keys(persist), "2.2.0", "Has a key stay that would go."),
    row("pexpire", -3, WRITE, Run::Keys(|c| expire(c, 1, true, "ERR invalid expire time in 'pexpire' command")), "2.6.0", "Sets in how many milliseconds a key goes."),
    row("pexpireat", -3, WRITE, Run::Keys(|c| expire(c, 1, false, "ERR invalid expire time in 'pexpireat' command")), "2.6.0", "Sets at which millisecond since 1970 a key goes."),
    row("pexpiretime", 2, READ, Run::Keys(|c| left(c, |at, _| at as i64)), "7.0.0", "Gives the millisecond since 1970 at which a key goes."),
    row("pttl", 2, READ, Run::Keys(|c| left(c, |at, now| (at - now) as i64)), "2.6.0", "Gives in how many milliseconds a key goes."),
    row("ttl", 2, READ, Run::Keys(|c| left(c, |at, now| ((at - now) as i64).saturating_add(500) / 1000)), "1.0.0", "Gives in how many seconds a key goes, rounded."),
];

/// Conditions on which a time is set.
#[derive(Clone, Copy, Debug, Default)]
struct If {
    none: bool,
    some: bool,
    later: bool,
    sooner: bool,
}

fn expire(c: &mut Call<'_>, unit: i64, is_from_now: bool, wrong: Refused) -> Done {
    let mut only = If::default();
    for word in c.words.from(3).iter() {
        match word {
            _ if word.eq_ignore_ascii_case(b"NX") => only.none = true,
            _ if word.eq_ignore_ascii_case(b"XX") => only.some = true,
            _ if word.eq_ignore_ascii_case(b"GT") => only.later = true,
            _ if word.eq_ignore_ascii_case(b"LT") => only.sooner = true,
            _ => {
                c.out.error_of(&[b"ERR Unsupported option ", word]);
                return Ok(());
            }
        }
    }
    if only.none && (only.some || only.later || only.sooner) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible");
    }
    if only.later && only.sooner {
        return Err("ERR GT and LT options at the same time are not compatible");
    }
    let parts = integer(c.word(2))?;
    let base = if is_from_now { i64::try_from(c.now).map_err(|_| wrong)? } else { 0 };
    // Times that are over are fine: the key goes at once.
    let at = parts.checked_mul(unit).and_then(|ms| ms.checked_add(base)).ok_or(wrong)?;
    let key = c.word(1);
    let Some(found) = c.shard.keys.get(key, c.now) else {
        c.out.integer(0);
        return Ok(());
    };
    let before = found.goes_at as i64;
    let is_met = match before {
        0 => !only.some && !only.later,
        before => !only.none && (!only.later || at > before) && (!only.sooner || at < before),
    };
    if is_met {
        match u64::try_from(at) {
            Ok(at) if at > c.now => c.shard.keys.goes(key, at),
            _ => _ = c.shard.keys.remove(key, c.now),
        }
    }
    c.out.integer(is_met.into());
    Ok(())
}

/// Answers when a key goes: -2 if it is not there, -1 if never.
fn left(c: &mut Call<'_>, say: fn(u64, u64) -> i64) -> Done {
    let left = match c.shard.keys.get(c.word(1), c.now) {
        None => -2,
        Some(found) if found.goes_at == 0 => -1,
        Some(found) => say(found.goes_at, c.now),
    };
    c.out.integer(left);
    Ok(())
}

fn persist(c: &mut Call<'_>) -> Done {
    let key = c.word(1);
    let goes = c.shard.keys.get(key, c.now).is_some_and(|found| found.goes_at != 0);
    if goes {
        c.shard.keys.goes(key, 0);
    }
    c.out.integer(goes.into());
    Ok(())
}
