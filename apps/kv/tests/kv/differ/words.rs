//! Words of commands, drawn by seed: well-formed by the table, and then spoilt.

use fastrand::Rng;

use super::table::{Alike, ROWS};

pub(super) type Word = Vec<u8>;

/// A command as it will be sent.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) words: Vec<Word>,
    pub(super) alike: Alike,
}

impl Drawn {
    /// The name in capitals.
    pub(super) fn name(&self) -> String {
        let name = self.words.first().map_or(&b""[..], Vec::as_slice);
        String::from_utf8_lossy(name).to_uppercase()
    }

    /// Whether its answer is each server's own, whatever row it was drawn from.
    fn is_of_the_server(&self) -> bool {
        let asks = |words: &[&str]| words.iter().any(|word| self.has(1, word));
        match self.name().as_str() {
            "CLIENT" => asks(&["ID", "INFO", "LIST"]),
            "COMMAND" => self.words.len() == 1 || asks(&["COUNT", "DOCS", "INFO", "LIST"]),
            "CONFIG" => asks(&["GET"]),
            _ => false,
        }
    }

    /// Whether it is CLIENT REPLY SKIP.
    pub(super) fn leaves_out(&self) -> bool {
        let has = |place, word| self.has(place, word);
        self.words.len() == 3 && has(0, "CLIENT") && has(1, "REPLY") && has(2, "SKIP")
    }

    /// Whether it is CLIENT REPLY ON, which is answered whatever was to be left out.
    pub(super) fn turns_on(&self) -> bool {
        let has = |place, word| self.has(place, word);
        self.words.len() == 3 && has(0, "CLIENT") && has(1, "REPLY") && has(2, "ON")
    }

