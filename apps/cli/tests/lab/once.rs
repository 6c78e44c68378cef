//! `kumiki lab run`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Labs, eventually, is_there, text};

#[test]
fn doctor_gives_its_output_and_exit_code() {
    let Some(labs) = Labs::new() else { return };
    labs.assert_nothing_is_left();
    let (doctor, _) = labs.gives(0, &["lab", "run", "--", "kumiki", "doctor", "--json"]);
    let findings: serde_json::Value = serde_json::from_str(&doctor).unwrap();
    let pages = |finding: &&serde_json::Value| finding["thing"] == "transparent huge pages";
    assert!(findings.as_array().unwrap().iter().find(pages).is_some(), "{doctor}");
    let (_, stderr) = labs.gives(2, &["lab", "run", "--", "kumiki", "doctor", "--jsin"]);
    assert!(stderr.contains("--jsin"), "{stderr}");
    labs.assert_nothing_is_left();
}

#[test]
fn a_panic_is_reported_with_the_logs_end() {
    let Some(labs) = Labs::new() else { return };
    // It ends once its word has arrived: of what stops at once nobody knows what it still says.
    let crash = "echo before; read arrived; echo c > /proc/sysrq-trigger";
    let mut command = labs.command(&["lab", "run", "--", "sh", "-c", crash]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    child.stdin.take().unwrap().write_all(b"it has\n").unwrap();
    said.read_to_string(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), &*line), (Some(2), "before\n"), "{stderr}");
    assert!(stderr.contains("Kernel panic - not syncing: sysrq triggered crash"), "{stderr}");
    assert!(stderr.contains("the end of its kernel log:\n"), "{stderr}");
    let kept = stderr.lines().find_map(|line| line.split_once("is kept in "));
    assert!(is_there(kept.expect("the log is kept").1), "{stderr}");
    labs.assert_nothing_is_left();
}

#[test]
fn two_labs_run_at_once() {
    let Some(labs) = Labs::new() else { return };
    let start = |word: &str| {
        let mut command = labs.command(&["lab", "run", "--cpus", "1", "--", "echo", word]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let both = [start("one"), start("two")];
    let said = both.map(|child| text(&child.wait_with_output().unwrap().stdout));
    assert_eq!(said, ["one\n", "two\n"]);
    labs.assert_nothing_is_left();
}

#[test]
fn no_qemu_outlives_a_killed_kumiki() {
    let Some(labs) = Labs::new() else { return };
    for (signal, leaves) in [(Signal::KILL, true), (Signal::INT, false), (Signal::TERM, false)] {
        let mut child = labs.command(&["lab", "run", "--", "sleep", "1000"]).spawn().unwrap();
        eventually("QEMU starts", || labs.processes() > 0);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success());
        eventually("QEMU ends", || labs.processes() == 0);
        if !leaves {
            assert_eq!(labs.folders().len(), 0, "{signal:?}");
        }
        // The next lab removes what a killed one could not.
        let _ = labs.gives(0, &["lab", "ls"]);
        assert_eq!(labs.folders().len(), 0, "{signal:?}");
    }
}

#[test]
fn bad_words_are_refused_without_a_machine() {
    let labs = Labs { runtime: tempfile::tempdir().unwrap() };
    let (_, stderr) = labs.gives(2, &["lab", "run", "--kernel", "2.6", "--", "true"]);
    assert!(stderr.contains("`2.6`") && stderr.contains("6.12-cloud"), "{stderr}");
    let (_, stderr) = labs.gives(2, &["lab", "run", "true"]);
    assert!(stderr.contains("-- <COMMAND>"), "{stderr}");
    let (_, stderr) = labs.gives(2, &["lab", "run", "--env", "A", "--", "true"]);
    assert!(stderr.contains("NAME=VALUE"), "{stderr}");
    let (_, stderr) = labs.gives(2, &["lab", "run", "--in", "a:", "--", "true"]);
    assert!(stderr.contains("a path is expected"), "{stderr}");
    let (_, stderr) = labs.gives(2, &["lab", "exec", "nobody", "--", "true"]);
    assert!(stderr.contains("`nobody`") && stderr.contains("kumiki lab up"), "{stderr}");
    let (_, stderr) = labs.gives(2, &["lab", "down", "../x"]);
    assert!(stderr.contains("a name has"), "{stderr}");
    // Without QEMU it says what to install.
    let output = labs.command(&["lab", "run", "--", "true"]).env("PATH", "/nowhere").output();
    let stderr = text(&output.unwrap().stderr);
    assert!(stderr.contains("/nowhere") && stderr.contains("apt-get install qemu"), "{stderr}");
}

#[test]
fn without_network_a_lab_says_what_it_lacks() {
    let labs = Labs { runtime: tempfile::tempdir().unwrap() };
    let cache = tempfile::tempdir().unwrap();
    // The folder with apt's programs stays; a proxy that is not there stands
    // for a network that is not there.
    let output = labs
        .command(&["lab", "run", "--", "true"])
        .env("XDG_CACHE_HOME", cache.path())
        .env("http_proxy", "http://127.0.0.1:9")
        .env("https_proxy", "http://127.0.0.1:9")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    if stderr.contains("qemu-system-x86_64") {
        return eprintln!("skipped: {stderr}");
    }
    assert!(stderr.contains("cannot be had"), "{stderr}");
    assert!(stderr.contains(cache.path().to_str().unwrap()), "where it looked: {stderr}");
}
