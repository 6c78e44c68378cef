//! What is printed arrives, or the command says that it did not; and nothing is made
//! where nobody asked for it.

use std::fs;
use std::process::{Output, Stdio};

use crate::common::{Home, MEASURE, entries, text};

/// Where standard output goes that goes nowhere, and the exit status then.
const NOWHERE: [(&str, i32); 3] =
    [(">&-", 2), (">/dev/full", 2), ("a pipe that nobody reads", 141)];

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
    &["man"],
    &["completions", "bash"],
];

/// Commands that print nothing, or only on a machine that a test has to make; their own tests are
/// elsewhere.
const NOT_HERE: &[(&str, &str)] = &[
    ("results import", "prints nothing"),
    ("results rm", "prints nothing"),
    ("many", "needs four cpus: the crate's own tests have it on fewer"),
    ("measure many", "needs four cpus"),
    ("lab", "needs a virtual machine"),
    ("image", "needs the module osnode"),
    ("node", "needs the module osnode"),
    ("resource", "needs who publishes something"),
    ("place", "serves without an end"),
    ("run", "needs a place: tests/places"),
    ("ahead", "prints nothing of its own to standard output"),
];

/// Runs a command with its standard output elsewhere.
fn redirected(home: &Home, args: &[&str], to: &str) -> Output {
    let kumiki = env!("CARGO_BIN_EXE_kumiki");
    if to.starts_with('>') {
        let script = format!("exec \"$0\" \"$@\" {to}");
        let words = [&["-c", &script, kumiki], args].concat();
        return home.run_by("sh", &words).output().unwrap();
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = home.run_by(kumiki, args).stdout(writer).stderr(Stdio::piped()).spawn();
    child.unwrap().wait_with_output().unwrap()
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
        let output = redirected(home, args, to);
        let said = text(output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?} {to}: {said}");
        assert!(status != 2 || said.contains("standard output"), "{args:?} {to}: {said}");
        assert!(!said.contains("panicked"), "{args:?} {to}: {said}");
    }
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
            let is_tried = PRINTS.iter().any(|tried| tried.starts_with(&words));
            let is_elsewhere = NOT_HERE
                .iter()
                .any(|(other, _)| name == *other || name.starts_with(&format!("{other} ")));
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
