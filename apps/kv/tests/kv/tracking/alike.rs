//! What Redis tells its clients this server tells them, byte by byte, in the same order.

use std::cmp::Ordering::Equal;
use std::net::SocketAddr;

use fastrand::Rng;

use super::Peer;
use crate::redis::Redis;
use crate::scene::{Server, seeds};

const PEERS: usize = 3;
/// Numbers of clients from here on are no numbers that commands answer.
const FIRST: u64 = 1000;

#[test]
fn redis_tells_the_same() {
    alike(7, 1000);
    alike(8, 1000);
}

#[test]
#[ignore = "some minutes: `cargo xtask test long`, after a change to what clients are told"]
fn redis_tells_the_same_for_long() {
    seeds(100..120).for_each(|seed| alike(seed, 5000));
}

fn alike(seed: u64, steps: usize) {
    let Some(redis) = Redis::start(&[]) else { return };
    let server = Server::start(1, &[]);
    let mut both = [server.address, redis.address].map(peers);
    let mut rng = Rng::with_seed(seed);
    let mut asked = Vec::new();
    // What a client changes for which it is told in another one's place, Redis tells it before the
    // answer, and in the midst of that of EXEC. Where nothing is redirected the order is the same.
    let redirects = seed.is_multiple_of(2);
    for step in 0..steps {
        let peer = rng.usize(..PEERS);
        let resets = rng.u8(..40) == 0;
        let commands = match resets {
            true => "RESET\r\n".to_owned(),
            false => (0..rng.usize(1..4)).map(|_| command(&mut rng, redirects)).collect(),
        };
        asked.push(format!("{peer}: {}", commands.trim_end()));
        let said = both.each_mut().map(|peers| {
            let commands = with_ids(&commands, peers);
            let mut said = vec![peers[peer].ask(&commands)];
            said.extend(peers.iter_mut().map(|peer| peer.ask("")));
            said.iter().map(|said| sorted(&without_ids(said, peers))).collect::<Vec<_>>()
        });
        let said = if redirects {
            said.map(|said| said.iter().map(|it| apart(it)).collect())
        } else {
            said
        };
        if resets {
            // Its answer says which server it is.
            both.iter_mut().for_each(|peers| drop(peers[peer].ask("HELLO 3\r\n")));
        }
        let before = &asked[asked.len().saturating_sub(30)..];
        assert_eq!(
            said[0],
            said[1],
            "seed {seed}, step {step}; asked before:\n{}",
            before.join("\n")
        );
    }
}

fn peers(at: SocketAddr) -> Vec<Peer> {
    while Peer::open(at).id < FIRST {}
    (0..PEERS).map(|_| Peer::three(at)).collect()
}

fn with_ids(commands: &str, peers: &[Peer]) -> String {
    (0..PEERS).fold(commands.to_owned(), |text, n| {
        text.replace(&format!("<{n}>"), &peers[n].id.to_string())
    })
}

fn without_ids(said: &str, peers: &[Peer]) -> String {
    // To a client of version 3 Redis writes the nothing of the client for whom it is told.
    let said = said.replace("invalidate\r\n$-1\r\n", "invalidate\r\n_\r\n");
    (0..PEERS).fold(said, |text, n| {
        text.replace(&format!(":{}\r\n", peers[n].id), &format!(":<{n}>\r\n"))
    })
}

/// The order of messages of single keys that stand side by side is nobody's promise: RENAME has two.
fn sorted(said: &str) -> String {
    let push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n";
    let (mut text, mut rest) = (String::new(), said);
    while let Some(at) = rest.find(push) {
        text += &rest[..at];
        rest = &rest[at..];
        let mut run = Vec::new();
        while rest.starts_with(push) {
            let key: usize = rest[push.len()..].split_inclusive('\n').take(2).map(str::len).sum();
            let (message, behind) = rest.split_at(push.len() + key);
            run.push(message);
            rest = behind;
        }
        run.sort_unstable();
        text += &run.concat();
    }
    text + rest
}

