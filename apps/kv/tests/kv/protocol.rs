//! The protocol: what ends a connection, what is an error, both versions.

use crate::scene::Server;

/// A page in a browser can have it send such bytes to a server of this machine.
#[test]
fn a_page_in_a_browser_runs_nothing() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &[]);
        assert_eq!(server.ask(b"SET keep me\r\nQUIT\r\n"), "+OK\r\n+OK\r\n");
        for head in [
            "POST / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\n\r\n",
            "POST / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "PUT / HTTP/1.1\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\n\r\n",
            "Content-Length: 20\r\n\r\n",
            "Host: a\r\n",
        ] {
            let seen = server.ask(format!("{head}FLUSHALL\r\nSET evil 1\r\n").as_bytes());
            assert_eq!(seen, "", "{head}");
        }
        let seen = server.ask(b"GET keep\r\nGET evil\r\nQUIT\r\n");
        assert_eq!(seen, "$2\r\nme\r\n$-1\r\n+OK\r\n");
    }
}

/// More than is answered at once, and its end read before that: by a QUIT, or by what is no command.
#[test]
fn what_stands_before_the_end_is_answered_whichever_shard_has_it() {
    let server = Server::start(2, &[]);
    for (key, end, says) in [
        ("a", "QUIT", "+OK\r\n"),
        ("b", "*1\r\nno", "-ERR Protocol error"),
        ("c", "QUIT", "+OK\r\n"),
    ] {
        // A client is of one worker, so that some of these keys are of the other's shard.
        for at in 0..4 {
            let set = format!("SETRANGE big{key}{at} 99999 v\r\nQUIT\r\n");
            assert_eq!(server.ask(set.as_bytes()), ":100000\r\n+OK\r\n");
            let gets = format!("GET big{key}{at}\r\n").repeat(100);
            let asked = format!("{gets}SET {key}{at} 1\r\nSET 2{key}{at} 2\r\n{end}\r\n");
            let seen = server.ask(asked.as_bytes());
            let tail = format!("\r\n+OK\r\n+OK\r\n{says}");
            let values = seen.matches("$100000\r\n").count();
            let last = &seen[seen.len().saturating_sub(80)..];
            assert!(values == 100 && seen.contains(&tail), "{values} values, {last:?}");
            let seen =
                server.ask(format!("GET {key}{at}\r\nGET 2{key}{at}\r\nQUIT\r\n").as_bytes());
            assert_eq!(seen, "$1\r\n1\r\n$1\r\n2\r\n+OK\r\n");
        }
    }
}

#[test]
fn some_key_is_one_of_any_shard() {
    let server = Server::start(2, &[]);
    let sets: String = (0..200).map(|at| format!("SET k{at} 1\r\n")).collect();
    server.ask(format!("{sets}QUIT\r\n").as_bytes());
    let seen = server.ask(format!("{}QUIT\r\n", "RANDOMKEY\r\n".repeat(4000)).as_bytes());
    let names: std::collections::BTreeSet<&str> =
        seen.lines().filter(|line| line.starts_with('k')).collect();
    // That one of them is not drawn has a chance of 200 * (1 - 1/200)^4000, or 4 in 10^7.
    assert_eq!(names.len(), 200);
    // One key alone is found wherever the search begins.
    let seen = server
        .ask(format!("FLUSHALL\r\nSET a 1\r\n{}QUIT\r\n", "RANDOMKEY\r\n".repeat(20)).as_bytes());
    assert_eq!(seen, format!("+OK\r\n+OK\r\n{}+OK\r\n", "$1\r\na\r\n".repeat(20)));
}

#[test]
fn clients_are_found_in_whatever_order_their_numbers_stand() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &[]);
        let _others = [(); 3].map(|()| server.client());
        let ids = "999 7 6 8 5 4 3 3 2 1 1000";
        let seen = server.ask(format!("CLIENT LIST ID {ids}\r\nQUIT\r\n").as_bytes());
        assert_eq!(seen.matches("id=").count(), 4, "{seen}");
    }
}

/// Each row: what is sent, and what redis-server answers to it, byte by byte.
#[test]
fn answers_are_those_of_redis() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &[]);
        for (sent, answer) in ROWS {
            assert_eq!(server.ask(b"FLUSHALL\r\nQUIT\r\n"), "+OK\r\n+OK\r\n");
            let seen = server.ask(format!("{sent}\r\nQUIT now\r\n").as_bytes());
            assert_eq!(seen, format!("{answer}+OK\r\n"), "{sent} with {cpus} shards");
        }
    }
}

