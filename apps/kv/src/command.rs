//! Commands of Redis: which operations on which keys they are.

use crate::resp;
use crate::shard::{Op, When};

/// How the answers of a command's operations become the command's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It has been answered.
    Done,
    /// It has been answered, and the client goes.
    Quit,
    /// The answer of its one operation.
    One,
    /// An array of all of them.
    Array,
    /// Their sum.
    Sum,
    /// The one operation is for each shard; the sum.
    SumOfAll,
    /// The one operation is for each shard; any of the answers.
    AnyOfAll,
}

const SYNTAX: &str = "ERR syntax error";
const NUMBER: &str = "ERR value is not an integer or out of range";
/// The longest time that may be set, ms: 2⁵³ parts of a second are exact everywhere.
const LONGEST: i64 = 1 << 53;

/// Plans a command: `push` takes its operations. What needs none is answered.
pub fn plan<'a>(
    mut words: impl ExactSizeIterator<Item = &'a [u8]>,
    now: u64,
    mut push: impl FnMut(Op<&'a [u8]>),
    out: &mut Vec<u8>,
) -> Plan {
    let Some(name) = words.next() else { return Plan::Done };
    let mut upper = [0; 16];
    let Some(upper) = upper.get_mut(..name.len()) else { return unknown(name, out) };
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    let count = words.len();
    let mut next = || words.next().unwrap_or_default();
    match (&*upper, count) {
        (b"GET", 1) => push(Op::Get(next())),
        (b"INCR", 1) => push(Op::Incr(next(), 1)),
        (b"DECR", 1) => push(Op::Incr(next(), -1)),
        (b"INCRBY", 2) => {
            let key = next();
            match resp::number(next()) {
                Some(by) => push(Op::Incr(key, by)),
                None => return refused(out, NUMBER),
            }
        }
        (b"SET", 2..) => {
            let (key, value) = (next(), next());
            match options(now, words) {
                Ok((goes_at, when)) => push(Op::Set { key, value, goes_at, when }),
                Err(text) => return refused(out, text),
            }
        }
        (b"EXPIRE" | b"PEXPIRE", 2) => {
            let unit = if upper[0] == b'P' { 1 } else { 1000 };
            let key = next();
            match resp::number(next()) {
                // What is over goes at once.
                Some(parts) if parts <= LONGEST / unit => {
                    push(Op::Expire(key, now.saturating_add_signed(parts.max(-LONGEST) * unit)));
                }
                _ => return refused(out, NUMBER),
            }
        }
        (b"TTL", 1) => push(Op::Ttl(next(), 1000)),
        (b"PTTL", 1) => push(Op::Ttl(next(), 1)),
        (b"MGET", 1..) => {
            words.for_each(|key| push(Op::Get(key)));
            return Plan::Array;
        }
        (b"DEL" | b"UNLINK", 1..) => {
            words.for_each(|key| push(Op::Del(key)));
            return Plan::Sum;
        }
        (b"EXISTS", 1..) => {
            words.for_each(|key| push(Op::Exists(key)));
            return Plan::Sum;
        }
        (b"DBSIZE", 0) => {
            push(Op::Count);
            return Plan::SumOfAll;
        }
        (b"FLUSHALL" | b"FLUSHDB", 0..=1) => {
            push(Op::Clear);
            return Plan::AnyOfAll;
        }
        (b"PING", 0) => return simple(out, "PONG"),
        (b"PING" | b"ECHO", 1) => {
            resp::bulk(out, next());
            return Plan::Done;
        }
        (b"SELECT", 1) if next() == b"0" => return simple(out, "OK"),
        (b"SELECT", 1) => return refused(out, "ERR DB index is out of range"),
        (b"CLIENT", 1..) => return simple(out, "OK"),
        // What tools ask before they begin, and go without.
        (b"CONFIG" | b"COMMAND", _) => {
            resp::array(out, 0);
            return Plan::Done;
        }
        (b"QUIT", 0) => {
            resp::simple(out, "OK");
            return Plan::Quit;
        }
        (
            b"GET" | b"INCR" | b"DECR" | b"INCRBY" | b"SET" | b"EXPIRE" | b"PEXPIRE" | b"TTL"
            | b"PTTL" | b"MGET" | b"DEL" | b"UNLINK" | b"EXISTS" | b"DBSIZE" | b"FLUSHALL"
            | b"FLUSHDB" | b"PING" | b"ECHO" | b"SELECT" | b"CLIENT" | b"QUIT",
            _,
        ) => {
            let name = String::from_utf8_lossy(upper).to_lowercase();
            return refused(out, &format!("ERR wrong number of arguments for '{name}' command"));
        }
        _ => return unknown(name, out),
    }
    Plan::One
}

