//! Tools of Redis, and pipelines to all shards.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Command;

use crate::scene::Server;

#[test]
fn redis_cli_finds_what_it_knows() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &[]);
        for (args, answer) in [
            (&["PING"][..], "PONG\n"),
            (&["SET", "a", "1"], "OK\n"),
            (&["GET", "a"], "\"1\"\n"),
            (&["INCR", "a"], "(integer) 2\n"),
            (&["SET", "b", "text"], "OK\n"),
            (&["INCR", "b"], "(error) ERR value is not an integer or out of range\n"),
            (&["MGET", "a", "c", "b"], "1) \"2\"\n2) (nil)\n3) \"text\"\n"),
            (&["SET", "b", "x", "NX"], "(nil)\n"),
            (&["EXPIRE", "b", "100"], "(integer) 1\n"),
            (&["TTL", "b"], "(integer) 100\n"),
            (&["TTL", "a"], "(integer) -1\n"),
            (&["EXPIRE", "b", "0"], "(integer) 1\n"),
            (&["DBSIZE"], "(integer) 1\n"),
            (&["DEL", "a", "b", "c"], "(integer) 1\n"),
            (&["DBSIZE"], "(integer) 0\n"),
            (&["SET", "a"], "(error) ERR wrong number of arguments for 'set' command\n"),
        ] {
            assert_eq!(server.cli(args), answer, "{args:?} with {cpus} shards");
        }
    }
}

#[test]
fn redis_benchmark_runs_to_its_end() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &[]);
        for pipeline in ["1", "16"] {
            let port = server.address.port().to_string();
            let output = Command::new("redis-benchmark")
                .args(["-p", &port, "-t", "set,get,incr", "-n", "3000", "-c", "8", "-r", "1000"])
                .args(["-P", pipeline, "--csv"])
                .output()
                .expect("redis-tools has redis-benchmark");
            let text = String::from_utf8(output.stdout).unwrap();
            for test in ["SET", "GET", "INCR"] {
                assert!(text.contains(&format!("\"{test}\",")), "{test}: {text}");
            }
            assert!(output.status.success(), "{text}");
        }
        let keys = server.cli(&["DBSIZE"]);
        assert!(
            keys.trim_start_matches("(integer) ").trim().parse::<u64>().unwrap() > 500,
            "{keys}"
        );
    }
}

/// Many commands at once, to all shards: answers are those of one map, in order.
#[test]
fn a_pipeline_is_answered_in_its_order() {
    let server = Server::start(2, &[]);
    let mut random = fastrand::Rng::with_seed(7);
    let (mut model, mut asked, mut expected) = (BTreeMap::<u8, i64>::new(), vec![], vec![]);
    for _ in 0..5000 {
        let (key, other) = (random.u8(..60), random.u8(..60));
        let bulk = |value: Option<&i64>| match value {
            Some(value) => format!("${}\r\n{value}\r\n", value.to_string().len()),
            None => "$-1\r\n".to_owned(),
        };
        let (command, answer) = match random.u8(..6) {
            0 => {
                let value = random.i64(..);
                model.insert(key, value);
                (format!("SET k{key} {value}"), "+OK\r\n".to_owned())
            }
            1 => {
                let gone = [key, other].into_iter().filter(|key| model.remove(key).is_some());
                let count = gone.count();
                (format!("DEL k{key} k{other}"), format!(":{count}\r\n"))
            }
            2 => {
                let values = [bulk(model.get(&key)), bulk(model.get(&other))].concat();
                (format!("MGET k{key} k{other}"), format!("*2\r\n{values}"))
            }
            3 => ("DBSIZE".to_owned(), format!(":{}\r\n", model.len())),
            4 => ("PING".to_owned(), "+PONG\r\n".to_owned()),
            _ => (format!("GET k{key}"), bulk(model.get(&key))),
        };
        asked.extend(format!("{command}\r\n").into_bytes());
        expected.extend(answer.into_bytes());
    }
    asked.extend(b"QUIT\r\n");
    expected.extend(b"+OK\r\n");
    let mut client = server.client();
    let mut writer = client.try_clone().unwrap();
    let mut sizes = fastrand::Rng::with_seed(8);
    let send = std::thread::spawn(move || {
        let mut rest = &asked[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(sizes.usize(1..9000)));
            writer.write_all(piece).unwrap();
            rest = more;
        }
    });
    let mut seen = Vec::new();
    client.read_to_end(&mut seen).unwrap();
    send.join().unwrap();
    let at = seen.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(at.is_none() && seen.len() == expected.len(), "{at:?} of {}", seen.len());
}

/// Clients at both shards at once ask for each other's keys.
#[test]
fn shards_ask_each_other_at_the_same_time() {
    let server = Server::start(2, &[]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = server.client();
                let line = (0..50).map(|key| format!("INCR k{key}\r\n")).collect::<String>();
                for _ in 0..100 {
                    client.write_all(line.as_bytes()).unwrap();
                    let mut lines = BufReader::new(&client).lines();
                    for _ in 0..50 {
                        assert!(lines.next().unwrap().unwrap().starts_with(':'));
                    }
                }
            });
        }
    });
    for key in ["k0", "k17", "k49"] {
        assert_eq!(server.cli(&["GET", key]), "\"800\"\n");
    }
}
