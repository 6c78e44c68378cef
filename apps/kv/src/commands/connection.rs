//! Commands on the connection itself.

use super::keys::help;
use super::options::{SYNTAX, integer, small_integer};
use super::row::flag::{ADMIN, FAST, NO_AUTH, NO_MULTI, NOSCRIPT, NOW};
use super::row::{Call, Done, Here, Merge, Row, Run};
use crate::clients::Filter;
use crate::resp::number;
use crate::session::Reply;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    run: Run,
    since: &'static str,
    summary: &'static str,
) -> Row {
    Row { name, arity, flags, keys: (0, 0, 0), run, group: "connection", since, summary }
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("auth", -2, NOSCRIPT | FAST | NO_AUTH, Run::Here(auth), "1.0.0", "Says the password."),
    row("client", -2, NOSCRIPT, Run::Group(CLIENT), "2.4.0", "Asks for clients, and sets what this one is."),
    row("echo", 2, FAST, Run::Here(echo), "1.0.0", "Gives its word back."),
    row("hello", -1, NOSCRIPT | FAST | NO_AUTH, Run::Here(hello), "6.0.0", "Chooses the version of the protocol, and says who is there."),
    row("ping", -1, FAST, Run::Here(ping), "1.0.0", "Answers PONG, or its word."),
    row("quit", -1, NOSCRIPT | FAST | NO_AUTH | NOW, Run::Here(quit), "1.0.0", "Ends the connection."),
    row("reset", 1, NOSCRIPT | FAST | NO_AUTH | NOW, Run::Unwatch(reset), "6.2.0", "Makes the connection as it was at its beginning."),
    row("select", 2, FAST, Run::Here(select), "1.0.0", "Chooses the database, of which there is one: 0."),
];

#[rustfmt::skip]
const CLIENT: &[Row] = &[
    row("client|getname", 2, NOSCRIPT, Run::Here(getname), "2.6.9", "Gives the connection's name."),
    row("client|getredir", 2, NOSCRIPT, Run::Here(|h| { h.out.integer(-1); Ok(()) }), "6.0.0", "Gives -1: invalidations go nowhere, as there are none."),
    row("client|help", 2, NOSCRIPT, Run::Here(client_help), "5.0.0", "Lists the subcommands of CLIENT."),
    row("client|id", 2, NOSCRIPT, Run::Here(id), "5.0.0", "Gives the connection's number."),
    row("client|info", 2, NOSCRIPT, Run::Here(info), "6.2.0", "Gives the connection's line of CLIENT LIST."),
    row("client|kill", -3, ADMIN | NOSCRIPT, Run::All(kill, Merge::Killed), "2.4.0", "Ends connections."),
    row("client|list", -2, ADMIN | NOSCRIPT, Run::All(list, Merge::Text), "2.4.0", "Gives a line for each connection."),
    row("client|no-evict", 3, ADMIN | NOSCRIPT, Run::Here(no_evict), "7.0.0", "Has this client be the last one to be let go for its memory."),
    row("client|no-touch", 3, NOSCRIPT, Run::Here(no_touch), "7.2.0", "Is accepted: no read changes what is known of a key."),
    row("client|reply", 3, NOSCRIPT | NO_MULTI, Run::Here(reply), "3.2.0", "Sets whether commands are answered."),
    row("client|setinfo", 4, NOSCRIPT, Run::Here(setinfo), "7.2.0", "Sets the name and the version of the client's library."),
    row("client|setname", 3, NOSCRIPT, Run::Here(setname), "2.6.9", "Sets the connection's name."),
];

const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";

fn ping(h: &mut Here<'_>) -> Done {
    match h.words.len() {
        1 => h.out.simple("PONG"),
        2 => h.out.bulk(h.word(1)),
        _ => return Err("ERR wrong number of arguments for 'ping' command"),
    }
    Ok(())
}

fn echo(h: &mut Here<'_>) -> Done {
    h.out.bulk(h.word(1));
    Ok(())
}

