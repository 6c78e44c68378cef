//! What is printed arrives, or the command says that it did not; and nothing is made
//! where nobody asked for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use crate::common::{Home, MEASURE, entries, text};

/// Where standard output goes that goes nowhere, and the exit status then.
const NOWHERE: [(&str, i32); 3] =
    [(">&-", 2), (">/dev/full", 2), ("a pipe that nobody reads", 141)];

const KUMIKI: &str = env!("CARGO_BIN_EXE_kumiki");
/// Programs beside the command.
const OTHERS: [&str; 2] =
    [env!("CARGO_BIN_EXE_kumiki-noded"), env!("CARGO_BIN_EXE_kumiki-node-agent")];

/// What each command prints is tried by these words, `NAME` being a result's name.
const PRINTS: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "measure"],
    &["measure", "entry.", "--quick", "--time", "1", "--json"],
    &["measure", "entry.", "--quick", "--time", "1"],
    &["measure", "ls"],
    &["measure", "ls", "--json"],
    &["results"],
    &["results", "ls"],
    &["results", "ls", "--json"],
    &["results", "show", "NAME"],
    &["results", "export", "NAME"],
    &["results", "export", "NAME", "-o", "-"],
    &["results", "export", "NAME", "-o", "/dev/stdout"],
    &["results", "trend", "entry."],
    &["compare", "NAME", "NAME"],
    &["compare", "NAME", "NAME", "--json"],
    &["report", "NAME"],
    &["report", "NAME", "-o", "-"],
    &["ab", "--pairs", "2", "--json", "--", "true", "---", "true"],
    &["doctor"],
    &["doctor", "--json"],
    &["lab", "ls"],
    &["resource", "ls", "--json"],
    &["node", "rollout", "status"],
    &["node", "rollout", "status", "--json"],
    &["man"],
    &["completions", "bash"],
];

/// Commands of a place of this machine, `PLACE` being its name and `NEW` a name that nothing has yet.
const OF_A_PLACE: &[&[&str]] = &[
    &["resource", "ls"],
    &["resource", "ls", "PLACE/**"],
    &["resource", "ls", "--json"],
    &["resource", "top", "--count", "1"],
    &["resource", "create", "PLACE/counter/NEW", "1"],
    &["resource", "call", "PLACE/counter/hits", "add", "1"],
    &["run", "PLACE", "--", "echo", "text"],
];

/// A place that is served says so.
const SERVES: &[&[&str]] = &[&["place", "serve", "--host", "web"]];

/// Commands, each by its whole name, whose output is tried elsewhere or not at all, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("ahead", "prints nothing of its own to standard output"),
    ("duel", "needs two machines of the lab"),
    ("image add", "prints nothing"),
    ("image evict", "needs the module osnode"),
    ("image load", "needs the module osnode"),
    ("image ls", "needs the module osnode"),
    ("image rm", "prints nothing"),
    ("image save", "prints nothing"),
    ("image verify", "needs the module osnode"),
    ("lab clean", "prints nothing"),
    ("lab console", "is a shell of a machine"),
    ("lab down", "prints nothing"),
    ("lab exec", "passes what a command in a machine prints"),
    ("lab fetch", "downloads kernels"),
    ("lab logs", "needs a machine"),
    ("lab run", "passes what a command in a machine prints"),
    ("lab up", "starts a machine"),
    ("many", "needs four cpus: the crate's own tests have it on fewer"),
    ("measure many", "needs four cpus"),
    ("node apply", "needs the module osnode"),
    ("node balance", "needs the module osnode"),
    ("node console", "needs a node"),
    ("node cp", "needs a node"),
    ("node create", "prints nothing"),
    ("node delegate", "prints nothing"),
    ("node device add", "prints nothing"),
    ("node device ls", "needs a node"),
    ("node device rm", "prints nothing"),
    ("node exec", "needs a node"),
    ("node idle", "needs a node"),
    ("node kill", "prints nothing"),
    ("node logs", "needs a node"),
    ("node ls", "needs the module osnode"),
    ("node net down", "prints nothing"),
    ("node net up", "prints nothing"),
    ("node plan", "needs the module osnode"),
    ("node restart", "prints nothing"),
    ("node rm", "prints nothing"),
    ("node rollout undo", "needs the module osnode"),
    ("node serve", "prints nothing"),
    ("node set", "needs a node"),
    ("node snapshot", "needs a node"),
    ("node start", "needs a node"),
    ("node stop", "prints nothing"),
    ("node supervise", "prints nothing"),
    ("node top", "needs the module osnode"),
    ("node try-hardware", "needs the module osnode"),
    ("node vsock connect", "needs a node: its output is a stream"),
    ("node vsock listen", "needs a node: its output is a stream"),
    ("node watchman", "prints nothing"),
    ("place attach", "needs a node, or a command that is a stream's other end"),
    ("place lend", "prints nothing"),
    ("place move", "needs a place that moves"),
    ("place relay", "its output is a stream"),
    ("resource rm", "prints nothing"),
    ("resource watch", "waits for news"),
    ("results import", "prints nothing"),
    ("results rm", "prints nothing"),
];

