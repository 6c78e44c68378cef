//! What bounds memory: whatever clients send.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::scene::Server;

/// Bytes of an array of words.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// So much a server takes at most: what its page says.
fn most(memory: usize, clients: usize) -> usize {
    memory + memory * 15 / 100 + (16 << 20) + clients * 2048
}

/// 28 kB ask for 4 GB. The answer is an error, made in no memory, and the client goes on.
#[test]
fn an_answer_is_bounded_while_it_is_made() {
    for cpus in [1, 2] {
        let memory = if cpus == 1 { "16M" } else { "32M" };
        let server = Server::start(cpus, &["--memory", memory]);
        let value = vec![b'v'; 1 << 20];
        let set = command(&[b"SET", b"k", &value]);
        // Keys of all shards: each is asked for too much.
        let sets: Vec<u8> = (0..8)
            .flat_map(|at| command(&[b"SET", format!("k{at}").as_bytes(), &value[..100_000]]))
            .collect();
        let names: Vec<String> = (0..4000).map(|at| format!("k{}", at % 8)).collect();
        let keys: Vec<&[u8]> =
            [&b"MGET"[..]].into_iter().chain(names.iter().map(String::as_bytes)).collect();
        let spread = [sets, command(&keys), b"QUIT\r\n".to_vec()].concat();
        let seen = server.ask(&spread);
        assert!(seen.contains("-ERR the answer would be longer than"), "{}", seen.len());
        let keys = [&[&b"MGET"[..]][..], &[&b"k"[..]; 4000][..]].concat();
        let mget = command(&keys);
        let gets = b"GET k\r\n".repeat(200);
        let all =
            [&set[..], &mget, b"PING\r\n", &gets, b"MULTI\r\n", &gets, b"EXEC\r\nPING\r\nQUIT\r\n"];
        let seen = server.ask(&all.concat());
        assert!(seen.starts_with("+OK\r\n-ERR the answer would be longer than"), "{}", &seen[..80]);
        assert!(seen.ends_with("+PONG\r\n+OK\r\n"), "{:?}", &seen[seen.len() - 99..]);
        assert!(seen.len() > 200 << 20, "{} bytes for 200 values of 1 MiB", seen.len());
        let resident = server.resident();
        assert!(resident < most(32 << 20, 10), "{resident} with {cpus} shards");
    }
}

/// The same of answers that are made of short parts: a command of a megabyte asks for 135 MB.
#[test]
fn an_answer_about_commands_is_bounded_while_it_is_made() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &["--memory", if cpus == 1 { "16M" } else { "32M" }]);
        let before = server.peak();
        for about in [b"INFO", b"DOCS"] {
            let words = [&[&b"COMMAND"[..], about][..], &[&b"client"[..]; 90_000][..]].concat();
            let seen = server.ask(&[command(&words), b"PING\r\nQUIT\r\n".to_vec()].concat());
            let end = "+PONG\r\n+OK\r\n";
            assert!(seen.starts_with("-ERR the answer would be longer than"), "{}", seen.len());
            assert!(seen.ends_with(end) && seen.len() < 1000, "{}", seen.len());
        }
        let more = server.peak() - before;
        assert!(more < 24 << 20, "{more} bytes with {cpus} shards");
    }
}

/// A key that is watched takes far more than its word.
#[test]
fn keys_that_are_watched_are_weighed_before() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &["--memory", if cpus == 1 { "16M" } else { "32M" }]);
        let before = server.peak();
        // Keys of one shard: those of the second would be refused for that.
        let keys: Vec<String> = (0..100_000).map(|at| format!("{at}")).collect();
        let same = if cpus == 1 { keys } else { vec!["k".to_owned(); 100_000] };
        let watch: Vec<&[u8]> =
            [&b"WATCH"[..]].into_iter().chain(same.iter().map(String::as_bytes)).collect();
        let asked = [command(&watch), b"WATCH k\r\nPING\r\nQUIT\r\n".to_vec()].concat();
        let seen = server.ask(&asked);
        assert!(seen.starts_with("-ERR 100000 keys to watch would take "), "{seen}");
        assert!(seen.ends_with("\r\n+OK\r\n+PONG\r\n+OK\r\n"), "{seen}");
        let more = server.peak() - before;
        assert!(more < 10 << 20, "{more} bytes with {cpus} shards");
    }
}

