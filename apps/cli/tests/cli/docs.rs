//! Help, man pages and completions: all of the one definition.

use std::fs;
use std::path::Path;

use glob::Pattern;

use crate::common::{Home, entries};

const VERBS: [&[&str]; 25] = [
    &["measure"],
    &["measure", "ls"],
    &["measure", "many"],
    &["many"],
    &["results"],
    &["results", "ls"],
    &["results", "show"],
    &["results", "export"],
    &["results", "trend"],
    &["results", "import"],
    &["results", "rm"],
    &["compare"],
    &["report"],
    &["doctor"],
    &["lab"],
    &["lab", "run"],
    &["lab", "up"],
    &["lab", "exec"],
    &["lab", "console"],
    &["lab", "logs"],
    &["lab", "down"],
    &["lab", "ls"],
    &["lab", "fetch"],
    &["man"],
    &["completions"],
];

#[test]
fn every_verb_has_help() {
    let home = Home::new();
    let all = home.prints(&["--help"]);
    assert!(all.contains("Exit status: 0 fine, 1 a negative result"));
    for verb in VERBS {
        let help = home.prints(&[verb, &["--help"]].concat());
        assert!(help.contains(&format!("Usage: kumiki {}", verb.join(" "))), "{help}");
        assert!(verb.len() > 1 || all.contains(verb[0]));
    }
    let report = home.prints(&["report", "--help"]);
    assert!(report.contains("Each WORD is a result if it is a number"), "{report}");
    let results = home.prints(&["results", "--help"]);
    assert!(results.contains("`@NAME`") && results.contains("references/README.md"), "{results}");
    assert!(home.prints(&["--version"]).starts_with("kumiki "));
    home.refuses(&[], &["Usage: kumiki"]);
    home.refuses(&["maesure"], &["maesure", "measure"]);
}

#[test]
fn shells_complete_every_verb() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.prints(&["completions", shell]);
        for word in VERBS.concat() {
            assert!(script.contains(word), "{word} for {shell}");
        }
        assert!(script.contains("threshold"), "options too");
        // Where the shell is there it must be able to read the script.
        home.write(shell, &script);
        if let Ok(checked) = home.run_by(shell, &["-n", shell]).output() {
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        }
    }
    home.refuses(&["completions", "csh"], &["csh", "bash", "fish", "zsh"]);
}

/// What Debian's packages are made of: the file that says so, and a pattern of it.
fn installed() -> Vec<(String, Pattern)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../debian"));
    let mut all = Vec::new();
    for name in entries(folder).into_iter().filter(|name| name.ends_with(".install")) {
        for line in fs::read_to_string(folder.join(&name)).unwrap().lines() {
            let what = line.split(' ').next().unwrap();
            all.push((name.clone(), Pattern::new(what).unwrap()));
        }
    }
    all
}

#[test]
fn every_verb_has_a_man_page() {
    let home = Home::new();
    let page = home.prints(&["man"]);
    assert!(page.contains(".TH kumiki 1"));
    for verb in VERBS.iter().filter(|verb| verb.len() == 1) {
        assert!(page.contains(&format!("kumiki\\-{}(1)", verb[0])), "{verb:?}");
    }
    home.prints(&["man", "--dir", "pages"]);
    let pages = entries(&home.path("pages"));
    for verb in VERBS {
        let name = format!("kumiki-{}.1", verb.join("-"));
        assert!(pages.contains(&name), "{name} in {pages:?}");
    }
    for page in &pages {
        let path = format!("usr/share/man/man1/{page}");
        let of = installed().into_iter().filter(|(_, pattern)| pattern.matches(&path));
        let of: Vec<_> = of.map(|(package, _)| package).collect();
        assert_eq!(of, ["kumiki.install"], "{page}: what dpkg-buildpackage does not find ends it");
    }
    home.write("file", "");
    home.refuses(&["man", "--dir", "file/pages"], &["file/pages"]);
}