/// Reads the options behind key and value.
fn options<'a>(
    now: u64,
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<(u64, When), &'static str> {
    let (mut goes_at, mut when) = (0, When::Always);
    while let Some(word) = words.next() {
        match word.to_ascii_uppercase().as_slice() {
            b"NX" if when == When::Always => when = When::Absent,
            b"XX" if when == When::Always => when = When::Present,
            unit @ (b"EX" | b"PX") if goes_at == 0 => {
                let unit = if unit[0] == b'P' { 1 } else { 1000 };
                let parts = resp::number(words.next().ok_or(SYNTAX)?).ok_or(NUMBER)?;
                if parts <= 0 || parts > LONGEST / unit {
                    return Err("ERR invalid expire time in 'set' command");
                }
                goes_at = now + (parts * unit) as u64;
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok((goes_at, when))
}

fn simple(out: &mut Vec<u8>, text: &str) -> Plan {
    resp::simple(out, text);
    Plan::Done
}

fn refused(out: &mut Vec<u8>, text: &str) -> Plan {
    resp::error(out, text);
    Plan::Done
}

fn unknown(name: &[u8], out: &mut Vec<u8>) -> Plan {
    let name: String = String::from_utf8_lossy(name).chars().take(64).collect();
    refused(out, &format!("ERR unknown command '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(line: &str) -> (Plan, Vec<String>, String) {
        let (mut ops, mut out) = (Vec::new(), Vec::new());
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let plan = plan(words.into_iter(), 1000, |op| ops.push(format!("{op:?}")), &mut out);
        (plan, ops, String::from_utf8(out).unwrap())
    }

    #[test]
    fn commands_are_operations_or_answers() {
        let ops = |line| {
            let (plan, ops, out) = planned(line);
            assert_eq!(out, "", "{line}");
            (plan, ops.len())
        };
        for (line, plan, count) in [
            ("get a", Plan::One, 1),
            ("SET a b EX 5 nx", Plan::One, 1),
            ("pexpire a -5", Plan::One, 1),
            ("MGET a b c", Plan::Array, 3),
            ("del a b", Plan::Sum, 2),
            ("DBSIZE", Plan::SumOfAll, 1),
            ("FLUSHALL", Plan::AnyOfAll, 1),
        ] {
            assert_eq!(ops(line), (plan, count), "{line}");
        }
        let (_, ops, _) = planned("SET a b PX 5");
        assert!(ops[0].contains("goes_at: 1005"), "{ops:?}");
        for (line, answer) in [
            ("PING", "+PONG"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("GET a b", "-ERR wrong number"),
            ("SET a", "-ERR wrong number"),
            ("SET a b EX", "-ERR syntax"),
            ("SET a b EX 0", "-ERR invalid expire"),
            ("SET a b EX 9223372036854775807", "-ERR invalid expire"),
            ("SET a b EX 1 PX 1", "-ERR syntax"),
            ("SET a b NX XX", "-ERR syntax"),
            ("EXPIRE a x", "-ERR value is not an integer"),
            ("EXPIRE a 9223372036854775807", "-ERR value is not an integer"),
            ("INCRBY a 1.5", "-ERR value is not an integer"),
            ("SELECT 1", "-ERR DB index"),
            ("HSET a b c", "-ERR unknown command 'HSET'"),
            ("AVERYLONGCOMMANDINDEED", "-ERR unknown command"),
        ] {
            let (plan, ops, out) = planned(line);
            assert!(
                plan == Plan::Done && ops.is_empty() && out.starts_with(answer),
                "{line}: {out}"
            );
        }
        assert_eq!(planned("quit"), (Plan::Quit, vec![], "+OK\r\n".to_owned()));
    }
}
