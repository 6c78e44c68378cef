//! The same bytes to kumiki-kv and to redis, byte by byte the same answers: well- and ill-formed
//! commands drawn by seed, by both protocols, typed and in bulk, many at once, in transactions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fastrand::Rng;

use crate::redis::Redis;
use crate::scene::{Server, seeds};

mod allowed;
pub(crate) mod frame;
mod peer;
mod stream;
mod table;
mod words;

use frame::{Frame, frames};
use peer::{Line, Said};
use table::Alike;
use words::Drawn;

/// What both are asked in the tests that always run.
const COMMANDS: usize = 20_000;
/// The first version whose words are other ones (`allowed.rs` is of what is before).
const NEWER: (u32, u32) = (7, 3);

#[test]
fn redis_answers_the_same_bytes() {
    let faults = [1, 2].map(|shards| differ(shards, COMMANDS / 2, 7)).concat();
    assert!(faults.is_empty(), "{faults}");
}

#[test]
#[ignore = "some minutes: `cargo xtask test long`, after a change to commands, replies or the parser"]
fn redis_answers_the_same_bytes_to_a_million_commands() {
    let faults: String =
        seeds(100..110).map(|seed| differ(1 + seed as usize % 2, 100_000, seed)).collect();
    assert!(faults.is_empty(), "{faults}");
}

/// What this server says that it has is in the table, and all of that it has.
#[test]
fn every_command_that_it_claims_is_compared() {
    let server = Server::start(1, &[]);
    let list = server.cli(&["COMMAND", "LIST"]);
    let claimed: Vec<String> =
        list.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_uppercase).collect();
    let missing: Vec<&String> = claimed
        .iter()
        .filter(|name| {
            !table::names().any(|known| known == *name)
                && !allowed::NOT_DRAWN.iter().any(|(known, _)| known == name)
        })
        .collect();
    let lacking: Vec<&str> = table::names()
        .filter(|name| *name != "name" && !claimed.iter().any(|it| it == name))
        .collect();
    assert!(missing.is_empty() && lacking.is_empty(), "not drawn: {missing:?}, lacks: {lacking:?}");
}

/// What differs, as text.
fn differ(shards: usize, commands: usize, seed: u64) -> String {
    let Some(redis) = Redis::start(&["--proto-max-bulk-len", "1mb"]) else { return String::new() };
    if redis.release() >= NEWER {
        eprintln!("passed over: {redis:?} words its answers otherwise than 7.2 and before");
        return String::new();
    }
    let server = Server::start(shards, &[]);
    let kinds = Differ::new([server.address, redis.address], seed).run(commands);
    if kinds.is_empty() {
        return String::new();
    }
    let count = kinds.len();
    format!("{count} kinds with {shards} shards, seed {seed}:\n{}", report(&kinds))
}

/// Differences by their kind: how often, and one of each.
type Kinds = BTreeMap<String, (usize, String)>;

fn report(kinds: &Kinds) -> String {
    let mut sorted: Vec<_> = kinds.values().collect();
    sorted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let shown = std::env::var("KUMIKI_KV_KINDS").ok().and_then(|count| count.parse().ok());
    sorted.iter().take(shown.unwrap_or(20)).fold(String::new(), |mut text, (count, example)| {
        let _ = writeln!(text, "{count} times: {example}");
        text
    })
}

struct Differ {
    at: [std::net::SocketAddr; 2],
    /// Two clients of each server, so that one can come between the other's WATCH and EXEC.
    lines: [[Line; 2]; 2],
    rng: Rng,
    kinds: Kinds,
    /// What has been asked since both were emptied, by which client.
    asked: Vec<String>,
    /// How often a server has not answered at all.
    late: usize,
}

impl Differ {
    fn new(at: [std::net::SocketAddr; 2], seed: u64) -> Differ {
        let lines = [(); 2].map(|()| at.map(Line::open));
        Differ {
            at,
            lines,
            rng: Rng::with_seed(seed),
            kinds: Kinds::new(),
            asked: Vec::new(),
            late: 0,
        }
    }