fn quit(h: &mut Here<'_>) -> Done {
    h.session.ends = true;
    h.out.ok();
    Ok(())
}

fn select(h: &mut Here<'_>) -> Done {
    if small_integer(h.word(1))? != 0 {
        return Err("ERR DB index is out of range");
    }
    h.out.ok();
    Ok(())
}

fn reset(h: &mut Here<'_>) -> Done {
    h.session.multi = None;
    (h.session.is_three, h.out.is_three) = (false, false);
    if h.session.reply != Reply::Skip {
        h.session.reply = Reply::On;
    }
    h.session.stays = false;
    h.session.name.clear();
    h.session.is_known = !h.shared.has_password();
    h.session.is_new = true;
    h.out.simple("RESET");
    Ok(())
}

fn auth(h: &mut Here<'_>) -> Done {
    let (user, password) = match h.words.len() {
        2 => (&b"default"[..], h.word(1)),
        3 => (h.word(1), h.word(2)),
        _ => return Err(SYNTAX),
    };
    if h.words.len() == 2 && !h.shared.has_password() {
        return Err(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        );
    }
    if user != b"default" || !h.shared.is_password(password) {
        h.shared.refused_password();
        return Err(WRONG_PASS);
    }
    h.session.is_known = true;
    h.out.ok();
    Ok(())
}

fn hello(h: &mut Here<'_>) -> Done {
    let mut is_three = h.session.is_three;
    let mut at = 1;
    if h.words.len() > 1 {
        is_three = match number(h.word(1)) {
            Some(2) => false,
            Some(3) => true,
            Some(_) => return Err("NOPROTO unsupported protocol version"),
            None => return Err("ERR Protocol version is not an integer or out of range"),
        };
        at = 2;
    }
    let (mut is_known, mut name) = (h.session.is_known, None);
    while at < h.words.len() {
        let (word, left) = (h.word(at), h.words.len() - at - 1);
        if word.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
            if h.word(at + 1) != b"default" || !h.shared.is_password(h.word(at + 2)) {
                h.shared.refused_password();
                return Err(WRONG_PASS);
            }
            is_known = true;
            at += 3;
        } else if word.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
            name = Some(named(h.word(at + 1)).ok_or(BAD_NAME)?);
            at += 2;
        } else {
            h.out.error_of(&[b"ERR Syntax error in HELLO option '", word, b"'"]);
            return Ok(());
        }
    }
    if !is_known {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        );
    }
    h.session.is_known = true;
    (h.session.is_three, h.out.is_three) = (is_three, is_three);
    if let Some(name) = name {
        h.session.name = name;
    }
    h.session.is_new = true;
    h.out.map(7);
    for (name, value) in [("server", "redis"), ("version", crate::shared::REDIS_VERSION)] {
        h.out.bulk(name.as_bytes());
        h.out.bulk(value.as_bytes());
    }
    h.out.bulk(b"proto");
    h.out.integer(if is_three { 3 } else { 2 });
    h.out.bulk(b"id");
    h.out.integer(h.session.id as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        h.out.bulk(name.as_bytes());
        h.out.bulk(value.as_bytes());
    }
    h.out.bulk(b"modules");
    h.out.array(0);
    Ok(())
}

const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

/// A name that can stand in a list.
fn named(word: &[u8]) -> Option<String> {
    let is_fine = word.iter().all(|byte| (b'!'..=b'~').contains(byte));
    is_fine.then(|| String::from_utf8_lossy(word).into_owned())
}

fn setname(h: &mut Here<'_>) -> Done {
    h.session.name = named(h.word(2)).ok_or(BAD_NAME)?;
    h.session.is_new = true;
    h.out.ok();
    Ok(())
}

fn getname(h: &mut Here<'_>) -> Done {
    match h.session.name.as_bytes() {
        b"" => h.out.nothing(),
        name => h.out.bulk(name),
    }
    Ok(())
}

