//! `COMMAND`: the list of commands, for clients.

use super::{all, find, of_name};
use crate::commands::glob;
use crate::commands::keys::help;
use crate::commands::options::SYNTAX;
use crate::commands::row::flag::{
    ADMIN, DANGEROUS, DENYOOM, FAST, LOADING, NO_AUTH, NOSCRIPT, READ, WRITE,
};
use crate::commands::row::{Done, Here, Row, Run};
use crate::resp::Out;

const fn row(
    name: &'static str,
    arity: i32,
    run: Run,
    since: &'static str,
    summary: &'static str,
) -> Row {
    Row { name, arity, flags: LOADING, keys: (0, 0, 0), run, group: "server", since, summary }
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("command", -1, Run::Group(COMMAND), "2.8.13", "Tells of all commands."),
];

#[rustfmt::skip]
const COMMAND: &[Row] = &[
    row("command|count", 2, Run::Here(count), "2.8.13", "Gives how many commands there are."),
    row("command|docs", -2, Run::Here(docs), "7.0.0", "Gives what commands do, in words."),
    row("command|getkeys", -4, Run::Here(|h| getkeys(h, false)), "2.8.13", "Gives which words of a command are keys."),
    row("command|getkeysandflags", -4, Run::Here(|h| getkeys(h, true)), "7.0.0", "Gives the keys of a command, and how it uses them."),
    row("command|help", 2, Run::Here(command_help), "5.0.0", "Lists the subcommands of COMMAND."),
    row("command|info", -2, Run::Here(command_info), "2.8.13", "Tells of some commands, or of all."),
    row("command|list", -2, Run::Here(list), "7.0.0", "Gives the names of commands."),
];

fn count(h: &mut Here<'_>) -> Done {
    h.out.integer(all().count() as i64);
    Ok(())
}

/// `COMMAND` alone.
pub fn command(h: &mut Here<'_>) -> Done {
    h.out.array(all().count());
    all().for_each(|row| row_info(row, h.out));
    Ok(())
}

fn command_info(h: &mut Here<'_>) -> Done {
    if h.words.len() == 2 {
        return command(h);
    }
    h.out.array(h.words.len() - 2);
    for name in h.words.from(2).iter() {
        if h.out.is_over() {
            break;
        }
        match of_name(name) {
            Some(row) => row_info(row, h.out),
            None => h.out.no_array(),
        }
    }
    Ok(())
}

fn list(h: &mut Here<'_>) -> Done {
    let words = h.words;
    let is = |at: usize, word: &[u8]| words.get(at).eq_ignore_ascii_case(word);
    if words.len() != 2 && !(words.len() == 5 && is(2, b"FILTERBY")) {
        return Err(SYNTAX);
    }
    let mut rows: Vec<&Row> = all().collect();
    if words.len() == 5 {
        let value = words.get(4);
        match words.get(3) {
            _ if is(3, b"PATTERN") => {
                rows.retain(|row| glob::matches(&value.to_ascii_lowercase(), row.name.as_bytes()));
            }
            _ if is(3, b"ACLCAT") => {
                let category = format!("@{}", String::from_utf8_lossy(value).to_lowercase());
                rows.retain(|row| categories(row).contains(&&*category));
            }
            _ if is(3, b"MODULE") => rows.clear(),
            _ => return Err(SYNTAX),
        }
    }
    h.out.array(rows.len());
    rows.iter().for_each(|row| h.out.bulk(row.name.as_bytes()));
    Ok(())
}

fn getkeys(h: &mut Here<'_>, with_flags: bool) -> Done {
    let words = h.words.from(2);
    let row = find(words).map_err(|_| "ERR Invalid command specified")?;
    if row.keys.0 == 0 {
        return Err("ERR The command has no key arguments");
    }
    if !row.takes(words.len()) {
        return Err("ERR Invalid number of arguments specified for command");
    }
    let keys: Vec<&[u8]> = row.key_places(words.len()).map(|at| words.get(at)).collect();
    h.out.array(keys.len());
    for key in keys {
        if with_flags {
            h.out.array(2);
        }
        h.out.bulk(key);
        if with_flags {
            access(row, h.out);
        }
    }
    Ok(())
}

