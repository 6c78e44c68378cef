//! `CLIENT`: what this client is.

use super::others::{kill, list};
use super::{row, tracking};
use crate::commands::keys::help;
use crate::commands::options::SYNTAX;
use crate::commands::row::flag::{ADMIN, NO_MULTI, NOSCRIPT};
use crate::commands::row::{Done, Here, Merge, Row, Run};
use crate::session::Reply;

#[rustfmt::skip]
pub(super) const CLIENT: &[Row] = &[
    row("client|caching", 3, NOSCRIPT, Run::Here(tracking::caching), "6.0.0", "Says whether the next command's keys are followed."),
    row("client|getname", 2, NOSCRIPT, Run::Here(getname), "2.6.9", "Gives the connection's name."),
    row("client|getredir", 2, NOSCRIPT, Run::Here(tracking::getredir), "6.0.0", "Gives the client that gets its invalidations instead; 0: none, -1: nobody gets them."),
    row("client|help", 2, NOSCRIPT, Run::Here(client_help), "5.0.0", "Lists the subcommands of CLIENT."),
    row("client|id", 2, NOSCRIPT, Run::Here(id), "5.0.0", "Gives the connection's number."),
    row("client|info", 2, NOSCRIPT, Run::Here(info), "6.2.0", "Gives the connection's line of CLIENT LIST."),
    row("client|kill", -3, ADMIN | NOSCRIPT, Run::All(kill, Merge::Killed), "2.4.0", "Ends connections."),
    row("client|list", -2, ADMIN | NOSCRIPT, Run::All(list, Merge::Text), "2.4.0", "Gives a line for each connection."),
    row("client|no-evict", 3, ADMIN | NOSCRIPT, Run::Here(no_evict), "7.0.0", "Has this client be the last one to be evicted for its memory."),
    row("client|no-touch", 3, NOSCRIPT, Run::Here(no_touch), "7.2.0", "Is accepted: no read changes what is known of a key."),
    row("client|pause", -3, ADMIN | NOSCRIPT, Run::Here(|_| Err(NO_PAUSE)), "3.0.0", "Is refused: there is no replica or other server for which clients would have to wait."),
    row("client|reply", 3, NOSCRIPT | NO_MULTI, Run::Here(reply), "3.2.0", "Sets whether commands are answered."),
    row("client|setinfo", 4, NOSCRIPT, Run::Here(setinfo), "7.2.0", "Sets the name and the version of the client's library."),
    row("client|setname", 3, NOSCRIPT, Run::Here(setname), "2.6.9", "Sets the connection's name."),
    row("client|tracking", -3, NOSCRIPT, Run::Track, "6.0.0", "Starts or ends invalidations: of keys that the client has read, or of all with a prefix."),
    row("client|trackinginfo", 2, NOSCRIPT, Run::Here(tracking::info), "6.2.0", "Gives the settings of the client's invalidations."),
    row("client|unpause", 2, ADMIN | NOSCRIPT, Run::Here(|_| Err(NO_PAUSE)), "6.2.0", "Is refused, as CLIENT PAUSE is."),
];

/// Refusal of a pause: a client asks for one to move keys to another server, and would lose what is
/// written meanwhile if it were only told so.
const NO_PAUSE: &str = "ERR CLIENT PAUSE is refused: clients are never held up here, as there is no replica or other \
     server to wait for; nothing has changed";

fn client_help(h: &mut Here<'_>) -> Done {
    help(h.out, CLIENT)
}

pub(super) const BAD_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";

/// A name that can stand in a list.
pub(super) fn named(word: &[u8]) -> Option<String> {
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

/// Returns true if a word is `ON`.
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