/// Who sends without a pause is served for as long as it likes.
#[test]
fn a_pipeline_without_a_pause_is_not_cut_off() {
    let server = Server::start(1, &["--memory", "16M"]);
    let one = command(&[b"SET", b"key", &[b'v'; 3000]]);
    let count = (64 << 20) / one.len();
    let mut client = server.client();
    let mut writer = client.try_clone().unwrap();
    let send = std::thread::spawn(move || {
        (0..count)
            .try_for_each(|_| writer.write_all(&one))
            .and_then(|()| writer.write_all(b"QUIT\r\n"))
    });
    let mut seen = Vec::new();
    client.read_to_end(&mut seen).unwrap();
    send.join().unwrap().unwrap();
    assert_eq!(seen.len(), 5 * (count + 1));
    assert!(server.resident() < most(16 << 20, 1));
}

#[test]
fn words_of_nothing_and_half_commands_are_counted() {
    let server = Server::start(1, &["--memory", "16M"]);
    let words = [b"*60000\r\n".to_vec(), b"$0\r\n\r\n".repeat(59_999)].concat();
    let half = [b"*2\r\n$3\r\nGET\r\n$40000\r\n".to_vec(), vec![b'a'; 31_000]].concat();
    let clients: Vec<TcpStream> = (0..600)
        .map(|at| {
            let mut client = server.client();
            // It may be evicted while it sends.
            let _ = client.write_all(if at % 10 == 0 { &words } else { &half });
            client
        })
        .collect();
    assert_eq!(server.cli(&["PING"]), "PONG\n");
    assert!(server.resident() < most(16 << 20, 600), "{}", server.resident());
    drop(clients);
}

/// Commands that wait for an EXEC, and keys that are watched.
#[test]
fn what_waits_for_a_transaction_is_counted() {
    let server = Server::start(1, &["--memory", "16M"]);
    let value = vec![b'v'; 100_000];
    let queue = [b"MULTI\r\n".to_vec(), command(&[b"SET", b"k", &value]).repeat(20)].concat();
    let keys: Vec<String> =
        (0..10_000).map(|at| format!("a key that somebody watches {at}")).collect();
    let watch: Vec<&[u8]> =
        [&b"WATCH"[..]].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    let watch = command(&watch);
    let clients: Vec<TcpStream> = (0..60)
        .map(|at| {
            let mut client = server.client();
            let (sent, answers) = if at % 2 == 0 { (&watch, 1) } else { (&queue, 21) };
            // Until all is there, or it is evicted for its memory.
            let _ = client.write_all(sent);
            let _ = BufReader::new(&client).lines().take(answers).count();
            client
        })
        .collect();
    assert_eq!(server.cli(&["PING"]), "PONG\n");
    assert!(server.resident() < most(16 << 20, 60), "{}", server.resident());
    drop(clients);
}

/// Values of the lengths at which allocators waste most, times to go for each of them, and all of
/// it given back.
#[test]
fn keys_and_their_times_are_counted_and_given_back() {
    let server = Server::start(1, &["--memory", "64M"]);
    let before = server.resident();
    for (round, length) in [2100, 3000, 100, 1000, 20].into_iter().enumerate() {
        let mut asked = Vec::new();
        for at in 0..(80 << 20) / (length + 60) {
            let key = format!("key{round}:{at}");
            asked.extend(command(&[b"SET", key.as_bytes(), &vec![b'v'; length]]));
            asked.extend(command(&[b"EXPIRE", key.as_bytes(), b"1000"]));
        }
        asked.extend(b"QUIT\r\n");
        let seen = server.ask(&asked);
        assert!(seen.contains("-OOM"), "all of {length} bytes had room");
        let resident = server.resident();
        assert!(resident < most(64 << 20, 1), "{resident} with values of {length}");
        assert_eq!(server.cli(&["FLUSHALL"]), "OK\n");
    }
    let after = server.resident();
    assert!(after < before + (8 << 20), "{before} before, {after} after FLUSHALL");
}

