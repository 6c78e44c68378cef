//! `kumiki-ab`, the program: its verdict as exit status, and hyperfine's form both ways.
#![cfg(feature = "command")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
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

/// Silence would say that nothing has happened.
#[test]
fn a_trace_that_cannot_be_written_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut ab = Command::new(env!("CARGO_BIN_EXE_kumiki-ab"));
    ab.args(["--pairs", "2", "--", "true", "---", "true"]).current_dir(&folder);
    let output = ab.env("KUMIKI_TRACE", "no/where").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let why = if cfg!(feature = "trace") { "no/where" } else { "`trace`" };
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("KUMIKI_TRACE") && said.contains(why), "{said}");
}

#[test]
fn output_that_goes_nowhere_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let ab = env!("CARGO_BIN_EXE_kumiki-ab");
    for words in [
        &["--help"][..],
        &["--version"],
        &["--pairs", "2", "--", "true", "---", "true"],
        &["--pairs", "2", "--json", "--", "true", "---", "true"],
    ] {
        for (to, status) in [(">&-", 2), (">/dev/full", 2), ("a pipe that nobody reads", 141)] {
            let mut command = Command::new(ab);
            if to.starts_with('>') {
                command = Command::new("sh");
                command.args(["-c", &format!("exec \"$0\" \"$@\" {to}"), ab]);
            } else {
                command.stdout(kumiki_sys::descriptors::pipe().unwrap().1);
            }
            let output = command.args(words).current_dir(folder.path()).stderr(Stdio::piped());
            let output = output.spawn().unwrap().wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(status), "{words:?} {to}: {said}");
            assert!(status != 2 || said.contains("standard output"), "{words:?} {to}: {said}");
        }
    }
}

/// A supervisor that ignores its children's ends has whom it starts ignore them, too.
#[test]
fn whoever_starts_it_may_ignore_the_ends_of_children() {
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD").arg(env!("CARGO_BIN_EXE_kumiki-ab"));
    let words = ["--pairs", "12", "--", "true", "---", "sh", "-c", "exit 3"];
    let output = command.args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("B fails") && said.contains("exit status 3"), "{said}");
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

/// Starts it in a process group of its own, as a shell does in the foreground.
fn started(folder: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki-ab"));
    command.args(words).current_dir(folder).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().unwrap()).unwrap()
}

/// Ctrl-C reaches the preparation, too, which is no failure of its.
#[test]
fn ctrl_c_within_a_preparation_keeps_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let line = "echo >> prepared; sleep 0.3";
    let words = ["--prepare", line, "--save", "kept.json", "--", "true", "---", "true"];
    let child = started(folder.path(), &words);
    let prepared =
        || fs::read_to_string(folder.path().join("prepared")).unwrap_or_default().lines().count();
    // Both sides once before the pairs, and two pairs.
    while prepared() < 7 {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process_group(pid(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    let kept: Value =
        serde_json::from_slice(&fs::read(folder.path().join("kept.json")).unwrap()).unwrap();
    assert_eq!(kept["pairs"].as_array().unwrap().len(), 2, "{said}");
}

#[test]
fn a_second_signal_ends_the_command_that_runs_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let line = "echo $$ > pid; exec sleep 47";
    let mut child = started(folder.path(), &["--", "sh", "-c", line, "---", "true"]);
    let file = folder.path().join("pid");
    let running = loop {
        match fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<i32>().ok()) {
            Some(running) => break running,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    kill_process(pid(&child), Signal::TERM).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none(), "the first one waits for the run");
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let is_gone = || {
        let stat = fs::read_to_string(format!("/proc/{running}/stat")).unwrap_or_default();
        !stat.contains("(sleep)") || stat.contains(") Z ")
    };
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while !is_gone() {
        assert!(std::time::Instant::now() < until, "sleep 47 lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_one_side_alone_has_is_told_and_no_clean_bill() {
    let folder = tempfile::tempdir().unwrap();
    let text = |names: &[&str], time: u32| -> String {
        names.iter().map(|name| format!("Benchmark{name}-8 10 {time} ns/op\n")).collect()
    };
    for (side, names) in [("a", &["P", "Q"][..]), ("b", &["P"])] {
        for file in 0..6 {
            fs::write(folder.path().join(format!("{side}{file}")), text(names, 1000 + file))
                .unwrap();
        }
    }
    let files = |side: &str| (0..6).map(|file| format!("{side}{file}")).collect::<Vec<_>>();
    let words = [
        vec!["--read".to_owned(), "--".to_owned()],
        files("a"),
        vec!["---".to_owned()],
        files("b"),
    ]
    .concat();
    let (code, _, said) = ab(folder.path(), &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("Only A has BenchmarkQ-8"), "{said}");
}

#[test]
fn forms_that_an_answer_does_not_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lines"), "true --- true\n").unwrap();
    for words in [
        &["--file", "lines", "--format", "prometheus"][..],
        &["--file", "lines", "--format", "hyperfine"],
        &["--certify", "--for", "1s", "--format", "markdown"],
        &["--read", "--format", "markdown", "--", "lines", "---", "lines"],
    ] {
        let (code, _, said) = ab(folder.path(), words);
        assert!(code == Some(2) && said.contains("has --format text"), "{words:?}: {said}");
    }
}