/// Writes the access that a command makes to its keys.
fn access(row: &Row, out: &mut Out) {
    let flags: &[&str] = match row {
        _ if row.is(WRITE) => &["RW", "UPDATE"],
        _ => &["RO", "ACCESS"],
    };
    out.set(flags.len());
    flags.iter().for_each(|flag| out.simple(flag));
}

fn flags(row: &Row) -> Vec<&'static str> {
    let names = [
        (WRITE, "write"),
        (READ, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (NOSCRIPT, "noscript"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
    ];
    let mut flags: Vec<_> = names.iter().filter(|(flag, _)| row.is(*flag)).map(|it| it.1).collect();
    if row.keys.0 == 0 && row.group != "generic" {
        flags.extend(["loading", "stale"]);
    }
    flags
}

fn categories(row: &Row) -> Vec<&'static str> {
    let mut of = Vec::new();
    of.extend(row.is(WRITE).then_some("@write"));
    of.extend(row.is(READ).then_some("@read"));
    of.extend(match row.group {
        "string" => Some("@string"),
        "generic" => Some("@keyspace"),
        "connection" => Some("@connection"),
        "transactions" => Some("@transaction"),
        _ => None,
    });
    of.extend(row.is(ADMIN).then_some("@admin"));
    of.push(if row.is(FAST) { "@fast" } else { "@slow" });
    of.extend((row.is(ADMIN) || row.is(DANGEROUS)).then_some("@dangerous"));
    of
}

fn row_info(row: &Row, out: &mut Out) {
    out.array(10);
    out.bulk(row.name.as_bytes());
    out.integer(row.arity.into());
    let list = |words: Vec<&str>, out: &mut Out| {
        out.set(words.len());
        words.iter().for_each(|word| out.simple(word));
    };
    list(flags(row), out);
    let (first, last, step) = row.keys;
    [first, last, step].iter().for_each(|number| out.integer((*number).into()));
    list(categories(row), out);
    // No tips.
    out.array(0);
    key_specs(row, out);
    let subs = if let Run::Group(rows) = row.run { rows } else { &[] };
    out.array(subs.len());
    subs.iter().for_each(|sub| row_info(sub, out));
}

fn key_specs(row: &Row, out: &mut Out) {
    let (first, last, step) = row.keys;
    if first == 0 {
        return out.array(0);
    }
    out.array(1);
    out.map(3);
    out.bulk(b"flags");
    access(row, out);
    out.bulk(b"begin_search");
    out.map(2);
    out.bulk(b"type");
    out.bulk(b"index");
    out.bulk(b"spec");
    out.map(1);
    out.bulk(b"index");
    out.integer(first.into());
    out.bulk(b"find_keys");
    out.map(2);
    out.bulk(b"type");
    out.bulk(b"range");
    out.bulk(b"spec");
    out.map(3);
    out.bulk(b"lastkey");
    out.integer((if last < 0 { last } else { last - first }).into());
    out.bulk(b"keystep");
    out.integer(step.into());
    out.bulk(b"limit");
    out.integer(0);
}

fn docs(h: &mut Here<'_>) -> Done {
    let rows: Vec<&Row> = match h.words.len() {
        2 => all().collect(),
        _ => h.words.from(2).iter().filter_map(of_name).collect(),
    };
    h.out.map(rows.len());
    for row in rows {
        if h.out.is_over() {
            break;
        }
        row_docs(row, h.out);
    }
    Ok(())
}

fn row_docs(row: &Row, out: &mut Out) {
    let subs = if let Run::Group(rows) = row.run { rows } else { &[] };
    out.bulk(row.name.as_bytes());
    out.map(3 + usize::from(!subs.is_empty()));
    for (name, value) in [("summary", row.summary), ("since", row.since), ("group", row.group)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    if !subs.is_empty() {
        out.bulk(b"subcommands");
        out.map(subs.len());
        subs.iter().for_each(|sub| row_docs(sub, out));
    }
}

fn command_help(h: &mut Here<'_>) -> Done {
    help(h.out, COMMAND)
}
