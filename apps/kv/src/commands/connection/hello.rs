//! `HELLO` and `AUTH`: who is there, and in which version of the protocol.

use super::client::{BAD_NAME, named};
use crate::commands::options::SYNTAX;
use crate::commands::row::{Done, Here};
use crate::resp::number;

const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn auth(h: &mut Here<'_>) -> Done {
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

pub(super) fn hello(h: &mut Here<'_>) -> Done {
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
