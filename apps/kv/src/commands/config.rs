//! `CONFIG`: parameters by the names that Redis has for them.

use std::sync::atomic::Ordering::Relaxed;

use super::glob;
use super::row::{Done, Here};
use crate::resp::number;
use crate::shared::{Shared, client_memory};

/// Sets a parameter, or says why not.
type Set = fn(&Shared, &str) -> Result<(), String>;

/// A parameter.
struct Parameter {
    name: &'static str,
    get: fn(&Shared) -> String,
    /// Setter; none for a value that stays as it is.
    set: Option<Set>,
}

const fn fixed(name: &'static str, get: fn(&Shared) -> String) -> Parameter {
    Parameter { name, get, set: None }
}

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    fixed("appendonly", |_| "no".to_owned()),
    fixed("bind", |shared| shared.bind.join(" ")),
    fixed("databases", |_| "1".to_owned()),
    fixed("enable-debug-command", |_| "no".to_owned()),
    Parameter { name: "maxclients", get: |shared| shared.clients.load(Relaxed).to_string(), set: Some(set_clients) },
    Parameter { name: "maxmemory", get: |shared| shared.memory.load(Relaxed).to_string(), set: Some(set_memory) },
    fixed("maxmemory-clients", |shared| shared.client_memory().to_string()),
    fixed("maxmemory-policy", |_| "noeviction".to_owned()),
    fixed("port", |shared| shared.port.load(Relaxed).to_string()),
    Parameter { name: "protected-mode", get: |shared| yes(shared.is_protected.load(Relaxed)), set: Some(set_protected) },
    fixed("proto-max-bulk-len", |shared| shared.longest.to_string()),
    fixed("save", |_| String::new()),
    Parameter { name: "timeout", get: |shared| shared.timeout.load(Relaxed).to_string(), set: Some(set_timeout) },
    Parameter { name: "tracking-table-max-keys", get: |shared| shared.followed.load(Relaxed).to_string(), set: Some(set_followed) },
    fixed("unixsocket", |shared| shared.unix.as_ref().map_or(String::new(), |path| path.display().to_string())),
];

fn yes(is_so: bool) -> String {
    (if is_so { "yes" } else { "no" }).to_owned()
}

fn set_clients(shared: &Shared, text: &str) -> Result<(), String> {
    let clients = number(text.as_bytes()).ok_or("argument couldn't be parsed into an integer")?;
    let clients = usize::try_from(clients).ok().filter(|clients| *clients > 0);
    shared
        .clients
        .store(clients.ok_or("argument must be between 1 and 4294967295 inclusive")?, Relaxed);
    Ok(())
}

fn set_memory(shared: &Shared, text: &str) -> Result<(), String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) =
        lower.split_at(lower.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let unit = match unit {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err("argument must be a memory value".to_owned()),
    };
    let bytes = number(digits.as_bytes()).and_then(|it| usize::try_from(it).ok());
    let bytes =
        bytes.and_then(|it| it.checked_mul(unit)).ok_or("argument must be a memory value")?;
    let least = 2 * shared.counters.len() * client_memory(0, shared.longest);
    if bytes < least {
        return Err(format!(
            "{bytes} bytes are less than the {least} that there must be with --longest {}",
            shared.longest
        ));
    }
    shared.set_memory(bytes);
    Ok(())
}

fn set_protected(shared: &Shared, text: &str) -> Result<(), String> {
    let is_protected = match text {
        _ if text.eq_ignore_ascii_case("yes") => true,
        _ if text.eq_ignore_ascii_case("no") => false,
        _ => return Err("argument must be 'yes' or 'no'".to_owned()),
    };
    shared.is_protected.store(is_protected, Relaxed);
    Ok(())
}

fn set_timeout(shared: &Shared, text: &str) -> Result<(), String> {
    let seconds = number(text.as_bytes()).ok_or("argument couldn't be parsed into an integer")?;
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds <= i32::MAX as u64);
    let seconds = seconds.ok_or("argument must be between 0 and 2147483647 inclusive")?;
    shared.timeout.store(seconds, Relaxed);
    Ok(())
}

fn set_followed(shared: &Shared, text: &str) -> Result<(), String> {
    let keys = number(text.as_bytes()).ok_or("argument couldn't be parsed into an integer")?;
    let keys = usize::try_from(keys)
        .map_err(|_| "argument must be between 0 and 18446744073709551615 inclusive")?;
    shared.followed.store(keys, Relaxed);
    Ok(())
}

pub(crate) fn get(h: &mut Here<'_>) -> Done {
    let patterns: Vec<Vec<u8>> = h.words.from(2).iter().map(<[u8]>::to_ascii_lowercase).collect();
    let is_meant =
        |it: &&Parameter| patterns.iter().any(|pattern| glob::matches(pattern, it.name.as_bytes()));
    let meant: Vec<&Parameter> = PARAMETERS.iter().filter(is_meant).collect();
    h.out.map(meant.len());
    for parameter in meant {
        h.out.bulk(parameter.name.as_bytes());
        h.out.bulk((parameter.get)(h.shared).as_bytes());
    }
    Ok(())
}

pub(crate) fn set(h: &mut Here<'_>) -> Done {
    let words = h.words.from(2);
    if words.len() % 2 == 1 {
        return Err("ERR syntax error");
    }
    let mut sets = Vec::new();
    for at in (0..words.len()).step_by(2) {
        let name = words.get(at);
        let parameter = PARAMETERS.iter().find(|it| it.name.as_bytes().eq_ignore_ascii_case(name));
        let Some(parameter) = parameter else {
            h.out.error_of(&[
                b"ERR Unknown option or number of arguments for CONFIG SET - '",
                name,
                b"'",
            ]);
            return Ok(());
        };
        let Some(set) = parameter.set else {
            return failed(h, name, "can't set immutable config");
        };
        sets.push((parameter, set, words.get(at + 1)));
    }
    let before: Vec<String> =
        sets.iter().map(|(parameter, ..)| (parameter.get)(h.shared)).collect();
    for (at, (parameter, set, value)) in sets.iter().enumerate() {
        if let Err(why) = set(h.shared, &String::from_utf8_lossy(value)) {
            // All or none.
            for ((_, set, _), value) in sets.iter().zip(&before).take(at) {
                let _ = set(h.shared, value);
            }
            return failed(h, parameter.name.as_bytes(), &why);
        }
    }
    h.out.ok();
    Ok(())
}

fn failed(h: &mut Here<'_>, name: &[u8], why: &str) -> Done {
    let text: [&[u8]; 4] =
        [b"ERR CONFIG SET failed (possibly related to argument '", name, b"') - ", why.as_bytes()];
    h.out.error_of(&text);
    Ok(())
}