/// Answers, and behind them all messages.
fn apart(said: &str) -> String {
    let said = said.replace("\r\n>2\r\n$10\r\ninvalidate", "\r\n\0>2\r\n$10\r\ninvalidate");
    let mut frames = Vec::new();
    for piece in said.split('\0') {
        let lines: Vec<&str> = piece.split_inclusive('\n').collect();
        let count = match lines.first() {
            Some(&">2\r\n") => match lines[3].strip_prefix('*') {
                Some(keys) => 4 + 2 * keys.trim_end().parse::<usize>().unwrap(),
                None => 4,
            },
            _ => 0,
        };
        let (message, rest) = lines.split_at(count);
        frames.push((true, message.concat()));
        frames.push((false, rest.concat()));
    }
    frames.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| if a.0 { a.1.cmp(&b.1) } else { Equal }));
    frames.into_iter().map(|(_, text)| text).collect()
}

fn command(rng: &mut Rng, redirects: bool) -> String {
    let key = |rng: &mut Rng| ["a", "ab", "abc", "b", "bc", "''"][rng.usize(..6)];
    let any = |rng: &mut Rng, all: &[&'static str]| all[rng.usize(..all.len())];
    let (one, other) = (key(rng), key(rng));
    match rng.u8(..34) {
        28 => any(rng, &["EXEC\r\n", "EXEC x\r\n", "DISCARD\r\n"]).to_owned(),
        0..=7 => format!("GET {one}\r\n"),
        8 => format!("MGET {one} {other}\r\n"),
        9 => format!("STRLEN {one}\r\n"),
        10 => format!("EXISTS {one} {other}\r\n"),
        11..=14 => format!("SET {one} {}\r\n", rng.u8(..9)),
        15 => format!("APPEND {one} x\r\nSETRANGE {one} 50 ''\r\nSET {one} ''\r\n"),
        16 => format!("DEL {one} {other}\r\n"),
        17 => format!("MSET {one} 1 {other} 2\r\n"),
        18 => format!("RENAME {one} {other}\r\n"),
        19 => format!("COPY {one} {other}\r\n"),
        20 => format!("EXPIRE {one} {}\r\n", any(rng, &["100", "-1", "x"])),
        21 => format!("GETEX {one} {}\r\n", any(rng, &["EX 100", "PERSIST", ""])),
        22 => format!("MULTI\r\nGET {one}\r\nSET {other} 1\r\nGET {other}\r\nEXEC\r\n"),
        23 => format!(
            "MULTI\r\nCLIENT TRACKING ON\r\nCLIENT CACHING YES\r\nGET {one}\r\nSET {one} 3\r\nEXEC\r\n"
        ),
        24 => {
            any(rng, &["FLUSHALL\r\n", "NOPE\r\n", "GET\r\n", "PING\r\n", "RANDOMKEY x\r\n"]).into()
        }
        25 => any(
            rng,
            &[
                "CLIENT CACHING YES\r\n",
                "CLIENT CACHING NO\r\n",
                "CLIENT CACHING x\r\n",
                "CLIENT\r\n",
            ],
        )
        .into(),
        26 => "CLIENT TRACKINGINFO\r\nCLIENT GETREDIR\r\n".to_owned(),
        27 => any(rng, &["CLIENT TRACKING OFF\r\n", "PING\r\n"]).to_owned(),
        _ => {
            let mut words =
                format!("CLIENT TRACKING {}", any(rng, &["ON", "ON", "on", "OFF", "x"]));
            for _ in 0..rng.usize(..4) {
                words += any(
                    rng,
                    &[
                        " BCAST",
                        " BCAST",
                        " OPTIN",
                        " OPTOUT",
                        " NOLOOP",
                        " PREFIX a",
                        " PREFIX b",
                        " PREFIX ''",
                        " PREFIX ab",
                        " PREFIX",
                        " REDIRECT <0>",
                        " REDIRECT <1>",
                        " REDIRECT 5",
                        " REDIRECT x",
                        " WHAT",
                    ],
                );
            }
            if !redirects {
                words = words.replace(" REDIRECT <0>", " NOLOOP").replace(" REDIRECT <1>", "");
            }
            words + "\r\n"
        }
    }
}
