//! `kumiki-ab`, the program: its verdict as exit status, and hyperfine's form both ways.
#![cfg(feature = "command")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Exit status, standard output, standard error.
fn ab(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki-ab"));
    let output = command.args(words).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_verdict_is_its_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said, _) = ab(folder.path(), &["--", "sleep", "0.02", "---", "sleep", "0.1"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("B is slower: ") && said.contains("A: sleep 0.02\n"), "{said}");
    let (code, _, said) = ab(folder.path(), &["--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("kumiki-ab: there is one command"), "{said}");
    let (code, said, _) = ab(folder.path(), &["--version"]);
    assert_eq!((code, &*said), (Some(0), concat!("kumiki-ab ", env!("CARGO_PKG_VERSION"), "\n")));
}

#[test]
fn what_it_writes_as_hyperfine_does_it_reads_again() {
    let folder = tempfile::tempdir().unwrap();
    let commands = ["--", "sleep", "0.01", "---", "sleep", "0.05"];
    for (form, runs) in [("hyperfine", "times"), ("hyperfine2", "measurements")] {
        let words = ["--pairs", "8", "--all", "--format", form];
        let (code, said, _) = ab(folder.path(), &[&words[..], &commands[..]].concat());
        assert!(matches!(code, Some(1 | 3)), "{code:?}: {said}");
        let whole: Value = serde_json::from_str(&said).unwrap();
        for (at, name) in ["a.json", "b.json"].iter().enumerate() {
            let side = serde_json::json!({ "results": [whole["results"][at]] });
            assert_eq!(side["results"][0][runs].as_array().unwrap().len(), 8);
            fs::write(folder.path().join(name), side.to_string()).unwrap();
        }
        both_are_read(folder.path());
    }
}

fn both_are_read(folder: &Path) {
    let (code, said, _) = ab(folder, &["--read", "--", "a.json", "---", "b.json"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("8, 8") && said.contains("`kumiki-ab -- A… --- B…`"), "{said}");
}