/// Runs a command with its standard output elsewhere.
fn redirected(home: &Home, kumiki: &str, args: &[&str], to: &str) -> Output {
    if to.starts_with('>') {
        let script = format!("exec \"$0\" \"$@\" {to}");
        let words = [&["-c", &script, kumiki], args].concat();
        return at_run(home.run_by("sh", &words), home).output().unwrap();
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = at_run(home.run_by(kumiki, args), home);
    let child = command.stdout(writer).stderr(Stdio::piped()).spawn();
    child.unwrap().wait_with_output().unwrap()
}

/// With sockets of places in a folder of the home.
fn at_run(mut command: Command, home: &Home) -> Command {
    command.env("XDG_RUNTIME_DIR", home.path("run"));
    command
}

/// The commands below this one, by its help.
fn below(home: &Home, command: &[String]) -> Vec<Vec<String>> {
    let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
    words.push("--help");
    let help = home.prints(&words);
    let (mut found, mut is_list) = (Vec::new(), false);
    for line in help.lines() {
        if line.ends_with(':') && !line.starts_with(' ') {
            // Those of `node` stand in groups, each with a heading of its own.
            is_list = line == "Commands:" || command == ["node"] && line != "Options:";
        } else if is_list && line.starts_with("  ") && !line.starts_with("   ") {
            let name = line.split_whitespace().next().filter(|name| *name != "help");
            found.extend(name.map(|name| [command, &[name.to_owned()]].concat()));
        }
    }
    found
}

fn arrives_or_says(home: &Home, args: &[&str]) {
    for (to, status) in NOWHERE {
        says_by(status, to, redirected(home, KUMIKI, args, to), args);
    }
}

/// Checks what a program has said of its output that went there.
fn says_by(status: i32, to: &str, output: Output, args: &[&str]) {
    let said = text(output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?} {to}: {said}");
    assert!(status != 2 || said.contains("standard output"), "{args:?} {to}: {said}");
    assert!(!said.contains("panicked"), "{args:?} {to}: {said}");
}

#[test]
fn the_help_of_every_command_arrives_or_is_an_error_and_every_command_is_tried() {
    let home = Home::new();
    let mut commands = below(&home, &[]);
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        arrives_or_says(&home, &[&words[..], &["--help"]].concat());
        seen += 1;
        let more = below(&home, &command);
        if more.is_empty() {
            let name = words.join(" ");
            let tried = PRINTS.iter().chain(OF_A_PLACE).chain(SERVES);
            let is_tried = tried.into_iter().any(|tried| tried.starts_with(&words));
            let is_elsewhere = NOT_HERE.iter().any(|(other, _)| name == *other);
            assert!(!(is_tried && is_elsewhere), "{name}: it is tried here and said not to be");
            assert!(is_tried || is_elsewhere, "{name}: where its output goes is tried nowhere");
        }
        commands.extend(more);
    }
    assert!(seen > 50, "{seen} commands");
}

#[test]
fn output_that_goes_nowhere_is_an_error() {
    let home = Home::new();
    let name = home.reference();
    for args in PRINTS {
        let args: Vec<&str> =
            args.iter().map(|&word| if word == "NAME" { &name } else { word }).collect();
        arrives_or_says(&home, &args);
    }
    // Nothing was measured where it could be known that nobody reads it: a closed output.
    assert_eq!(home.runs().len(), 4, "to a full device and a pipe one learns only at the end");
}

