//! `CLIENT TRACKING`: starts and ends a client's invalidations, and says for which keys.

use crate::commands::{NUMBER, SYNTAX};
use crate::resp::{Out, Words, number};
use crate::session::Session;
use crate::shard::Shard;
use crate::tracking::Tracking;

/// Prefixes of one client, at most.
const PREFIXES: usize = 1024;

/// The shards, as far as somebody who follows keys has to do with them.
pub trait Around {
    /// Returns true if a client speaks version 3 of the protocol; none: there is no such client.
    fn speaks_three(&mut self, client: u64) -> Option<bool>;
    /// Starts invalidations for a client of keys with these prefixes, in all shards.
    fn listen(&mut self, client: u64, skips_own: bool, prefixes: &[Box<[u8]>]);
    /// Ends them.
    fn unlisten(&mut self, client: u64, prefixes: Vec<Box<[u8]>>);
    /// The clients of this core that follow something.
    fn with_followers(&mut self, change: fn(&mut usize));
}

impl Around for &mut Shard {
    fn speaks_three(&mut self, client: u64) -> Option<bool> {
        self.clients.speaks_three(client)
    }

    fn listen(&mut self, client: u64, skips_own: bool, prefixes: &[Box<[u8]>]) {
        self.keys.listen(client, skips_own, prefixes);
    }

    fn unlisten(&mut self, client: u64, prefixes: Vec<Box<[u8]>>) {
        self.keys.unlisten(client, &prefixes);
    }

    fn with_followers(&mut self, change: fn(&mut usize)) {
        change(&mut self.clients.followers);
    }
}

/// `CLIENT TRACKING`.
pub fn command(words: Words<'_>, session: &mut Session, mut around: impl Around, out: &mut Out) {
    match set(words, session, &mut around) {
        Ok(()) => out.ok(),
        Err(text) => out.error(&text),
    }
    session.is_new = true;
}

/// Sets what the words say.
fn set(words: Words<'_>, session: &mut Session, around: &mut impl Around) -> Result<(), String> {
    let wanted = wanted(words, around)?;
    let is = |name: &[u8]| words.get(2).eq_ignore_ascii_case(name);
    if is(b"OFF") {
        off(session, around);
        return Ok(());
    }
    if !is(b"ON") {
        return Err(SYNTAX.to_owned());
    }
    agrees(&wanted, session.tracking.as_deref())?;
    let before = session.tracking.take();
    if before.is_none() {
        around.with_followers(|followers| *followers += 1);
    }
    let before = before.unwrap_or_default();
    let mut tracking = Tracking { is_said: before.is_said, ..wanted };
    if tracking.is_broadcast {
        if tracking.prefixes.is_empty() {
            tracking.prefixes.push(Box::default());
        }
        tracking.prefixes.extend(before.prefixes);
        tracking.prefixes.sort_unstable();
        tracking.prefixes.dedup();
        around.listen(session.id, tracking.skips_own, &tracking.prefixes);
    }
    session.tracking = Some(Box::new(tracking));
    Ok(())
}

/// Ends it, if the client has begun it.
pub fn off(session: &mut Session, around: &mut impl Around) {
    let Some(tracking) = session.tracking.take() else { return };
    around.with_followers(|followers| *followers = followers.saturating_sub(1));
    if !tracking.prefixes.is_empty() {
        around.unlisten(session.id, tracking.prefixes);
    }
    session.is_new = true;
}

/// The options of a command.
fn wanted(words: Words<'_>, around: &mut impl Around) -> Result<Tracking, String> {
    let mut wanted = Tracking::default();
    let mut at = 3;
    while at < words.len() {
        let (word, has_value) = (words.get(at), at + 1 < words.len());
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if is(b"REDIRECT") && has_value {
            at += 1;
            if wanted.redirect.is_some() {
                return Err("ERR A client can only redirect to a single other client".to_owned());
            }
            wanted.redirect = Some(target(words.get(at), around)?);
        } else if is(b"BCAST") {
            wanted.is_broadcast = true;
        } else if is(b"OPTIN") {
            wanted.opts_in = true;
        } else if is(b"OPTOUT") {
            wanted.opts_out = true;
        } else if is(b"NOLOOP") {
            wanted.skips_own = true;
        } else if is(b"PREFIX") && has_value {
            at += 1;
            wanted.prefixes.push(words.get(at).into());
        } else {
            return Err(SYNTAX.to_owned());
        }
        at += 1;
    }
    Ok(wanted)
}

/// The client to which another one's messages are to go.
fn target(word: &[u8], around: &mut impl Around) -> Result<u64, String> {
    let id = number(word).ok_or(NUMBER)?;
    let id = u64::try_from(id).unwrap_or(0);
    match around.speaks_three(id) {
        Some(true) => Ok(id),
        Some(false) => Err(format!(
            "ERR client {id} speaks version 2 of the protocol, whose messages would come by a \
             channel, and this server has no channels: have it say HELLO 3 before"
        )),
        None => Err("ERR The client ID you want redirect to does not exist".to_owned()),
    }
}

/// Checks that options go together, and with those that were set before.
fn agrees(wanted: &Tracking, before: Option<&Tracking>) -> Result<(), String> {
    let refused = |text: &str| Err(format!("ERR {text}"));
    if !wanted.is_broadcast && !wanted.prefixes.is_empty() {
        return refused("PREFIX option requires BCAST mode to be enabled");
    }
    if before.is_some_and(|before| before.is_broadcast != wanted.is_broadcast) {
        return refused(
            "You can't switch BCAST mode on/off before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        );
    }
    if wanted.is_broadcast && (wanted.opts_in || wanted.opts_out) {
        return refused("OPTIN and OPTOUT are not compatible with BCAST");
    }
    if wanted.opts_in && wanted.opts_out {
        return refused("You can't specify both OPTIN mode and OPTOUT mode");
    }
    let switches =
        |before: &Tracking| wanted.opts_in && before.opts_out || wanted.opts_out && before.opts_in;
    if before.is_some_and(switches) {
        return refused(
            "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        );
    }
    let its: &[Box<[u8]>] = before.map_or(&[], |before| &before.prefixes);
    if its.len() + wanted.prefixes.len() > PREFIXES {
        return Err(format!("ERR a client may listen to {PREFIXES} prefixes at most"));
    }
    // No two of one client may be of the same key.
    for (at, prefix) in wanted.prefixes.iter().enumerate() {
        let meets = |other: &[u8]| other.starts_with(prefix) || prefix.starts_with(other);
        let own = its.iter().find(|other| meets(other)).map(|other| (other, "an existing"));
        let met = own.or_else(|| {
            let rest = wanted.prefixes.get(at + 1..).unwrap_or_default();
            rest.iter().find(|other| meets(other)).map(|other| (other, "another provided"))
        });
        if let Some((other, which)) = met {
            let [one, other] = [prefix, other].map(|it| String::from_utf8_lossy(it));
            return refused(&format!(
                "Prefix '{one}' overlaps with {which} prefix '{other}'. Prefixes for a single \
                 client must not overlap."
            ));
        }
    }
    Ok(())
}
