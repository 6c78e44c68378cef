//! `CLIENT LIST` and `CLIENT KILL`: clients of all shards.

use crate::clients::Filter;
use crate::commands::options::{SYNTAX, integer};
use crate::commands::row::{Call, Done};
use crate::resp::number;

/// True if clients are of a type; all that there are, are normal ones.
fn is_normal(word: &[u8], out: &mut crate::resp::Out) -> Option<bool> {
    let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
    match word {
        _ if is(b"normal") => Some(true),
        _ if is(b"master") || is(b"replica") || is(b"slave") || is(b"pubsub") => Some(false),
        _ => {
            out.error_of(&[b"ERR Unknown client type '", word, b"'"]);
            None
        }
    }
}

pub(super) fn list(c: &mut Call<'_>) -> Done {
    let mut filter = Filter::default();
    let words = c.words;
    if words.len() == 4 && words.get(2).eq_ignore_ascii_case(b"TYPE") {
        let Some(is_normal) = is_normal(words.get(3), c.out) else { return Ok(()) };
        filter.is_none = !is_normal;
    } else if words.len() > 3 && words.get(2).eq_ignore_ascii_case(b"ID") {
        let ids = words.from(3).iter().map(|word| number(word).filter(|id| *id > 0));
        let ids: Option<Vec<u64>> = ids.map(|id| id.map(|id| id as u64)).collect();
        let mut ids = ids.ok_or("ERR Invalid client ID")?;
        ids.sort_unstable();
        filter.ids = Some(ids);
    } else if words.len() > 2 {
        return Err(SYNTAX);
    }
    let lines = c.shard.clients.list(&filter, c.now);
    c.out.text(lines.as_bytes());
    Ok(())
}

/// Error where no client has an address.
pub const NO_CLIENT: &str = "ERR No such client";

pub(super) fn kill(c: &mut Call<'_>) -> Done {
    let words = c.words;
    if words.len() == 3 {
        let addr = String::from_utf8_lossy(words.get(2)).into_owned();
        let filter = Filter { addr: Some(addr), ..Filter::default() };
        let killed = c.shard.clients.kill(&filter, c.asker.id, c.now);
        match (c.shard.of, killed) {
            (1, 0) => return Err(NO_CLIENT),
            (1, _) => c.out.ok(),
            // Others may have it: their sum says.
            _ => c.out.integer(killed as i64),
        }
        return Ok(());
    }
    let (mut filter, mut skips_me) = (Filter::default(), true);
    let text = |at| Some(String::from_utf8_lossy(words.get(at)).into_owned());
    let mut at = 2;
    while at < words.len() {
        if at + 1 >= words.len() {
            return Err(SYNTAX);
        }
        let (word, value) = (words.get(at), words.get(at + 1));
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if is(b"ID") {
            let id = number(value).ok_or("ERR client-id should be greater than 0")?;
            let id = u64::try_from(id).ok().filter(|id| *id > 0);
            filter.ids = Some(vec![id.ok_or("ERR client-id should be greater than 0")?]);
        } else if is(b"TYPE") {
            let Some(is_normal) = is_normal(value, c.out) else { return Ok(()) };
            filter.is_none |= !is_normal;
        } else if is(b"ADDR") {
            filter.addr = text(at + 1);
        } else if is(b"LADDR") {
            filter.laddr = text(at + 1);
        } else if is(b"USER") {
            if value != b"default" {
                c.out.error_of(&[b"ERR No such user '", value, b"'"]);
                return Ok(());
            }
        } else if is(b"MAXAGE") {
            let age = integer(value)?;
            filter.age = Some(u64::try_from(age).map_err(|_| SYNTAX)?);
        } else if is(b"SKIPME") && value.eq_ignore_ascii_case(b"yes") {
            skips_me = true;
        } else if is(b"SKIPME") && value.eq_ignore_ascii_case(b"no") {
            skips_me = false;
        } else {
            return Err(SYNTAX);
        }
        at += 2;
    }
    filter.but = skips_me.then_some(c.asker.id);
    let killed = c.shard.clients.kill(&filter, c.asker.id, c.now);
    c.out.integer(killed as i64);
    Ok(())
}
