//! What is printed arrives, or the command says that it did not; and nothing is made
//! where nobody asked for it.

use std::fs;
use std::process::Output;

use crate::common::{Home, MEASURE, entries, text};

/// A command with its standard output elsewhere.
fn redirected(home: &Home, args: &[&str], to: &str) -> Output {
    let script = format!("exec \"$0\" \"$@\" {to}");
    let words = [&["-c", &script, env!("CARGO_BIN_EXE_kumiki")], args].concat();
    home.run_by("sh", &words).output().unwrap()
}

#[test]
fn output_that_goes_nowhere_is_an_error() {
    let home = Home::new();
    let name = home.reference();
    let json = [&MEASURE[..], &["--json"]].concat();
    let commands: [&[&str]; 21] = [
        &["--help"],
        &["--version"],
        &["help", "measure"],
        &["results", "ls", "--help"],
        &json,
        &MEASURE,
        &["measure", "ls"],
        &["measure", "ls", "--json"],
        &["results"],
        &["results", "ls", "--json"],
        &["results", "show", &name],
        &["results", "export", &name],
        &["results", "export", &name, "-o", "-"],
        &["compare", &name, &name],
        &["compare", &name, &name, "--json"],
        &["report", &name],
        &["report", &name, "-o", "-"],
        &["doctor"],
        &["doctor", "--json"],
        &["man"],
        &["completions", "bash"],
    ];
    for args in commands {
        for to in [">&-", ">/dev/full"] {
            let Output { status, stderr, .. } = redirected(&home, args, to);
            let said = text(stderr);
            assert_eq!(status.code(), Some(2), "{args:?} {to}: {said}");
            assert!(said.contains("standard output"), "{args:?} {to}: {said}");
        }
    }
    // Nothing was measured for nobody.
    assert_eq!(home.runs().len(), 2, "to a full device one learns only at the end");
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
