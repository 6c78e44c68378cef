//! Redis' own tests of its connections, strings, keys and transactions, from the source package of
//! the Debian that this is: what holds with redis holds with this server, but for what is listed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::redis::Redis;
use crate::scene::Server;

mod not_held;

const UNITS: [&str; 14] = [
    "quit",
    "info",
    "keyspace",
    "expire",
    "scan",
    "multi",
    "auth",
    "protocol",
    "limits",
    "introspection",
    "introspection-2",
    "other",
    "type/string",
    "type/incr",
];
/// What its tests ask of the server that neither has here: replicas, DEBUG, files, gigabytes.
const TAGS: &str = "-needs:repl -needs:debug -needs:save -needs:reset -slow -large-memory";

#[test]
#[ignore = "fetches the source of redis: `cargo xtask test long`, after a change to commands or replies"]
fn what_holds_in_the_tests_of_redis_holds_here() {
    let Some(source) = source() else { return };
    let Some(redis) = Redis::start(&[]) else { return };
    let theirs = run(&source, redis.address, &UNITS);
    assert!(theirs.len() > 200, "of redis itself hold only {theirs:?}");
    let listed: BTreeSet<&str> =
        not_held::NOT_HELD.iter().flat_map(|it| it.tests).copied().collect();
    let mut faults = String::new();
    for shards in [1, 2] {
        let of_several = (shards > 1).then_some(&not_held::OF_SEVERAL);
        let start = || Server::start(shards, &["--longest", "8M", "--memory", "1G"]);
        let mut ours = run(&source, start().address, &UNITS);
        let lost_of = |ours: &BTreeSet<String>| -> Vec<String> {
            let lost = theirs
                .iter()
                .filter(|test| !ours.contains(*test) && !listed.contains(&***test))
                .filter(|test| of_several.is_none_or(|it| !it.tests.contains(&&***test)));
            lost.cloned().collect()
        };
        // Redis' tests have times of a second and less in them, which a busy machine does not keep:
        // what does not hold is tried again, twice.
        for _ in 0..2 {
            let lost = lost_of(&ours);
            let units: Vec<&str> = UNITS
                .into_iter()
                .filter(|unit| lost.iter().any(|test| test.starts_with(&format!("{unit}: "))))
                .collect();
            if !units.is_empty() {
                eprintln!("{shards} shards: once more, for {lost:#?}");
                ours.extend(run(&source, start().address, &units));
            }
        }
        let lost = lost_of(&ours);
        let held: Vec<&&str> = listed.iter().filter(|test| ours.contains(**test)).collect();
        eprintln!(
            "{shards} shards: {} of {} hold",
            ours.intersection(&theirs).count(),
            theirs.len()
        );
        if !lost.is_empty() || !held.is_empty() {
            let _ = writeln!(
                faults,
                "with {shards} shards do not hold and are not listed: {lost:#?}\nhold and are listed: {held:#?}"
            );
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// The source, fetched once by apt as the package index of this Debian has it.
fn source() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kv-redis-source");
    let find = || {
        let mut entries = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
        entries.find(|path| path.join("runtest").exists())
    };
    if let Some(source) = find() {
        return Some(source);
    }
    let lists = folder.join("lists");
    fs::create_dir_all(lists.join("partial")).unwrap();
    let archive = Command::new("apt-get")
        .args(["indextargets", "--format", "$(ORIGIN)|$(REPO_URI) $(RELEASE) $(COMPONENT)"])
        .arg("Created-By: Packages")
        .output();
    let archive = archive.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let archive = archive.unwrap_or_default();
    let archive = archive
        .lines()
        .filter_map(|line| line.strip_prefix("Debian|"))
        .find(|line| line.ends_with(" main") && !line.contains('-'));
    let (Some(archive), true) = (archive, has("tclsh")) else {
        eprintln!("passed over: redis' tests need Debian's apt, and package tcl");
        return None;
    };
    let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let list = folder.join("source.list");
    fs::write(&list, format!("deb-src [signed-by={key}] {archive}\n")).unwrap();
    for words in [&["update"][..], &["source", "redis"]] {
        let output = Command::new("apt-get")
            .args(["-o", "Dir::Etc::SourceParts=/dev/null"])
            .args(["-o", &format!("Dir::Etc::SourceList={}", list.display())])
            .args(["-o", &format!("Dir::State::Lists={}", lists.display())])
            .args(words)
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "apt-get {words:?} with deb-src of {archive}: {said}");
    }
    let source = find().expect("the package has redis' tests");
    for program in ["redis-cli", "redis-benchmark"] {
        let _ = symlink(Path::new("/usr/bin").join(program), source.join("src").join(program));
    }
    // What it does between two units, not in a test: this server has no functions to flush.
    // And a test that ends half-way in a transaction is not to take those behind it along.
    let harness = source.join("tests/support/server.tcl");
    let text = fs::read_to_string(&harness).unwrap();
    let text = text.replace("    r function flush\n", "    catch {r function flush}\n");
    let text = text.replace("r config set $param $val\n", "catch {r config set $param $val}\n");
    fs::write(harness, text).unwrap();
    let harness = source.join("tests/support/test.tcl");
    let text = fs::read_to_string(&harness).unwrap();
    let failed = "            incr ::num_failed\n";
    let text = text.replace(failed, &format!("            catch {{r reset}}\n{failed}"));
    fs::write(harness, text).unwrap();
    Some(source)
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

/// The names of the tests that hold.
fn run(source: &Path, at: SocketAddr, units: &[&str]) -> BTreeSet<String> {
    let mut held = BTreeSet::new();
    // One at a time: a unit that a server breaks off takes only itself along.
    for unit in units {
        let output = Command::new("timeout")
            .args(["300", "./runtest", "--host", "127.0.0.1", "--port", &at.port().to_string()])
            .args([
                "--singledb",
                "--durable",
                "--clients",
                "1",
                "--single",
                &format!("unit/{unit}"),
            ])
            .args(["--tags", TAGS])
            .current_dir(source)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let mut cut = String::new();
        for line in text.lines() {
            let line = plain(line);
            if let Some(name) = line.strip_prefix("[ok]: ") {
                let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
                held.insert(format!("{unit}: {name}"));
            } else if ["[err]", "[exc"].iter().any(|sign| line.starts_with(sign)) {
                cut += &format!("    {line}\n");
            }
        }
        if !cut.is_empty() {
            eprint!("{unit}:\n{cut}");
        }
    }
    held
}

/// A line without its colours.
fn plain(line: &str) -> String {
    let mut pieces = line.split('\x1b');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    pieces.for_each(|piece| text += piece.split_once('m').map_or("", |(_, rest)| rest));
    text
}