fn setinfo(h: &mut Here<'_>) -> Done {
    let (option, value) = (h.word(2), h.word(3));
    let field = match option {
        _ if option.eq_ignore_ascii_case(b"lib-name") => &mut h.session.lib_name,
        _ if option.eq_ignore_ascii_case(b"lib-ver") => &mut h.session.lib_ver,
        _ => {
            h.out.error_of(&[b"ERR Unrecognized option '", option, b"'"]);
            return Ok(());
        }
    };
    let Some(value) = named(value) else {
        let option = option.to_ascii_lowercase();
        let text = b" cannot contain spaces, newlines or special characters.";
        h.out.error_of(&[b"ERR ", &option, text]);
        return Ok(());
    };
    *field = value;
    h.session.is_new = true;
    h.out.ok();
    Ok(())
}

fn id(h: &mut Here<'_>) -> Done {
    h.out.integer(h.session.id as i64);
    Ok(())
}

fn info(h: &mut Here<'_>) -> Done {
    let mut line = String::new();
    h.session.about(h.now).line(h.now, &mut line);
    h.out.text(line.as_bytes());
    Ok(())
}

/// Whether a word is `ON`.
fn is_on(word: &[u8]) -> Result<bool, &'static str> {
    match word {
        _ if word.eq_ignore_ascii_case(b"ON") => Ok(true),
        _ if word.eq_ignore_ascii_case(b"OFF") => Ok(false),
        _ => Err(SYNTAX),
    }
}

fn no_evict(h: &mut Here<'_>) -> Done {
    h.session.stays = is_on(h.word(2))?;
    h.session.is_new = true;
    h.out.ok();
    Ok(())
}

fn no_touch(h: &mut Here<'_>) -> Done {
    // No read touches anything that could be left alone.
    is_on(h.word(2))?;
    h.out.ok();
    Ok(())
}

fn reply(h: &mut Here<'_>) -> Done {
    let word = h.word(2);
    if word.eq_ignore_ascii_case(b"ON") {
        h.session.reply = Reply::On;
        h.out.ok();
    } else if word.eq_ignore_ascii_case(b"OFF") {
        h.session.reply = Reply::Off;
    } else if word.eq_ignore_ascii_case(b"SKIP") {
        if h.session.reply != Reply::Off {
            h.session.reply = Reply::SkipNext;
        }
    } else {
        return Err(SYNTAX);
    }
    Ok(())
}

/// Whether clients are of a type; all that there are, are normal ones.
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

fn list(c: &mut Call<'_>) -> Done {
    let mut filter = Filter::default();
    let words = c.words;
    if words.len() == 4 && words.get(2).eq_ignore_ascii_case(b"TYPE") {
        let Some(is_normal) = is_normal(words.get(3), c.out) else { return Ok(()) };
        filter.is_none = !is_normal;
    } else if words.len() > 3 && words.get(2).eq_ignore_ascii_case(b"ID") {
        let ids = words.from(3).iter().map(|word| number(word).filter(|id| *id > 0));
        let ids: Option<Vec<u64>> = ids.map(|id| id.map(|id| id as u64)).collect();
        filter.ids = Some(ids.ok_or("ERR Invalid client ID")?);
    } else if words.len() > 2 {
        return Err(SYNTAX);
    }
    let lines = c.shard.clients.list(&filter, c.now);
    c.out.text(lines.as_bytes());
    Ok(())
}

/// There is none with an address.
pub const NO_CLIENT: &str = "ERR No such client";

fn kill(c: &mut Call<'_>) -> Done {
    let words = c.words;
    if words.len() == 3 {
        let addr = String::from_utf8_lossy(words.get(2)).into_owned();
        let filter = Filter { addr: Some(addr), ..Filter::default() };
        let killed = c.shard.clients.kill(&filter, c.now);
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
    filter.but = skips_me.then_some(c.client);
    let killed = c.shard.clients.kill(&filter, c.now);
    c.out.integer(killed as i64);
    Ok(())
}

fn client_help(h: &mut Here<'_>) -> Done {
    help(h.out, CLIENT)
}