    fn has(&self, place: usize, word: &str) -> bool {
        self.words.get(place).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Whether no answer of its, or of what comes behind it, depends on when it is asked.
    fn is_steady(&self) -> bool {
        let times = self.words.iter().filter_map(|word| number(word));
        match self.name().as_str() {
            "EXPIRE" | "PEXPIRE" | "SETEX" | "PSETEX" | "EXPIREAT" | "PEXPIREAT" => {
                let mut times = times;
                // Which of two times from now is the later one is a matter of microseconds.
                let compares =
                    (3..self.words.len()).any(|at| self.has(at, "GT") || self.has(at, "LT"));
                let is_absolute = self.name().ends_with("AT");
                let least = if compares && !is_absolute { i64::MAX } else { 1_000_000 };
                !times.any(|time| (1..least).contains(&time))
            }
            // A key whose time is over counts until Redis comes across it.
            "SET" | "GETEX" => {
                let is_unit = |word: &Word| {
                    let units: [&[u8]; 4] = [b"EX", b"PX", b"EXAT", b"PXAT"];
                    units.contains(&word.to_ascii_uppercase().as_slice())
                };
                let mut pairs = self.words.windows(2).skip(2);
                !pairs.any(|pair| {
                    let is_absolute = pair[0].len() == 4;
                    let seconds = if pair[0].eq_ignore_ascii_case(b"EXAT") { 1 } else { 1000 };
                    let least = if is_absolute { 1_900_000_000 * seconds } else { 1_000_000 };
                    is_unit(&pair[0]) && number(&pair[1]).is_some_and(|n| (1..least).contains(&n))
                })
            }
            // They end the test, wait, or make of the connection something else.
            "SHUTDOWN" | "DEBUG" | "MONITOR" | "SYNC" | "PSYNC" | "SUBSCRIBE" | "PSUBSCRIBE"
            | "SSUBSCRIBE" | "REPLICAOF" | "SLAVEOF" | "FAILOVER" | "CLUSTER" => false,
            "CLIENT" => {
                // Every client is a normal one and has an id; later answers would be left out.
                let harmful = ["OFF", "PAUSE", "TRACKING", "CACHING", "UNBLOCK", "TYPE"];
                let mut ids = times;
                let is_harmful = |place| harmful.iter().any(|word| self.has(place, word));
                let kills = self.has(1, "KILL") && ids.any(|id| (1..10_000).contains(&id));
                !kills && !(1..4).any(is_harmful)
            }
            _ => true,
        }
    }
}

fn number(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.trim().parse().ok()
}

/// Draws a command of the table, spoilt once in three; its keys with a tag, by which several shards
/// have them together, or without.
pub(super) fn command(rng: &mut Rng, tag: &str) -> Drawn {
    loop {
        let row = ROWS[rng.usize(..ROWS.len())];
        let mut drawn = Drawn { words: Vec::new(), alike: row.1 };
        fill(row.0, tag, rng, &mut drawn.words);
        if rng.u8(..3) == 0 {
            spoil(rng, &mut drawn.words);
            if drawn.is_of_the_server() {
                drawn.alike = Alike::Kind;
            }
        }
        if rng.u8(..4) == 0
            && let Some(name) = drawn.words.first_mut()
        {
            name.make_ascii_lowercase();
        }
        if !drawn.words.is_empty() && drawn.is_steady() {
            return drawn;
        }
    }
}

fn fill(form: &str, tag: &str, rng: &mut Rng, words: &mut Vec<Word>) {
    let (plain, options) = form.split_once(" [").unwrap_or((form, ""));
    for word in plain.split(' ') {
        let times = if word.ends_with('+') { rng.usize(1..6) } else { 1 };
        words.extend((0..times).map(|_| match draw(word.trim_end_matches('+'), rng) {
            key if word.starts_with("key") => [tag.as_bytes(), &key].concat(),
            word => word,
        }));
    }
    if options.is_empty() {
        return;
    }
    let options: Vec<&str> = options.trim_end_matches(']').split('|').collect();
    for _ in 0..rng.usize(..4) {
        let option = options[rng.usize(..options.len())];
        words.extend(option.split(' ').map(|word| draw(word, rng)));
    }
}

const KEYS: [&[u8]; 14] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"n1",
    b"n2",
    b"n3",
    b"f1",
    b"f2",
    b"",
    b"\r\n",
    b"\xff\x00key",
    b"k y",
    b"K\"q",
];
const INTEGERS: [&str; 30] = [
    "0",
    "1",
    "-1",
    "2",
    "10",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "4294967296",
    "2147483648",
    "007",
    "-0",
    "+1",
    " 1",
    "1 ",
    "1.0",
    "1e3",
    "0x10",
    "",
    "-",
    "one",
    "١",
    "99999999999999999999999999",
    "1\r",
    "--1",
    "01",
];
const FLOATS: [&str; 34] = [
    "0",
    "-0",
    "1.5",
    "-1.5",
    "0.1",
    "0.2",
    "3.0e3",
    "1e300",
    "1e308",
    "1e-300",
    "5e-324",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "infinity",
    "0x1p3",
    "1e4932",
    "1e5000",
    "1.",
    ".5",
    "1,5",
    " 1.5",
    "1.5 ",
    "",
    "3.141592653589793238462643383279",
    "1e17",
    "123456789012345678",
    "0.0000000000000000001",
    "1e21",
    "10000000000000000000000",
    "-0.0",
    "+5",
    "1e",
];
const PATTERNS: [&[u8]; 30] = [
    b"*", b"a", b"?", b"n?", b"[ab]", b"[^ab]", b"[a-c]", b"[c-a]", b"n*", b"*1", b"\\*", b"\\a",
    b"[", b"[a", b"[^", b"[a-", b"**", b"*\x00*", b"", b"n[1-2]", b"[\\]]", b"\\", b"*[\r]*",
    b"f[^1]", b"*y", b"k\\ y", b"[]", b"[^]", b"?*?", b"a*a*",
];
const NAMES: [&[u8]; 14] = [
    b"name",
    b"",
    b"with space",
    b"line\n",
    b"BOGUS",
    b"n\xc3\xa9",
    b"GETT",
    b"X",
    b"tab\t",
    b"hset1",
    b"\x7f",
    b"A-NAME-OF-MORE-THAN-SIXTEEN-BYTES",
    b"~",
    b"Get ",
];