    fn run(mut self, commands: usize) -> Kinds {
        let mut asked = 0;
        while asked < commands && self.late < 3 {
            asked += if self.rng.u8(..20) == 0 { self.stream() } else { self.batch() };
        }
        self.kinds
    }

    /// Commands at once by one client of each; how many.
    fn batch(&mut self) -> usize {
        let batch = batch(&mut self.rng);
        let mut bytes = Vec::new();
        for drawn in &batch {
            stream::encode(&mut self.rng, &drawn.words, &mut bytes);
        }
        let client = usize::from(self.rng.u8(..4) == 0);
        self.asked.extend(batch.iter().map(|drawn| format!("{client}: {}", show(&drawn.words))));
        let said = self.lines[client].each_mut().map(|line| line.ask(&bytes));
        let difference = difference(&batch, &said);
        if let Some(Difference::Found(place, kind, shown)) = difference {
            let before = self.asked.len() - (batch.len() - place);
            // What was watched may have been so for long.
            let shown_before = if kind.starts_with("EXEC") { usize::MAX } else { 60 };
            let before = &self.asked[before.saturating_sub(shown_before)..before];
            let behind =
                batch[(place + 1).min(batch.len())..].iter().map(|drawn| show(&drawn.words));
            let example = format!(
                "{shown}\n   of {} at once, after {}\n   and before {}",
                batch.len(),
                before.join(" ; "),
                behind.collect::<Vec<_>>().join(" ; ")
            );
            self.kinds.entry(kind).or_insert((0, example)).0 += 1;
            self.late += usize::from(said.iter().any(|said| said.late));
            self.anew();
        } else if let Some(Difference::Allowed) = difference {
            self.anew();
        } else if said.iter().any(|said| said.ended) {
            self.lines[client] = self.at.map(Line::open);
        }
        batch.len()
    }

    /// Bytes that may be none of the protocol, by clients of their own.
    fn stream(&mut self) -> usize {
        let bytes = stream::stream(&mut self.rng);
        let [ours, theirs] = self.at.map(|at| Line::open(at).all(&bytes));
        if ours != theirs && !allowed::stream(&bytes, &ours, &theirs) {
            let kind = format!("stream {} {}", skeleton(&ours), skeleton(&theirs));
            let example = format!(
                "bytes \"{}\"\n   ours  \"{}\"\n   redis \"{}\"",
                bytes.escape_ascii(),
                short(&ours),
                short(&theirs)
            );
            self.kinds.entry(kind).or_insert((0, example)).0 += 1;
        }
        self.anew();
        1
    }

    /// Both without keys, and with new clients.
    fn anew(&mut self) {
        self.asked.clear();
        self.lines = [(); 2].map(|()| self.at.map(Line::open));
        for line in &mut self.lines[0] {
            line.ask(b"FLUSHALL\r\n");
        }
    }
}

/// Commands that are sent at once. What is in a transaction is answered in EXEC's array, where
/// only what is alike byte by byte can stand.
fn batch(rng: &mut Rng) -> Vec<Drawn> {
    let (mut batch, mut in_transaction) = (Vec::new(), false);
    let tag = if rng.bool() { "{t}" } else { "" };
    let count = if rng.bool() { 1 } else { rng.usize(1..20) };
    for _ in 0..count {
        let drawn = loop {
            let drawn = words::command(rng, tag);
            // Nor can what may differ (`allowed.rs`).
            let is_plain = !drawn.leaves_out()
                && !matches!(drawn.name().as_str(), "INCRBYFLOAT" | "OBJECT" | "CLIENT");
            let fits = !in_transaction || drawn.alike == Alike::Exact && is_plain;
            // What is not answered is to leave nothing that could differ; a QUIT Redis does not obey.
            let reads = ["PING", "ECHO", "GET", "MGET", "EXISTS", "STRLEN", "TYPE"];
            let is_unseen = batch.last().is_some_and(Drawn::leaves_out);
            let stays = is_unseen && !reads.contains(&&*drawn.name());
            // A refused EXEC makes Redis forget what is watched, and not this server.
            let stays = stays || drawn.name() == "EXEC" && drawn.words.len() > 1;
            if fits && !stays {
                break drawn;
            }
        };
        match (drawn.name().as_str(), drawn.words.len()) {
            ("MULTI", 1) => in_transaction = true,
            ("EXEC" | "DISCARD" | "RESET", 1) => in_transaction = false,
            _ => {}
        }
        let quits = drawn.name() == "QUIT";
        batch.push(drawn);
        if quits {
            return batch;
        }
    }
    if in_transaction {
        batch.push(Drawn { words: vec![b"EXEC".to_vec()], alike: Alike::Exact });
    }
    batch
}