#[test]
fn output_of_a_place_that_goes_nowhere_is_an_error() {
    let home = Home::new();
    fs::create_dir(home.path("run")).unwrap();
    for args in SERVES {
        arrives_or_says(&home, args);
    }
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap().to_string();
    let rules = "list = true\n[kind.counter]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n\
                 [kind.process]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n";
    let allow = home.write("allow", rules).to_str().unwrap().to_owned();
    let args = ["place", "serve", "--host", "web", "--cpu-list", &cpu, "--allow", &allow];
    let mut serving = at_run(home.start(&args), &home).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let place = format!("web.core{cpu}");
    assert_eq!(line, format!("serving {place}\n"));
    let hits = format!("{place}/counter/hits");
    let made = at_run(home.start(&["resource", "create", &hits, "1"]), &home).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut names = 0;
    for args in OF_A_PLACE {
        for (to, status) in NOWHERE {
            names += 1;
            let new = format!("new{names}");
            let word = |word: &&str| word.replace("PLACE", &place).replace("NEW", &new);
            let args: Vec<String> = args.iter().map(word).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            says_by(status, to, redirected(&home, KUMIKI, &args, to), &args);
        }
    }
    serving.kill().unwrap();
    serving.wait().unwrap();
}

#[test]
fn output_of_programs_beside_the_command_that_goes_nowhere_is_an_error() {
    let home = Home::new();
    for program in OTHERS {
        for (to, status) in NOWHERE {
            let args = ["--version"];
            says_by(status, to, redirected(&home, program, &args, to), &[program]);
        }
    }
}

#[test]
fn numbers_are_apart_by_plain_spaces_where_no_terminal_is() {
    let home = Home::new();
    let name = home.reference();
    for args in [
        &["results", "show", &name, "--verbose"][..],
        &["results"],
        &["compare", &name, &name, "--all"],
        &["report", &name, "--verbose", "-o", "/dev/null"],
    ] {
        let Output { stdout, stderr, .. } = home.start(args).output().unwrap();
        let all = text(stdout) + &text(stderr);
        assert!(!all.contains('\u{202f}'), "{args:?}: {all}");
    }
}

#[test]
fn results_alone_lists_them() {
    let home = Home::new();
    assert_eq!(home.prints(&["results"]), home.prints(&["results", "ls"]));
}

#[test]
fn a_dash_is_standard_output() {
    let home = Home::new();
    let name = home.reference();
    let page = home.prints(&["report", &name, "-o", "-"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "the page alone");
    let to = |args: &[&str]| home.prints(&[&["results", "export", &name], args].concat());
    assert_eq!(to(&["-o", "-"]), to(&[]));
    assert_eq!(entries(&home.path("")), ["tmp"], "no file of that name");
}

#[test]
fn a_home_that_is_not_there_is_not_made() {
    let home = Home::new();
    let nowhere = home.path("nowhere");
    let run = |args: &[&str]| {
        let mut command = home.start(args);
        command.env("HOME", &nowhere).env_remove("XDG_DATA_HOME").output().unwrap()
    };
    for (args, code) in [
        (&["results"][..], 0),
        (&MEASURE, 2),
        (&["results", "show"], 2),
        (&["results", "rm", "1"], 2),
        (&["report", "latest"], 2),
    ] {
        let Output { status, stderr, .. } = run(args);
        let said = text(stderr);
        assert_eq!(status.code(), Some(code), "{args:?}: {said}");
        assert!(code == 0 || said.contains("--db") || said.contains("no results yet"), "{said}");
        assert!(!nowhere.exists(), "{args:?}");
    }
    // Reading makes no database, not even where it could.
    for args in [&["results", "show", "latest"][..], &["results", "rm", "1"], &["report", "1"]] {
        assert!(home.fails(args).contains("no results yet"), "{args:?}");
        assert!(!home.path("data").exists(), "{args:?}");
    }
    assert!(fs::read_dir(home.path("tmp")).unwrap().next().is_none());
}