const ROWS: &[(&str, &str)] = &[
    ("SET a 007\r\nINCR a", "+OK\r\n-ERR value is not an integer or out of range\r\n"),
    ("SET a -0\r\nINCR a", "+OK\r\n-ERR value is not an integer or out of range\r\n"),
    ("SET a \"b c\"\r\nGET a", "+OK\r\n$3\r\nb c\r\n"),
    ("SET a 1\r\nFLUSHALL x\r\nGET a", "+OK\r\n-ERR syntax error\r\n$1\r\n1\r\n"),
    ("SET a 1\r\nPEXPIREAT a 99999999999600\r\nEXPIRETIME a", "+OK\r\n:1\r\n:100000000000\r\n"),
    ("SET a 1\r\nPEXPIREAT a 99999999999499\r\nEXPIRETIME a", "+OK\r\n:1\r\n:99999999999\r\n"),
    ("SET a 1 NX NX", "+OK\r\n"),
    ("SET a 1 EX 10 EX 20\r\nTTL a", "+OK\r\n:20\r\n"),
    ("SET a 1 NX XX", "-ERR syntax error\r\n"),
    ("SET a 1 EX 10 PX 10", "-ERR syntax error\r\n"),
    ("SET a 1 EX 0", "-ERR invalid expire time in 'set' command\r\n"),
    ("SET a 1\r\nSET a 2 GET\r\nGET a", "+OK\r\n$1\r\n1\r\n$1\r\n2\r\n"),
    ("SET a 1 PX 100000\r\nSET a 2 KEEPTTL\r\nTTL a", "+OK\r\n+OK\r\n:100\r\n"),
    (
        "SET a 1\r\nEXPIRE a -9223372036854775808\r\nGET a",
        "+OK\r\n-ERR invalid expire time in 'expire' command\r\n$1\r\n1\r\n",
    ),
    (
        "SET a 1\r\nEXPIRE a 100 NX GT",
        "+OK\r\n-ERR NX and XX, GT or LT options at the same time are not compatible\r\n",
    ),
    ("SET a 1 EX 100\r\nEXPIRE a 50 GT\r\nEXPIRE a 200 GT\r\nTTL a", "+OK\r\n:0\r\n:1\r\n:200\r\n"),
    (
        "SET a 1\r\nEXPIREAT a 33177117420\r\nEXPIRETIME a\r\nPEXPIRETIME a",
        "+OK\r\n:1\r\n:33177117420\r\n:33177117420000\r\n",
    ),
    ("SET a 1\r\nEXPIREAT a 1\r\nEXISTS a", "+OK\r\n:1\r\n:0\r\n"),
    ("SET a 1 EX 9\r\nPERSIST a\r\nPERSIST a\r\nTTL a", "+OK\r\n:1\r\n:0\r\n:-1\r\n"),
    ("SELECT x", "-ERR value is not an integer or out of range\r\n"),
    ("SELECT 1", "-ERR DB index is out of range\r\n"),
    ("NOPE a 'b c'", "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b c' \r\n"),
    ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
    ("CLIENT BOGUS", "-ERR unknown subcommand 'BOGUS'. Try CLIENT HELP.\r\n"),
    (
        "CLIENT PAUSE 100000\r\nCLIENT UNPAUSE\r\nPING",
        "-ERR CLIENT PAUSE is refused: clients are never held up here, as there is no replica or other \
         server to wait for; nothing has changed\r\n-ERR CLIENT PAUSE is refused: clients are never \
         held up here, as there is no replica or other server to wait for; nothing has changed\r\n\
         +PONG\r\n",
    ),
    ("CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command\r\n"),
    ("CLIENT", "-ERR wrong number of arguments for 'client' command\r\n"),
    ("CLIENT REPLY SKIP\r\nPING\r\nECHO a", "$1\r\na\r\n"),
    ("CLIENT REPLY OFF\r\nPING\r\nSET a 1\r\nCLIENT REPLY ON\r\nGET a", "+OK\r\n$1\r\n1\r\n"),
    ("CLIENT SETNAME me\r\nCLIENT GETNAME", "+OK\r\n$2\r\nme\r\n"),
    (
        "CONFIG SET port 1",
        "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config\r\n",
    ),
    ("CONFIG SET nope 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'nope'\r\n"),
    ("CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n"),
    ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
    ("HELLO 3 BAD", "-ERR Syntax error in HELLO option 'BAD'\r\n"),
    (
        "AUTH x",
        "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n",
    ),
    (
        "SETEX a 10 b\r\nTTL a\r\nPSETEX a 0 b",
        "+OK\r\n:10\r\n-ERR invalid expire time in 'psetex' command\r\n",
    ),
    (
        "SETNX a 1\r\nSETNX a 2\r\nGETSET a 3\r\nGETDEL a\r\nGETDEL a",
        ":1\r\n:0\r\n$1\r\n1\r\n$1\r\n3\r\n$-1\r\n",
    ),
    (
        "SET a 1\r\nGETEX a EX 50\r\nTTL a\r\nGETEX a PERSIST\r\nTTL a",
        "+OK\r\n$1\r\n1\r\n:50\r\n$1\r\n1\r\n:-1\r\n",
    ),
    (
        "APPEND a ab\r\nAPPEND a cd\r\nSTRLEN a\r\nGETRANGE a -3 -2\r\nSUBSTR a 1 100",
        ":2\r\n:4\r\n:4\r\n$2\r\nbc\r\n$3\r\nbcd\r\n",
    ),
    (
        "SETRANGE a 3 x\r\nGET a\r\nSETRANGE a -1 x\r\nSETRANGE b 5 ''",
        ":4\r\n$4\r\n\0\0\0x\r\n-ERR offset is out of range\r\n:0\r\n",
    ),
    ("SETRANGE a 536870911 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"),
    (
        "INCRBYFLOAT a 3.0\r\nINCRBYFLOAT a 1.1\r\nINCRBYFLOAT a x",
        "$1\r\n3\r\n$3\r\n4.1\r\n-ERR value is not a valid float\r\n",
    ),
    (
        "DECRBY a 5\r\nDECRBY a -9223372036854775808\r\nDECR a",
        ":-5\r\n-ERR decrement would overflow\r\n:-6\r\n",
    ),
    (
        "MSET a 1 b 2\r\nMGET a b c\r\nMSET a 1 b",
        "+OK\r\n*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n-ERR wrong number of arguments for 'mset' command\r\n",
    ),
    (
        "MSETNX {t}a 1 {t}b 2\r\nMSETNX {t}b 3 {t}c 4\r\nEXISTS {t}a {t}b {t}c {t}a",
        ":1\r\n:0\r\n:3\r\n",
    ),
    (
        "MSET {t}a ohmytext {t}b mynewtext\r\nLCS {t}a {t}b\r\nLCS {t}a {t}b LEN",
        "+OK\r\n$6\r\nmytext\r\n:6\r\n",
    ),
    (
        "MSET {t}a ohmytext {t}b mynewtext\r\nLCS {t}a {t}b IDX MINMATCHLEN 4 WITHMATCHLEN",
        "+OK\r\n*4\r\n$7\r\nmatches\r\n*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n$3\r\nlen\r\n:6\r\n",
    ),
    (
        "SET {t}a 1 EX 50\r\nRENAME {t}a {t}b\r\nTTL {t}b\r\nRENAME {t}a {t}b\r\nRENAMENX {t}b {t}b",
        "+OK\r\n+OK\r\n:50\r\n-ERR no such key\r\n:0\r\n",
    ),
    (
        "SET {t}a 1\r\nCOPY {t}a {t}b\r\nCOPY {t}a {t}b\r\nCOPY {t}a {t}b REPLACE\r\nCOPY {t}a {t}a",
        "+OK\r\n:1\r\n:0\r\n:1\r\n-ERR source and destination objects are the same\r\n",
    ),
    (
        "SET a 1\r\nTYPE a\r\nTYPE b\r\nTOUCH a b\r\nUNLINK a b",
        "+OK\r\n+string\r\n+none\r\n:1\r\n:1\r\n",
    ),
    (
        "RANDOMKEY\r\nSET a 1\r\nRANDOMKEY\r\nKEYS ?\r\nKEYS b*",
        "$-1\r\n+OK\r\n$1\r\na\r\n*1\r\n$1\r\na\r\n*0\r\n",
    ),
    ("SCAN x\r\nSCAN 0 COUNT 0", "-ERR invalid cursor\r\n-ERR syntax error\r\n"),
    (
        "OBJECT ENCODING a\r\nSET a 12\r\nOBJECT ENCODING a\r\nSET a x\r\nOBJECT ENCODING a",
        "$-1\r\n+OK\r\n$3\r\nint\r\n+OK\r\n$6\r\nembstr\r\n",
    ),
    ("COMMAND GETKEYS MSET a 1 b 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
];
