//! Many clients with copies, each told in another way, while all of them write: when all has been
//! told, no copy is another value than the server's.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::scene::Server;

const CLIENTS: usize = 8;
const KEYS: usize = 12;
const ROUNDS: usize = 40;
/// A message that is forgotten never comes, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn no_copy_is_of_what_was_before() {
    for shards in [1, 2] {
        let server = Server::start(shards, &["--memory", "1G"]);
        let all_wrote = Barrier::new(CLIENTS);
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (at, all_wrote) = (server.address, &all_wrote);
                scope.spawn(move || {
                    let mut client = Client::open(at, number);
                    for round in 0..ROUNDS {
                        client.round(round);
                    }
                    all_wrote.wait();
                    client.is_right();
                });
            }
        });
    }
}

struct Client {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    rng: Rng,
    number: usize,
    /// Said before each read, for the mode in which it must be.
    before: &'static str,
    copies: HashMap<String, String>,
}

/// Something that the server says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Text(String),
    Nothing,
    Push(Option<Vec<String>>),
}

fn key(n: usize) -> String {
    format!("key:{n}")
}

impl Client {
    fn open(at: SocketAddr, number: usize) -> Client {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        let (mode, before) = match number % 4 {
            0 => ("ON", ""),
            1 => ("ON NOLOOP", ""),
            2 => ("ON OPTIN", "CLIENT CACHING YES\r\n"),
            _ => ("ON BCAST PREFIX key:", ""),
        };
        let rng = Rng::with_seed(number as u64);
        let mut client = Client { stream, answers, rng, number, before, copies: HashMap::new() };
        let tracking = format!("CLIENT TRACKING {mode}\r\n");
        client.stream.write_all(format!("HELLO 3\r\n{tracking}ECHO begun\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        while line != "begun\r\n" {
            line.clear();
            client.answers.read_line(&mut line).unwrap();
        }
        client
    }

    /// Reads and writes many keys at once, and keeps a copy of what it has read.
    fn round(&mut self, round: usize) {
        let (mut bytes, mut asked) = (String::new(), Vec::new());
        for at in 0..self.rng.usize(1..40) {
            let key = key(self.rng.usize(..KEYS));
            if self.rng.u8(..4) == 0 {
                // Some are so long that answers wait for others' while more are asked for.
                let long = if self.rng.bool() { 60_000 } else { 5 };
                let value = format!("{}:{round}:{at}:{}", self.number, "v".repeat(long));
                bytes += &format!("SET {key} {value}\r\n");
                asked.push((key, true));
            } else {
                bytes += &format!("{}GET {key}\r\n", self.before);
                asked.push((key, false));
            }
        }
        let mut stream = self.stream.try_clone().unwrap();
        thread::scope(|scope| {
            // It may send before it reads.
            scope.spawn(move || stream.write_all(bytes.as_bytes()).unwrap());
            for (key, is_write) in asked {
                if !is_write && !self.before.is_empty() {
                    assert_eq!(self.answer(), Said::Text("OK".to_owned()));
                }
                match self.answer() {
                    // What it has written itself it does not keep.
                    Said::Text(_) if is_write => _ = self.copies.remove(&key),
                    Said::Text(value) => _ = self.copies.insert(key, value),
                    _ => _ = self.copies.remove(&key),
                }
            }
        });
    }

    /// The next answer; what is told before it is heeded.
    fn answer(&mut self) -> Said {
        loop {
            match self.said() {
                Said::Push(Some(keys)) => keys.iter().for_each(|key| _ = self.copies.remove(key)),
                Said::Push(None) => self.copies.clear(),
                said => return said,
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn bulk(&mut self, line: &str) -> String {
        let mut text = vec![0; line[1..].parse::<usize>().unwrap() + 2];
        self.answers.read_exact(&mut text).unwrap();
        text.truncate(text.len() - 2);
        String::from_utf8(text).unwrap()
    }

    fn said(&mut self) -> Said {
        let line = self.line();
        match line.as_bytes()[0] {
            b'_' => Said::Nothing,
            b'+' => Said::Text(line[1..].to_owned()),
            b'$' => Said::Text(self.bulk(&line)),
            b'>' => {
                let head = self.line();
                assert_eq!((line, self.bulk(&head)), (">2".to_owned(), "invalidate".to_owned()));
                let list = self.line();
                if list == "_" {
                    return Said::Push(None);
                }
                let count: usize = list[1..].parse().unwrap();
                let keys = (0..count).map(|_| {
                    let head = self.line();
                    self.bulk(&head)
                });
                Said::Push(Some(keys.collect()))
            }
            _ => panic!("{line}"),
        }
    }

    /// Each copy is the server's value, once all has been told.
    fn is_right(&mut self) {
        let start = Instant::now();
        loop {
            // Read without a word of the copies: an answer itself would mend them.
            let copies = self.copies.clone();
            let mut wrong = Vec::new();
            for (key, value) in copies {
                self.stream.write_all(format!("GETRANGE {key} 0 -1\r\n").as_bytes()).unwrap();
                match self.answer() {
                    Said::Text(now) if now == value => {}
                    // It has been told meanwhile.
                    _ if self.copies.get(&key) != Some(&value) => {}
                    now => wrong.push((key, value.len(), now)),
                }
            }
            if wrong.is_empty() {
                return;
            }
            let patience = start.elapsed() < PATIENCE;
            assert!(
                patience,
                "client {}: copies of what was before: {:?}",
                self.number, wrong[0].0
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
}
