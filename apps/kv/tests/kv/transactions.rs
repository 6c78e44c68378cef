//! Transactions: all of it or nothing, and nothing if a watched key has changed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use crate::scene::Server;

/// A client that waits for each answer's line.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(server: &Server) -> Client {
        Client(BufReader::new(server.client()))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.line()
    }
}

#[test]
fn a_transaction_runs_whole_or_not_at_all() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &[]);
        let (mut one, mut other) = (Client::new(&server), Client::new(&server));
        assert_eq!(one.ask("SET {t}a 1"), "+OK");
        assert_eq!(one.ask("WATCH {t}a {t}b"), "+OK");
        assert_eq!(one.ask("MULTI"), "+OK");
        assert_eq!(one.ask("INCR {t}a"), "+QUEUED");
        assert_eq!(one.ask("PING"), "+QUEUED");
        assert_eq!(one.ask("SET {t}b x"), "+QUEUED");
        assert_eq!(other.ask("GET {t}b"), "$-1");
        assert_eq!(one.ask("EXEC"), "*3");
        assert_eq!([one.line(), one.line(), one.line()], [":2", "+PONG", "+OK"]);
        // Another one changes it.
        assert_eq!(one.ask("WATCH {t}a"), "+OK");
        assert_eq!(other.ask("SET {t}a 5"), "+OK");
        assert_eq!(one.ask("MULTI"), "+OK");
        assert_eq!(one.ask("SET {t}a 6"), "+QUEUED");
        assert_eq!(one.ask("EXEC"), "*-1");
        // Something that is no command.
        assert_eq!(one.ask("MULTI"), "+OK");
        assert_eq!(one.ask("SET {t}a 7"), "+QUEUED");
        assert!(one.ask("NOPE").starts_with("-ERR unknown command"));
        assert!(one.ask("EXEC").starts_with("-EXECABORT"));
        assert_eq!(one.ask("EXEC"), "-ERR EXEC without MULTI");
        assert_eq!(one.ask("MULTI"), "+OK");
        assert_eq!(one.ask("MULTI"), "-ERR MULTI calls can not be nested");
        assert_eq!(one.ask("WATCH a"), "-ERR WATCH inside MULTI is not allowed");
        assert_eq!(one.ask("DISCARD"), "+OK");
        assert_eq!((one.ask("GET {t}a"), one.line()), ("$1".to_owned(), "5".to_owned()));
        // One that is refused for its words is the end of it, and of what was watched.
        for asked in ["EXEC x", "exec 'x' y"] {
            assert_eq!(one.ask("WATCH {t}a"), "+OK");
            assert!(one.ask(asked).starts_with("-EXECABORT Transaction discarded because of: "));
            assert_eq!(other.ask("SET {t}a 5"), "+OK");
            assert_eq!(one.ask("MULTI"), "+OK");
            assert_eq!(one.ask("EXEC"), "*0");
            assert_eq!([one.ask("WATCH {t}a"), one.ask("MULTI")], ["+OK", "+OK"]);
            assert!(one.ask(asked).starts_with("-EXECABORT Transaction discarded because of: "));
            assert_eq!(other.ask("SET {t}a 5"), "+OK");
            assert_eq!([one.ask("MULTI"), one.ask("EXEC")], ["+OK", "*0"]);
        }
        // A refused one forgets nothing.
        assert_eq!(one.ask("WATCH {t}a"), "+OK");
        assert_eq!(one.ask("DISCARD"), "-ERR DISCARD without MULTI");
        assert_eq!(one.ask("INCR {t}a"), ":6");
        assert_eq!(one.ask("MULTI"), "+OK");
        assert_eq!(one.ask("EXEC"), "*-1");
    }
}

/// Keys of several shards cannot be changed at once: it says so, and nothing has run.
#[test]
fn a_transaction_over_several_shards_is_refused() {
    let server = Server::start(2, &[]);
    let mut client = Client::new(&server);
    assert_eq!(client.ask("MULTI"), "+OK");
    let answers: Vec<String> = (0..20).map(|at| client.ask(&format!("SET key{at} 1"))).collect();
    assert!(answers.iter().any(|answer| answer.starts_with("-CROSSSLOT")), "{answers:?}");
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.ask("DBSIZE"), ":0");
}

/// Many take one from one key and give it to another, with and without watching: the sum stays.
#[test]
fn sums_stay_whatever_many_do_at_once() {
    for cpus in [1, 2] {
        let server = Server::start(cpus, &[]);
        assert_eq!(Client::new(&server).ask("MSET {t}a 1000 {t}b 1000"), "+OK");
        std::thread::scope(|scope| {
            for at in 0..6 {
                let server = &server;
                scope.spawn(move || {
                    let mut client = Client::new(server);
                    for _ in 0..100 {
                        if at % 2 == 0 {
                            client.ask("MULTI");
                            client.ask("DECR {t}a");
                            client.ask("INCR {t}b");
                            assert_eq!(client.ask("EXEC"), "*2");
                            let _ = (client.line(), client.line());
                            continue;
                        }
                        client.ask("WATCH {t}a {t}b");
                        client.ask("GET {t}a");
                        let a: i64 = client.line().parse().unwrap();
                        client.ask("GET {t}b");
                        let b: i64 = client.line().parse().unwrap();
                        client.ask("MULTI");
                        client.ask(&format!("SET {{t}}a {}", a + 3));
                        client.ask(&format!("SET {{t}}b {}", b - 3));
                        if client.ask("EXEC") == "*2" {
                            let _ = (client.line(), client.line());
                        }
                    }
                });
            }
        });
        let mut client = Client::new(&server);
        client.ask("GET {t}a");
        let a: i64 = client.line().parse().unwrap();
        client.ask("GET {t}b");
        let b: i64 = client.line().parse().unwrap();
        assert_eq!(a + b, 2000);
    }
}
