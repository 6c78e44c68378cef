//! `CLIENT CACHING`, `TRACKINGINFO`, `GETREDIR`; `CLIENT TRACKING` is `crate::follow`.

use crate::commands::options::SYNTAX;
use crate::commands::row::{Done, Here};

pub(super) fn caching(h: &mut Here<'_>) -> Done {
    let Some(tracking) = &mut h.session.tracking else {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode \
             with OPTIN or OPTOUT mode enabled");
    };
    let word = h.words.get(2);
    if word.eq_ignore_ascii_case(b"YES") {
        if !tracking.opts_in {
            return Err(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            );
        }
    } else if word.eq_ignore_ascii_case(b"NO") {
        if !tracking.opts_out {
            return Err(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            );
        }
    } else {
        return Err(SYNTAX);
    }
    tracking.is_said = true;
    h.out.ok();
    Ok(())
}

/// The client that gets the invalidations instead; 0: none, -1: nobody gets them.
fn redirect(h: &Here<'_>) -> i64 {
    h.session.tracking.as_ref().map_or(-1, |tracking| tracking.redirect.unwrap_or(0) as i64)
}

pub(super) fn getredir(h: &mut Here<'_>) -> Done {
    h.out.integer(redirect(h));
    Ok(())
}

pub(super) fn info(h: &mut Here<'_>) -> Done {
    let redirect = redirect(h);
    let tracking = h.session.tracking.as_deref();
    let flags: Vec<&str> = tracking.map_or(vec!["off"], |tracking| tracking.flags().collect());
    h.out.map(3);
    h.out.bulk(b"flags");
    h.out.set(flags.len());
    flags.iter().for_each(|flag| h.out.bulk(flag.as_bytes()));
    h.out.bulk(b"redirect");
    h.out.integer(redirect);
    h.out.bulk(b"prefixes");
    let prefixes = tracking.map_or(&[][..], |tracking| &tracking.prefixes);
    h.out.array(prefixes.len());
    prefixes.iter().for_each(|prefix| h.out.bulk(prefix));
    Ok(())
}