#[test]
fn a_hostile_client_is_evicted_and_takes_no_memory() {
    let server = Server::start(1, &["--memory", "8M", "--longest", "1M"]);
    let before = server.resident();
    let ends_with = |bytes: &[u8], answer: &str| {
        let seen = server.ask(bytes);
        assert!(seen.contains(answer), "{seen:?}");
    };
    ends_with(b"*1\r\n$536870912\r\n", "invalid bulk length");
    ends_with(b"*9999999\r\n", "invalid multibulk length");
    ends_with(b"*1\r\n+OK\r\n", "expected '$'");
    ends_with(&[b'a'; 100_000], "too big inline request");
    // Half a command each, of almost a megabyte: more than there may be in all.
    let half = [b"*2\r\n$3\r\nGET\r\n$1000000\r\n".to_vec(), vec![b'a'; 900_000]].concat();
    let halves: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut client = server.client();
            let _ = client.write_all(&half);
            client
        })
        .collect();
    // One that asks without end and takes nothing.
    let set = |key: &str, bytes: usize| loop {
        let mut client = server.client();
        let head = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n", key.len());
        let all = [head.into_bytes(), vec![b'v'; bytes], b"\r\n".to_vec()].concat();
        let mut line = String::new();
        // While the others are still being read it may be the one that is evicted.
        let sent = client.write_all(&all);
        if sent.is_ok() && BufReader::new(client).read_line(&mut line).is_ok() && !line.is_empty() {
            break line;
        }
    };
    assert_eq!(set("large", 900_000), "+OK\r\n");
    let slow = server.client();
    slow.set_nonblocking(true).unwrap();
    let ask = b"GET large\r\n".repeat(1000);
    for _ in 0..100 {
        let _ = (&slow).write(&ask);
    }
    assert_eq!(server.cli(&["PING"]), "PONG\n");
    let more = server.resident().saturating_sub(before);
    assert!(more < 100 << 20, "{more} bytes for 40 half commands and one that takes nothing");
    drop((halves, slow));
    assert_eq!(set("more", 1_000_000), "+OK\r\n");
    for key in 0..8 {
        set(&format!("more{key}"), 1_000_000);
    }
    let full = set("full", 1_000_000);
    assert!(full.starts_with("-OOM"), "{full}");
    assert_eq!(server.cli(&["GET", "more"]).len(), 1_000_003);
}

/// What CONFIG SET has answered holds: for the next command, whoever sends it, whichever shard has
/// the key.
#[test]
fn memory_that_is_set_holds_at_once() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &["--memory", "32M", "--longest", "1M"]);
        let value = "x".repeat(512 << 10);
        let set = |key: usize| {
            format!("*3\r\n$3\r\nSET\r\n$3\r\nk{key}\r\n${}\r\n{value}\r\n", value.len())
        };
        // More than 32 MB, in all shards.
        let fill: String = (10..90).map(set).collect();
        assert!(server.ask(format!("{fill}QUIT\r\n").as_bytes()).contains("-OOM"));
        // Within one read: there is no turn of the server between the two commands.
        let raise = "CONFIG SET maxmemory 256mb\r\n";
        let more: String =
            (90..96).map(|key| format!("DEL k{key}\r\nSETRANGE k{key} 900000 x\r\n")).collect();
        let seen = server.ask(format!("{raise}{more}QUIT\r\n").as_bytes());
        let each = ":0\r\n:900001\r\n".repeat(6);
        assert_eq!(seen, format!("+OK\r\n{each}+OK\r\n"), "{cpus} shards");
    }
}
