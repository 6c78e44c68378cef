//! The commands that are drawn: how each is written, and how far its answers must be alike.

/// How far two answers must be alike. Errors must be the same bytes whatever stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alike {
    /// Byte for byte.
    Exact,
    /// The order is nobody's promise: keys by a hash table.
    AnyOrder,
    /// A cursor is the server's own; a walk that ends at once has all keys in any order.
    Scan,
    /// The clocks of two servers: numbers may be this far from each other.
    Near(i64),
    /// Which key, which client, which memory: only what kind of answer it is.
    Kind,
}

/// A command: its words as they are drawn.
///
/// Small letters are drawn (`words.rs`), `key+` is one or several, `[a b|c]` is any of these, up to
/// three times in all; capitals stand for themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row(pub(super) &'static str, pub(super) Alike);

use Alike::{AnyOrder, Exact, Kind, Near, Scan};

pub(super) const ROWS: &[Row] = &[
    // Strings.
    Row("APPEND key value", Exact),
    Row("DECR key", Exact),
    Row("DECRBY key int", Exact),
    Row("GET key", Exact),
    Row("GETDEL key", Exact),
    Row("GETEX key [EX secs|PX ms|EXAT at|PXAT atms|PERSIST]", Exact),
    Row("GETRANGE key index index", Exact),
    Row("GETSET key value", Exact),
    Row("INCR key", Exact),
    Row("INCRBY key int", Exact),
    Row("INCRBYFLOAT key float", Exact),
    Row("LCS key key [LEN|IDX|MINMATCHLEN index|WITHMATCHLEN]", Exact),
    Row("MGET key+", Exact),
    Row("MSET key value", Exact),
    Row("MSET key value key value key value", Exact),
    Row("MSETNX key value key value", Exact),
    Row("PSETEX key ms value", Exact),
    Row("SET key value", Exact),
    Row("SET key value [NX|XX|GET|KEEPTTL|EX secs|PX ms|EXAT at|PXAT atms]", Exact),
    Row("SETEX key secs value", Exact),
    Row("SETNX key value", Exact),
    Row("SETRANGE key offset value", Exact),
    Row("STRLEN key", Exact),
    Row("SUBSTR key index index", Exact),
    // Keys.
    Row("COPY key key [REPLACE|DB int]", Exact),
    Row("DEL key+", Exact),
    Row("EXISTS key+", Exact),
    Row("EXPIRE key secs [NX|XX|GT|LT]", Exact),
    Row("EXPIREAT key at [NX|XX|GT|LT]", Exact),
    Row("EXPIRETIME key", Near(30)),
    Row("KEYS pattern", AnyOrder),
    Row("MOVE key int", Exact),
    Row("OBJECT ENCODING key", Exact),
    Row("OBJECT HELP", Kind),
    Row("OBJECT IDLETIME key", Near(30)),
    Row("OBJECT REFCOUNT key", Kind),
    Row("PERSIST key", Exact),
    Row("PEXPIRE key ms [NX|XX|GT|LT]", Exact),
    Row("PEXPIREAT key atms [NX|XX|GT|LT]", Exact),
    Row("PEXPIRETIME key", Near(30_000)),
    Row("PTTL key", Near(30_000)),
    Row("RANDOMKEY", Kind),
    Row("RENAME key key", Exact),
    Row("RENAMENX key key", Exact),
    Row("SCAN cursor [MATCH pattern|COUNT count|TYPE type]", Scan),
    Row("TOUCH key+", Exact),
    Row("TTL key", Near(30)),
    Row("TYPE key", Exact),
    Row("UNLINK key+", Exact),
    // Connections.
    Row("AUTH value", Exact),
    Row("AUTH value value", Exact),
    Row("CLIENT GETNAME", Exact),
    Row("CLIENT ID", Kind),
    Row("CLIENT INFO", Kind),
    Row("CLIENT KILL ID count", Exact),
    Row("CLIENT KILL value", Exact),
    Row("CLIENT LIST", Kind),
    Row("CLIENT NO-EVICT on", Exact),
    Row("CLIENT REPLY ON", Exact),
    Row("CLIENT REPLY SKIP", Exact),
    Row("CLIENT SETNAME name", Exact),
    Row("CLIENT name", Exact),
    Row("ECHO value", Exact),
    Row("HELLO", Kind),
    Row("HELLO proto", Kind),
    Row("HELLO proto [AUTH value value|SETNAME name]", Kind),
    Row("PING", Exact),
    Row("PING value", Exact),
    Row("QUIT", Exact),
    Row("RESET", Exact),
    Row("SELECT int", Exact),
    // Transactions.
    Row("DISCARD", Exact),
    Row("EXEC", Exact),
    Row("MULTI", Exact),
    Row("UNWATCH", Exact),
    Row("WATCH key+", Exact),
    // The server.
    Row("COMMAND", Kind),
    Row("COMMAND COUNT", Kind),
    Row("COMMAND DOCS GET", Kind),
    Row("COMMAND GETKEYS SET key value", Exact),
    Row("COMMAND GETKEYS MSET key value key value", Exact),
    Row("COMMAND INFO GET NOSUCH", Kind),
    Row("COMMAND LIST", Kind),
    Row("CONFIG GET maxmemory", Kind),
    Row("CONFIG RESETSTAT", Exact),
    Row("CONFIG SET name value", Exact),
    Row("DBSIZE", Exact),
    Row("FLUSHALL [ASYNC|SYNC]", Exact),
    Row("FLUSHDB [ASYNC|SYNC]", Exact),
    Row("INFO", Kind),
    Row("LASTSAVE", Kind),
    Row("MEMORY USAGE key", Kind),
    Row("ROLE", Exact),
    Row("TIME", Kind),
    // None.
    Row("name value value", Exact),
];

/// What each of them is named.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().filter_map(|row| row.0.split(' ').next())
}
