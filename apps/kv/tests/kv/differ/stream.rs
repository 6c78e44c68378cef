//! Commands as bytes: in bulk, typed, and such that are none.

use fastrand::Rng;

use super::table::Alike;
use super::words::{self, Word};

/// Writes a command in bulk, or now and then as somebody would type it.
pub(super) fn encode(rng: &mut Rng, words: &[Word], out: &mut Vec<u8>) {
    if rng.u8(..5) > 0 || words.iter().map(Vec::len).sum::<usize>() > 10_000 {
        return bulk(words, out);
    }
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            out.extend(if rng.u8(..6) == 0 { &b" \t "[..] } else { b" " });
        }
        typed(rng, word, out);
    }
    out.extend(if rng.u8(..4) == 0 { &b"\n"[..] } else { b"\r\n" });
}

fn bulk(words: &[Word], out: &mut Vec<u8>) {
    out.extend(format!("*{}\r\n", words.len()).into_bytes());
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend(word);
        out.extend(b"\r\n");
    }
}

fn typed(rng: &mut Rng, word: &[u8], out: &mut Vec<u8>) {
    let is_plain = !word.is_empty()
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-+.[]?*".contains(byte));
    if is_plain && word[0] != b'*' && rng.u8(..4) > 0 {
        return out.extend(word);
    }
    let is_clean =
        word.iter().all(|byte| (b' '..0x7f).contains(byte) && *byte != b'\'' && *byte != b'\\');
    if is_clean && rng.bool() {
        out.push(b'\'');
        out.extend(word);
        return out.push(b'\'');
    }
    out.push(b'"');
    for byte in word {
        match byte {
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b' '..0x7f => out.push(*byte),
            _ => out.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
    out.push(b'"');
}

/// Pieces of the protocol, and of others.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$4\nPING\r\n",
    b"*1\n$4\r\nPING\r\n",
    b"*1\r\n$4\r\nPINGxx",
    b"*1\r\n:4\r\nPING\r\n",
    b"*1\r\n+OK\r\n",
    b"*x\r\n",
    b"*\r\n",
    b"*1\r\n$\r\n",
    b"*1\r\n$x\r\n",
    b"*1\r\n$ 4\r\nPING\r\n",
    b"*+1\r\n$4\r\nPING\r\n",
    b"*01\r\n$04\r\nPING\r\n",
    b"*1\r\n$536870912\r\n",
    b"*1\r\n$1048577\r\n",
    b"*2147483648\r\n",
    b"*9223372036854775808\r\n",
    b"*1\r\n$9223372036854775808\r\n",
    b"$4\r\nPING\r\n",
    b"+PING\r\n",
    b"PING\r\n",
    b" PING \r\n",
    b"\tPING\r\n",
    b"PING\n",
    b"PING\r",
    b"PING \"",
    b"ECHO \"a\\x4\"\r\n",
    b"ECHO \"a\"b\r\n",
    b"ECHO 'a'b\r\n",
    b"ECHO 'it\\'s'\r\n",
    b"ECHO \"\\a\\b\\n\\q\\x41\"\r\n",
    b"ECHO a\"b c\"\r\n",
    b"ECHO 'a\r\n",
    b"ECHO \"a\r\n",
    b"ECHO \"\"\r\n",
    b"ECHO ''\r\n",
    b"ECHO a\x00b\r\n",
    b"GET / HTTP/1.1\r\n",
    b"POST / HTTP/1.1\r\n",
    b"POST\r\n",
    b"post / x\r\n",
    b"Host: localhost\r\n",
    b"host: x\r\n",
    b"Host:x\r\n",
    b"*2\r\n$4\r\nPOST\r\n$1\r\n/\r\n",
    b"*2\r\n$5\r\nHost:\r\n$1\r\nx\r\n",
    b"PUT / HTTP/1.1\r\n",
    b"OPTIONS * HTTP/1.1\r\n",
    b"QUIT now\r\n",
    b"QUIT\r\n",
    b"\"PING\"\r\n",
    b"\"\"\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"*2\r\n$4\r\nECHO\r\n$3\r\n\r\n\r\r\n",
    b"PING a b c\r\n",
    b"SET k v\r\nGET k\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"MULTI\r\nSET a b\r\n",
    b"MULTI\r\nQUIT\r\n",
    b"CLIENT REPLY OFF\r\nPING\r\n",
    b"CLIENT REPLY OFF\r\nGET k\r\nCLIENT REPLY ON\r\n",
    b"CLIENT REPLY SKIP\r\nPING\r\n",
    b"HELLO 3\r\nGET nil\r\n",
    b"RESET\r\n",
];

/// A stream of pieces, or of commands with some bytes changed. Short enough to be read at once.
pub(super) fn stream(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    if rng.bool() {
        for _ in 0..rng.usize(1..5) {
            bytes.extend(PIECES[rng.usize(..PIECES.len())]);
        }
        return bytes;
    }
    while bytes.is_empty() {
        let drawn = words::command(rng, "{t}");
        let is_short = drawn.words.iter().map(Vec::len).sum::<usize>() < 1000;
        // A byte that changes may make of these what has an answer of its own.
        let is_plain = !matches!(drawn.name().as_str(), "COMMAND" | "CLIENT" | "CONFIG");
        if drawn.alike == Alike::Exact && is_short && is_plain {
            encode(rng, &drawn.words, &mut bytes);
        }
    }
    for _ in 0..rng.usize(1..4) {
        let place = rng.usize(..bytes.len());
        let byte = b"\r\n*$:+-019 \"'\\x\x00\xff"[rng.usize(..17)];
        match rng.u8(..4) {
            0 => drop(bytes.remove(place)),
            1 => bytes.insert(place, byte),
            2 => bytes.truncate(place + 1),
            _ => bytes[place] = byte,
        }
        if bytes.is_empty() {
            bytes.push(byte);
        }
    }
    bytes
}
