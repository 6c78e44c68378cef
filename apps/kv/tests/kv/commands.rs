//! Redis' own list of its commands: each of the groups that this server has is there, or stands
//! with a reason on its page.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use kumiki_kv::commands::{Run, all};

use crate::differ::frame::{Frame, frame};
use crate::redis::Redis;

/// The groups, by Redis' names.
const GROUPS: [&str; 4] = ["connection", "generic", "string", "transactions"];
/// Head of the page's list of what is not there.
const HEAD: &str = "| not there | why |\n|---|---|\n";

/// Names of this server's commands and subcommands.
fn ours() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for row in all() {
        names.insert(row.name.to_owned());
        if let Run::Group(rows) = row.run {
            names.extend(rows.iter().map(|row| row.name.to_owned()));
        }
    }
    names
}

/// What the page says is not there, by names as Redis has them, and why.
fn not_there() -> BTreeMap<String, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/kv.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, list) = page.split_once(HEAD).expect("the page lists what is not there");
    let lines = list.lines().take_while(|line| line.starts_with("| "));
    let cells = lines.map(|line| line.trim_matches(['|', ' ']).split_once(" | ").unwrap());
    cells.map(|(name, why)| (name.to_lowercase().replace(' ', "|"), why.to_owned())).collect()
}

/// The answer to COMMAND DOCS, as it comes.
fn docs(at: SocketAddr) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"COMMAND DOCS\r\nQUIT\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn text(frame: &Frame<'_>) -> String {
    String::from_utf8_lossy(frame.text.unwrap_or_default()).into_owned()
}

/// Adds the names of those groups, and of their subcommands.
fn names(list: &Frame<'_>, found: &mut BTreeSet<String>) {
    for pair in list.parts.chunks(2) {
        let [name, docs] = pair else { panic!("a name without what is said of it") };
        let about = |what: &str| {
            docs.parts.chunks(2).find(|pair| text(&pair[0]) == what).map(|pair| &pair[1])
        };
        if about("group").is_some_and(|group| GROUPS.contains(&&*text(group))) {
            found.insert(text(name));
        }
        if let Some(below) = about("subcommands") {
            names(below, found);
        }
    }
}

#[test]
fn each_command_of_redis_in_these_groups_is_there_or_the_page_says_why_not() {
    let Some(redis) = Redis::start(&[]) else { return };
    if redis.release() < (7, 0) {
        return eprintln!("passed over: {redis:?} has no COMMAND DOCS");
    }
    let bytes = docs(redis.address);
    let (mut theirs, mut rest) = (BTreeSet::new(), &bytes[..]);
    names(&frame(&mut rest).expect("a whole answer"), &mut theirs);
    assert!(theirs.len() > 80 && theirs.contains("client|list"), "{theirs:?}");
    let (ours, not_there) = (ours(), not_there());
    let missing: Vec<_> = theirs
        .iter()
        .filter(|name| !ours.contains(*name) && !not_there.contains_key(*name))
        .collect();
    assert!(
        missing.is_empty(),
        "{redis:?} has {missing:?}: give them a row in the table, or one with a reason in \
         docs/design/kv.md"
    );
}

#[test]
fn what_the_page_says_is_not_there_is_not() {
    let (ours, not_there) = (ours(), not_there());
    assert!(not_there.len() >= 5, "{not_there:?}");
    for (name, why) in not_there {
        assert!(!ours.contains(&name), "{name} is there");
        assert!(why.len() > 5, "{name}: {why:?}");
    }
}
