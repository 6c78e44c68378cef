//! What may differ, each with its reason. What comes after such an answer may differ, too: both are
//! emptied then.

use super::frame::frame;

/// Commands that are not drawn, and why.
pub(super) const NOT_DRAWN: &[(&str, &str)] = &[
    ("BGREWRITEAOF", "ours keeps nothing without --durable"),
    ("BGSAVE", "ours keeps nothing without --durable"),
    ("DEBUG", "it ends a Redis, and is none of its promises"),
    ("SAVE", "ours keeps nothing without --durable"),
];

/// A command whose answers may differ, if these two are such: ours, then Redis'.
struct Allowed {
    command: &'static str,
    #[expect(dead_code, reason = "for who reads")]
    why: &'static str,
    are: fn(&[u8], &[u8]) -> bool,
}

const ANSWERS: &[Allowed] = &[
    Allowed {
        command: "*",
        why: "several shards have its keys; nothing has been done, as docs/design/kv.md says",
        are: |ours, _| ours.starts_with(b"-CROSSSLOT"),
    },
    Allowed {
        command: "*",
        why: "Redis writes an error by functions for strings of C: a zero ends it",
        are: |ours, theirs| {
            let text = theirs.strip_suffix(b"\r\n").unwrap_or_default();
            let text = text.strip_suffix(b"'").unwrap_or(text);
            // What no line can carry is a space here.
            let rest = ours.strip_prefix(text).and_then(<[u8]>::first);
            text.starts_with(b"-") && matches!(rest, Some(b'\0' | b' '))
        },
    },
    Allowed {
        command: "CLIENT",
        why: "of a transaction every command is answered",
        are: |ours, _| ours.starts_with(b"-ERR Command not allowed inside a transaction"),
    },
    Allowed {
        command: "CLIENT",
        why: "a HELLO that fails changes nothing; Redis sets the name that stands before the fault",
        are: |ours, theirs| [ours, theirs].iter().all(|it| it.starts_with(b"$") || *it == b"_\r\n"),
    },
    Allowed {
        command: "OBJECT",
        why: "how a value is kept is said by what it is, not by what it has been",
        are: |ours, theirs| {
            let forms = [&b"$3\r\nint\r\n"[..], b"$6\r\nembstr\r\n", b"$3\r\nraw\r\n"];
            [ours, theirs].iter().all(|it| forms.contains(it))
        },
    },
    Allowed {
        command: "OBJECT",
        why: "when a key was used last is not kept",
        are: |ours, _| ours.starts_with(b"-ERR idle times of keys are not kept"),
    },
    Allowed {
        command: "INCRBYFLOAT",
        why: "arithmetic is of 64 bits, not of 80: the 17th digit, and where infinity begins",
        are: |ours, theirs| {
            let beyond = [&b"-ERR value is not a valid float"[..], b"-ERR increment would produce"];
            match [ours, theirs].map(float) {
                [Some(ours), Some(theirs)] => (ours - theirs).abs() <= theirs.abs() * 1e-12,
                [None, Some(_)] => beyond.iter().any(|text| ours.starts_with(text)),
                _ => false,
            }
        },
    },
    Allowed {
        command: "INCRBYFLOAT",
        why: "infinity is no number to add here; Redis refuses what would come of it",
        are: |ours, theirs| {
            ours.starts_with(b"-ERR value is not a valid float")
                && theirs.starts_with(b"-ERR increment would produce")
        },
    },
    Allowed {
        command: "LCS",
        why: "how much memory it may have for a while is each server's own",
        are: |_, theirs| theirs.starts_with(b"-ERR Insufficient memory, transient memory for LCS"),
    },
    Allowed {
        command: "SCAN",
        why: "a cursor that no SCAN has given is refused; Redis takes some",
        are: |ours, _| ours.starts_with(b"-ERR invalid cursor"),
    },
];

fn float(mut answer: &[u8]) -> Option<f64> {
    std::str::from_utf8(frame(&mut answer)?.text?).ok()?.parse().ok()
}

/// Whether these two answers to this command may be.
pub(super) fn answer(command: &str, ours: &[u8], theirs: &[u8]) -> bool {
    let mut of_it = ANSWERS.iter().filter(|it| it.command == command || it.command == "*");
    of_it.any(|it| (it.are)(ours, theirs))
}

/// Whether these two answers to a stream may be.
pub(super) fn stream(asked: &[u8], ours: &[u8], theirs: &[u8]) -> bool {
    // Redis looks for a line's end by functions for strings of C: a zero hides it.
    if asked.contains(&0) {
        return true;
    }
    // Several shards have the keys of a command whose tags have changed.
    if ours.windows(10).any(|text| text == b"-CROSSSLOT") {
        return true;
    }
    let knows = |text: &[u8]| theirs.windows(text.len()).any(|here| here == text);
    // Any head of HTTP ends the connection at once, not POST and Host: alone.
    let has = |text: &[u8]| asked.windows(text.len()).any(|here| here == text);
    if (has(b" HTTP/1") || has(b":\r\n") || has(b":\n") || has(b"Host:") || knows(b":', with args"))
        && theirs.starts_with(ours)
    {
        return true;
    }
    // In a transaction it is refused, as every command there is answered.
    if has(b"REPLY ") && has(b"MULTI") {
        return true;
    }
    // Why a connection ends is said whatever is to be left out.
    if has(b"REPLY OFF")
        && ours.strip_prefix(theirs).is_some_and(|more| more.starts_with(b"-ERR Proto"))
    {
        return true;
    }
    // Replicas' commands, which this server has not.
    if knows(b"SYNC and PSYNC are invalid") || knows(b"for 'sync' command") {
        return true;
    }
    // The connection ends at the same place, and each says in its way what was wrong there.
    let fault = |said: &[u8]| said.windows(19).rposition(|text| text == b"-ERR Protocol error");
    if let (Some(a), Some(b)) = (fault(ours), fault(theirs))
        && ours[..a] == theirs[..b]
    {
        return true;
    }
    // What is longer than any length is refused at once; Redis waits for 64 KiB of it.
    let is_long = |said: &[u8]| said.ends_with(b"bulk count string\r\n");
    if fault(ours).is_some_and(|at| is_long(ours) && theirs == &ours[..at]) {
        return true;
    }
    // Redis does not look at what stands behind a CR, in a length or behind a word. This server
    // does, and has done until there what Redis has.
    let is_loose = asked.windows(2).any(|pair| pair[0] == b'\r' && pair[1] != b'\n');
    is_loose && fault(ours).is_some_and(|at| theirs.starts_with(&ours[..at]))
        || masked(ours) == masked(theirs)
}

/// An answer without what HELLO says of the server: its version, and the client's number.
fn masked(answer: &[u8]) -> Vec<u8> {
    let mut rest = answer;
    let mut masked = Vec::new();
    let signs: [&[u8]; 2] = [b"$7\r\nversion\r\n", b"$2\r\nid\r\n"];
    while !rest.is_empty() {
        match signs.iter().find(|sign| rest.starts_with(sign)) {
            Some(sign) => {
                masked.extend(*sign);
                rest = &rest[sign.len()..];
                if frame(&mut rest).is_none() {
                    return masked;
                }
            }
            None => {
                masked.push(rest[0]);
                rest = &rest[1..];
            }
        }
    }
    masked
}
