//! Clients that keep copies of what they read are told when it changes.

use std::time::{Duration, Instant};

use crate::scene::Server;

mod alike;
mod coherence;
mod peer;

use peer::Peer;

const TOLD_A: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n";
const TOLD_ALL: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// Asks until it is told this: between shards a message is on its way for a while.
fn is_told(peer: &mut Peer, expected: &str) {
    let mut told = String::new();
    for _ in 0..2000 {
        told += &peer.ask("");
        if told.len() >= expected.len() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(told, expected);
}

#[test]
fn who_has_read_a_key_is_told_once_that_it_has_changed() {
    for shards in [1, 2] {
        let server = Server::start(shards, &[]);
        // Each comes to any of the shards.
        let mut peers: Vec<Peer> = (0..6).map(|_| Peer::three(server.address)).collect();
        for reader in &mut peers[1..] {
            assert_eq!(reader.ask("CLIENT TRACKING ON\r\nGET a\r\n"), "+OK\r\n_\r\n");
        }
        assert_eq!(peers[0].ask("SET a 1\r\nSET a 2\r\n"), "+OK\r\n+OK\r\n");
        for reader in &mut peers[1..] {
            is_told(reader, TOLD_A);
        }
        // Its time comes, and nobody asks for it.
        let reads = (0..20).find_map(|_| {
            peers[0].ask("SET a 3 PX 500\r\n");
            let read = peers[1].ask("GET a\r\n");
            // On a busy machine it has gone before.
            (read == "$1\r\n3\r\n").then_some(())
        });
        assert!(reads.is_some());
        is_told(&mut peers[1], TOLD_A);
        assert_eq!(peers[1].ask("GET a\r\n"), "_\r\n");
        // Who wants to know no more is not told, and is forgotten with the key's next change.
        assert_eq!(peers[1].ask("CLIENT TRACKING OFF\r\n"), "+OK\r\n");
        assert_eq!(peers[0].ask("SET a 1\r\n"), "+OK\r\n");
        let followed = |peer: &mut Peer| !peer.ask("INFO stats\r\n").contains("total_keys:0\r\n");
        let start = Instant::now();
        while followed(&mut peers[0]) {
            assert!(start.elapsed() < Duration::from_secs(20), "the key is followed still");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(peers[1].ask(""), "");
        assert_eq!(peers[0].ask("FLUSHALL\r\n"), "+OK\r\n");
        is_told(&mut peers[2], TOLD_ALL);
    }
}

/// One that is redirected to a client which is gone is told so; to one of RESP 2 it is refused.
#[test]
fn what_is_told_may_go_to_another_client() {
    for shards in [1, 2] {
        let server = Server::start(shards, &[]);
        let mut writer = Peer::three(server.address);
        for _ in 0..8 {
            let (mut reader, mut there) =
                (Peer::three(server.address), Peer::three(server.address));
            let id = there.id;
            let asked = reader.ask(&format!("CLIENT TRACKING ON REDIRECT {id}\r\nGET a\r\n"));
            assert!(asked.starts_with("+OK\r\n"), "{asked}");
            assert_eq!(reader.ask("CLIENT GETREDIR\r\n"), format!(":{id}\r\n"));
            assert_eq!(writer.ask("SET a 1\r\n"), "+OK\r\n");
            is_told(&mut there, TOLD_A);
            assert_eq!(reader.ask("GET a\r\n"), "$1\r\n1\r\n");
            drop(there);
            // Until the server has seen it go, the message may be lost with it.
            while writer.ask(&format!("CLIENT LIST ID {id}\r\n")).contains("id=") {}
            assert_eq!(writer.ask("SET a 1\r\n"), "+OK\r\n");
            is_told(&mut reader, &format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n"));
            let info = reader.ask("CLIENT TRACKINGINFO\r\n");
            assert!(info.contains("broken_redirect"), "{info}");
        }
        let old = Peer::open(server.address);
        let refused = writer.ask(&format!("CLIENT TRACKING ON REDIRECT {}\r\n", old.id));
        assert!(refused.starts_with("-ERR client ") && refused.contains("HELLO 3"), "{refused}");
        let refused = writer.ask("CLIENT TRACKING ON REDIRECT 999999\r\n");
        assert_eq!(refused, "-ERR The client ID you want redirect to does not exist\r\n");
    }
}

/// More keys than may be followed: the clients of some are told that they have changed.
#[test]
fn the_table_of_followed_keys_is_bounded() {
    for (shards, words) in [(1, &[][..]), (2, &[]), (1, &["--memory", "9M"])] {
        let server = Server::start(shards, words);
        let mut peer = Peer::three(server.address);
        let most = if words.is_empty() { 100 } else { 1_000_000 };
        peer.ask(&format!("CONFIG SET tracking-table-max-keys {most}\r\nCLIENT TRACKING ON\r\n"));
        let mut told = String::new();
        for n in 0..40 {
            let asked: String = (0..500).map(|k| format!("GET key:{n}:{k}\r\n")).collect();
            told += &peer.ask(&asked);
        }
        let mut keys = 0;
        for _ in 0..200 {
            // What is told with it counts, and a shard may let some go after it was asked.
            let info = peer.ask("INFO stats\r\n");
            let count =
                info.split("tracking_total_keys:").nth(1).unwrap().split('\r').next().unwrap();
            keys = count.parse::<usize>().unwrap();
            told += &info;
            if told.matches("invalidate").count() == 20_000 - keys {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!((1..20_000.min(most + 1)).contains(&keys), "{keys}");
        assert_eq!(told.matches("invalidate").count(), 20_000 - keys);
    }
}

/// A value that waits for others' answers is not told to have changed before it is there: the
/// client would keep it for ever.
#[test]
fn nobody_is_told_before_the_answer_that_it_is_about() {
    for shards in [1, 2] {
        let server = Server::start(shards, &["--memory", "1G"]);
        let mut writer = Peer::three(server.address);
        let long = "v".repeat(900_000);
        for n in 0..8 {
            writer.ask(&format!("*3\r\n$3\r\nSET\r\n$9\r\n{{t}}long:{n}\r\n$900000\r\n{long}\r\n"));
        }
        for round in 0..6 {
            writer.ask(&(0..8).map(|n| format!("SET short:{n} old\r\n")).collect::<String>());
            let mut reader = Peer::three(server.address);
            reader.ask("CLIENT TRACKING ON\r\n");
            // More than its socket takes, of one shard, and it reads nothing yet.
            let longs = (0..24).map(|n| format!("GET {{t}}long:{}\r\n", n % 8));
            let shorts = (0..8).map(|n| format!("GET short:{n}\r\n"));
            reader.send(&longs.chain(shorts).collect::<String>());
            std::thread::sleep(Duration::from_millis(100));
            writer.ask(&(0..8).map(|n| format!("SET short:{n} new\r\n")).collect::<String>());
            std::thread::sleep(Duration::from_millis(50));
            let mut said = reader.ask("");
            let start = Instant::now();
            let told = |said: &str, n: usize| said.rfind(&format!("*1\r\n$7\r\nshort:{n}\r\n"));
            // Answers of short keys stand behind the last long one, each in its turn.
            let last = said.rfind(&long).expect("it has them all") + long.len() + 2;
            let values = said[last..].match_indices("$3\r\n");
            let values: Vec<usize> = values.map(|(at, _)| last + at).collect();
            assert_eq!(values.len(), 8, "{}", &said[last..]);
            let is_old = |(_, at): &(usize, usize)| said[*at..].starts_with("$3\r\nold");
            let old: Vec<(usize, usize)> = values.into_iter().enumerate().filter(is_old).collect();
            for (n, at) in old {
                while told(&said, n).is_none() {
                    assert!(start.elapsed() < Duration::from_secs(20), "short:{n} is not told");
                    std::thread::sleep(Duration::from_millis(10));
                    said += &reader.ask("");
                }
                assert!(told(&said, n) > Some(at), "short:{n}, round {round}: {}", &said[last..]);
            }
        }
    }
}