fn draw(word: &str, rng: &mut Rng) -> Word {
    // Now and then what is out of place there.
    let any = rng.u8(..12) == 0;
    let of = |list: &[&str], rng: &mut Rng| list[rng.usize(..list.len())].as_bytes().to_vec();
    match word {
        "key" if any => value(rng),
        "key" => KEYS[rng.usize(..KEYS.len())].to_vec(),
        "value" => value(rng),
        "int" if rng.bool() => rng.i64(-1000..1000).to_string().into_bytes(),
        "int" => of(&INTEGERS, rng),
        "float" => of(&FLOATS, rng),
        "index" if any => of(&INTEGERS, rng),
        "index" => rng.i64(-12..12).to_string().into_bytes(),
        "offset" => of(
            &[
                "0",
                "1",
                "5",
                "17",
                "100",
                "3000",
                "-1",
                "1048575",
                "1048576",
                "536870912",
                "4294967296",
                "9223372036854775807",
                "x",
            ],
            rng,
        ),
        "secs" => of(
            &[
                "1000000",
                "5000000",
                "2147483648",
                "0",
                "-1",
                "-5000",
                "9223372036854775",
                "9223372036854776",
                "9223372036854775807",
                "-9223372036854775808",
                "-9223372036854775",
                "007",
                "x",
                "",
                "1e9",
                "9223370000000000",
            ],
            rng,
        ),
        "ms" => of(
            &[
                "1000000",
                "5000000000",
                "0",
                "-1",
                "9223372036854775807",
                "9223372036854775000",
                "-9223372036854775808",
                "x",
                "1.5",
                "9223370000000000000",
            ],
            rng,
        ),
        "at" => of(
            &[
                "1999999999",
                "2999999999",
                "9223372036854775",
                "9223372036854776",
                "9223372036854775807",
                "-1",
                "0",
                "-9223372036854775808",
                "x",
            ],
            rng,
        ),
        "atms" => of(
            &[
                "1999999999000",
                "2999999999123",
                "9223372036854775807",
                "-1",
                "0",
                "x",
                "-9223372036854775808",
            ],
            rng,
        ),
        "pattern" => PATTERNS[rng.usize(..PATTERNS.len())].to_vec(),
        "cursor" if any => of(&["x", "-1", "18446744073709551616", "", "1 ", "007"], rng),
        "cursor" => b"0".to_vec(),
        "count" if any => of(&["0", "-1", "x", "9223372036854775808", "", "010000"], rng),
        "count" => b"10000".to_vec(),
        "type" => of(&["string", "STRING", "list", "hash", "nosuch", ""], rng),
        "proto" => of(&["2", "3", "3", "2", "1", "4", "x", "", "-2", "2 "], rng),
        "name" => NAMES[rng.usize(..NAMES.len())].to_vec(),
        word => word.as_bytes().to_vec(),
    }
}

fn value(rng: &mut Rng) -> Word {
    match rng.u8(..10) {
        0 => INTEGERS[rng.usize(..INTEGERS.len())].into(),
        1 => FLOATS[rng.usize(..FLOATS.len())].into(),
        2 => (0..rng.usize(..80)).map(|_| rng.u8(..)).collect(),
        3 => (0..rng.usize(..60)).map(|_| rng.alphanumeric() as u8).collect(),
        // Beyond what is stored with the object, and beyond a page.
        4 => vec![b'a' + rng.u8(..3); [40, 44, 45, 64, 2100, 3000, 5000][rng.usize(..7)]],
        5 => (0..rng.usize(..30)).map(|_| b'a' + rng.u8(..3)).collect(),
        6 => b"NX".to_vec(),
        _ => rng.i64(-50..1000).to_string().into_bytes(),
    }
}

/// Makes it ill-formed, mostly: words go, come, are twice there, change places, are others.
fn spoil(rng: &mut Rng, words: &mut Vec<Word>) {
    for _ in 0..rng.usize(1..3) {
        let place = rng.usize(..words.len() + 1);
        match rng.u8(..8) {
            0 | 1 if words.len() > 1 => drop(words.remove(place.clamp(1, words.len() - 1))),
            2 => words.insert(place.max(1), value(rng)),
            3 => words.extend((0..rng.usize(1..3)).map(|_| b"extra".to_vec())),
            4 if words.len() > 1 => {
                let word = words[place.clamp(1, words.len() - 1)].clone();
                words.insert(place.max(1), word);
            }
            5 if words.len() > 2 => {
                let (a, b) = (rng.usize(1..words.len()), rng.usize(1..words.len()));
                words.swap(a, b);
            }
            6 if words.len() > 1 => {
                let place = rng.usize(1..words.len());
                words[place] = INTEGERS[rng.usize(..INTEGERS.len())].into();
            }
            _ => {
                let all: [&[u8]; 12] = [
                    b"NX", b"XX", b"EX", b"GET", b"KEEPTTL", b"PERSIST", b"REPLACE", b"MATCH",
                    b"LEN", b"GT", b"", b"1",
                ];
                words.insert(place.max(1), all[rng.usize(..all.len())].to_vec());
            }
        }
    }
}
