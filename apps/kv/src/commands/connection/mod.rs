//! Commands on the connection itself.

mod client;
mod hello;
mod others;
mod tracking;

use super::options::small_integer;
use super::row::flag::{FAST, NO_AUTH, NOSCRIPT, NOW};
use super::row::{Done, Here, Row, Run};
use crate::session::Reply;

use client::CLIENT;
use hello::{auth, hello};
pub use others::NO_CLIENT;

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