/// Those that have an answer: not one that says so, nor the one behind it.
fn answered(batch: &[Drawn]) -> Vec<&Drawn> {
    let mut skips = false;
    let has_one = |drawn: &&Drawn| {
        let is_left_out = std::mem::replace(&mut skips, drawn.leaves_out()) && !drawn.turns_on();
        !is_left_out && !skips
    };
    batch.iter().filter(has_one).collect()
}

enum Difference {
    /// Where the first one is, its kind, and how it is shown.
    Found(usize, String, String),
    /// One that may be (`allowed.rs`).
    Allowed,
}

fn difference(batch: &[Drawn], said: &[Said; 2]) -> Option<Difference> {
    let [ours, theirs] = said;
    if ours == theirs && !ours.late {
        return None;
    }
    let (a, b) = (frames(&ours.bytes), frames(&theirs.bytes));
    let all: Vec<String> = batch.iter().map(|drawn| show(&drawn.words)).collect();
    let batch = answered(batch);
    for place in 0..a.len().max(b.len()) {
        let (x, y) = (a.get(place), b.get(place));
        let drawn = batch.get(place).copied();
        let same = match (x, y) {
            (Some(x), Some(y)) if x.0 == y.0 => true,
            (Some(x), Some(y)) => drawn.is_some_and(|drawn| alike(drawn, x, y)),
            _ => false,
        };
        if !same
            && let (Some(x), Some(y), Some(drawn)) = (x, y, drawn)
            && allowed::answer(&drawn.name(), x.0, y.0)
        {
            return Some(Difference::Allowed);
        }
        if !same {
            let [x, y] = [x, y].map(|it| it.map_or(&b"nothing"[..], |it| it.0));
            let name = drawn.map_or("?".to_owned(), |drawn| drawn.name());
            let words = drawn.map_or("?".to_owned(), |drawn| show(&drawn.words));
            let kind = format!("{name} {} {}", skeleton(x), skeleton(y));
            let shown = format!("{words}\n   ours  \"{}\"\n   redis \"{}\"", short(x), short(y));
            return Some(Difference::Found(place.min(batch.len()), kind, shown));
        }
    }
    (ours.ended != theirs.ended || ours.late || theirs.late).then(|| {
        let words = all.join(" ; ");
        let shown = format!(
            "{words}\n   ours ended: {}, late: {}; redis ended: {}, late: {}",
            ours.ended, ours.late, theirs.ended, theirs.late
        );
        let kind = format!("end {} {}", ours.ended, ours.late);
        Difference::Found(batch.len().saturating_sub(1), kind, shown)
    })
}

type Answer<'a> = (&'a [u8], Frame<'a>);

fn alike(drawn: &Drawn, (_, x): &Answer<'_>, (_, y): &Answer<'_>) -> bool {
    if x.is_error() || y.is_error() {
        return false;
    }
    match drawn.alike {
        Alike::Exact => false,
        Alike::Kind => x.kind == y.kind && x.text.is_some() == y.text.is_some(),
        Alike::Near(most) => {
            let numbers = x.integer().zip(y.integer());
            numbers.is_some_and(|(a, b)| (a < 0) == (b < 0) && a.abs_diff(b) <= most as u64)
        }
        Alike::AnyOrder => x.kind == y.kind && sorted(&x.parts) == sorted(&y.parts),
        Alike::Scan => {
            let ([at, keys], [their_at, their_keys]) = (&x.parts[..], &y.parts[..]) else {
                return false;
            };
            // Of a walk that does not begin or end here, only the form can be compared.
            let is_whole = drawn.words.get(1).is_some_and(|cursor| cursor == b"0")
                && [at, their_at].iter().all(|at| at.text == Some(b"0"));
            !is_whole || sorted(&keys.parts) == sorted(&their_keys.parts)
        }
    }
}

fn sorted<'a>(parts: &[Frame<'a>]) -> Vec<Option<&'a [u8]>> {
    // The empty key, which is met by `**`, Redis does not find.
    let texts = parts.iter().map(|part| part.text).filter(|text| *text != Some(b""));
    let mut texts: Vec<_> = texts.collect();
    texts.sort_unstable();
    texts
}

/// Its first bytes without what differs from one example of its kind to the next.
fn skeleton(bytes: &[u8]) -> String {
    let mut text: String = bytes.iter().take(60).map(|byte| char::from(*byte)).collect();
    if let Some((head, _)) = text.split_once('\'') {
        text.truncate(head.len());
    }
    text.retain(|letter| letter.is_ascii_alphabetic() || "+-:$*%_,#".contains(letter));
    text
}

fn short(bytes: &[u8]) -> String {
    let more = if bytes.len() > 300 { "…" } else { "" };
    format!("{}{more}", bytes[..bytes.len().min(300)].escape_ascii())
}

fn show(words: &[words::Word]) -> String {
    let each = words.iter().map(|word| match word.len() {
        0 => "\"\"".to_owned(),
        60.. => format!("\"{}…\"({})", word[..8].escape_ascii(), word.len()),
        _ if word.iter().all(u8::is_ascii_alphanumeric) => word.escape_ascii().to_string(),
        _ => format!("\"{}\"", word.escape_ascii()),
    });
    each.collect::<Vec<_>>().join(" ")
}

/// Two of the same kind agree: what this test draws and allows is no noise.
#[test]
fn redis_agrees_with_itself() {
    let Some(one) = Redis::start(&["--proto-max-bulk-len", "1mb"]) else { return };
    let Some(two) = Redis::start(&["--proto-max-bulk-len", "1mb"]) else { return };
    let kinds = Differ::new([one.address, two.address], 3)
        .run(std::env::var("N").map_or(COMMANDS, |n| n.parse().unwrap()));
    assert!(kinds.is_empty(), "{}", report(&kinds));
}

/// What a client has asked that was cut is answered to nobody.
#[test]
fn who_is_cut_leaves_nothing_to_the_next() {
    for shards in [1, 2] {
        let server = Server::start(shards, &[]);
        // Each comes to any of the shards.
        for cut in ["Host: x", "POST / HTTP/1.1"].repeat(20) {
            let asked = format!("ECHO others\r\nMULTI\r\nSET a b\r\n{cut}\r\n");
            Line::open(server.address).all(asked.as_bytes());
            let next = Line::open(server.address).all(b"ECHO own\r\n");
            assert_eq!(next.escape_ascii().to_string(), "$3\\r\\nown\\r\\n", "after {cut:?}");
        }
    }
}

/// What stands before HELLO is answered in the protocol in which it was asked, whoever has the key.
#[test]
fn answers_are_of_the_protocol_in_which_they_were_asked() {
    for shards in [1, 2] {
        let server = Server::start(shards, &[]);
        let asked: String = (0..20).map(|n| format!("GET key{n}\r\n")).collect();
        let said = Line::open(server.address).all(format!("{asked}HELLO 3\r\n").as_bytes());
        let nothing = b"$-1\r\n".repeat(20);
        assert!(said.starts_with(&nothing), "{}", said.escape_ascii());
    }
}
