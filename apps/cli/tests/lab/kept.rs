//! `kumiki lab up` and what is done with the machine that it starts.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Labs, eventually, text};

/// One machine for all of it: a start is the longest part.
#[test]
fn a_machine_that_stays() {
    let Some(labs) = Labs::new() else { return };
    let (name, _) = labs.gives(0, &["lab", "up", "one", "--memory", "256M"]);
    assert_eq!(name, "one\n");
    it_is_listed(&labs);
    commands_run_in_it(&labs);
    a_clock_that_jumps_moves_no_comparison(&labs);
    input_and_files_go_through(&labs);
    faults_fail_a_command(&labs);
    a_killed_client_takes_its_command_along(&labs);

    let (_, stderr) = labs.gives(2, &["lab", "up", "one"]);
    assert!(stderr.contains("it runs already"), "{stderr}");
    what_is_kept_goes_once_nothing_runs(&labs);
    labs.assert_nothing_is_left();
    let (_, stderr) = labs.gives(2, &["lab", "down", "one"]);
    assert!(stderr.contains("there is none of this name"), "{stderr}");
}

#[test]
fn a_machine_that_ended_by_itself_is_shown_and_removed() {
    let Some(labs) = Labs::new() else { return };
    labs.gives(0, &["lab", "up"]);
    let (_, stderr) =
        labs.gives(2, &["lab", "exec", "--", "sh", "-c", "echo c >/proc/sysrq-trigger"]);
    assert!(stderr.contains("sysrq triggered crash"), "{stderr}");
    eventually("its end is seen", || labs.gives(0, &["lab", "ls"]).0.contains("ended"));
    let (_, stderr) = labs.gives(2, &["lab", "exec", "--", "true"]);
    assert!(stderr.contains("it has ended"), "{stderr}");
    let (log, _) = labs.gives(0, &["lab", "logs"]);
    assert!(log.contains("sysrq triggered crash"), "{log}");
    let (all, _) = labs.gives(0, &["lab", "down", "--all"]);
    assert_eq!(all, "lab\n");
    labs.assert_nothing_is_left();
}

#[test]
fn an_interrupted_start_leaves_no_machine() {
    let Some(labs) = Labs::new() else { return };
    let mut up = labs.command(&["lab", "up", "two"]).spawn().unwrap();
    eventually("its keeper begins", || labs.folders() == ["two"]);
    let (_, stderr) = labs.gives(2, &["lab", "up", "two"]);
    assert!(stderr.contains("it is being started"), "{stderr}");
    kill_process(Pid::from_child(&up), Signal::TERM).unwrap();
    assert!(!up.wait().unwrap().success());
    eventually("its keeper ends", || labs.folders().is_empty());
    labs.assert_nothing_is_left();
}

/// Of a cache of its own: the others go on.
fn what_is_kept_goes_once_nothing_runs(labs: &Labs) {
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("kumiki/lab/packages/p");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, vec![1; 3 << 20]).unwrap();
    let clean = || {
        let command = &mut labs.command(&["lab", "clean"]);
        let output = command.env("XDG_CACHE_HOME", kept.path()).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, said) = clean();
    assert!(code == Some(2) && said.contains("one") && said.contains("kumiki lab down"), "{said}");
    assert!(file.exists());
    labs.gives(0, &["lab", "down", "one"]);
    // One that has ended.
    fs::create_dir(labs.runtime.path().join("kumiki-lab/two")).unwrap();
    let (code, machines, said) = clean();
    assert!(
        code == Some(0) && machines == "two\n" && said.contains("3.01 MiB in "),
        "{machines}{said}"
    );
    assert!(!kept.path().join("kumiki/lab").exists());
}

fn it_is_listed(labs: &Labs) {
    let (list, _) = labs.gives(0, &["lab", "ls", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list[0]["name"], "one");
    assert_eq!(list[0]["running"], true);
    assert_eq!(list[0]["memory_bytes"], 256 << 20);
    let (table, _) = labs.gives(0, &["lab", "ls"]);
    assert!(table.contains("running") && table.contains("MiB"), "{table}");
    let (log, _) = labs.gives(0, &["lab", "logs", "one"]);
    assert!(log.contains("Linux version"), "{log}");
}

fn commands_run_in_it(labs: &Labs) {
    for code in [0, 1, 7, 255] {
        labs.gives(code, &["lab", "exec", "one", "--", "sh", "-c", &format!("exit {code}")]);
    }
    let script = "echo $GREETING; echo error >&2";
    let words = ["lab", "exec", "one", "--env", "GREETING=hello you", "--", "sh", "-c", script];
    let (stdout, stderr) = labs.gives(0, &words);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("hello you\n", "error\n"));
    let (_, stderr) = labs.gives(127, &["lab", "exec", "one", "--", "no-such-program"]);
    assert!(stderr.contains("no-such-program"), "{stderr}");
    let (_, stderr) =
        labs.gives(2, &["lab", "exec", "one", "--timeout", "1", "--", "sleep", "1000"]);
    assert!(stderr.contains("took more than 1 s"), "{stderr}");
    let (_, stderr) = labs.gives(2, &["lab", "console", "one"]);
    assert!(stderr.contains("no terminal"), "{stderr}");
}

/// Each run of A sets the clock decades ahead, each of B back.
fn a_clock_that_jumps_moves_no_comparison(labs: &Labs) {
    let ab = ["lab", "exec", "one", "--", "kumiki", "ab", "--pairs", "6", "--all", "--json"];
    let jumps = ["--", "date", "-s", "@1900000000", "---", "date", "-s", "@1000000000"];
    let (outcome, _) = labs.gives(3, &[&ab[..], &jumps].concat());
    let outcome: serde_json::Value = serde_json::from_str(&outcome).unwrap();
    let pairs = outcome["pairs"].as_array().unwrap();
    assert_eq!((pairs.len(), &outcome["pairs_counted"]), (6, &6.into()), "{outcome}");
    for run in pairs.iter().flat_map(|pair| pair.as_array().unwrap()) {
        let wall = run["wall_ns"].as_f64().unwrap();
        assert!(run["end"] == "success" && 0.0 < wall && wall < 60e9, "{run}");
    }
    let slept = outcome["notes"].as_array().unwrap().iter().any(|note| note["note"] == "slept");
    assert!(!slept, "{outcome}");
}

fn input_and_files_go_through(labs: &Labs) {
    let bytes: Vec<u8> = (0..500_000_u32).map(|i| (i * 31 + i / 253) as u8).collect();
    let mut command = labs.command(&["lab", "exec", "one", "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writing = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    assert!(child.wait_with_output().unwrap().stdout == bytes);
    writing.join().unwrap();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("name");
    fs::write(&file, &bytes).unwrap();
    let put = format!("{}:/tmp/there", file.display());
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let get = format!("copy:{}", out.display());
    let copy = ["--", "cp", "/tmp/there", "copy"];
    let words = [&["lab", "exec", "one", "--in", &put, "--out", &get], &copy[..]].concat();
    labs.gives(0, &words);
    assert!(fs::read(out.join("copy")).unwrap() == bytes);
}

fn faults_fail_a_command(labs: &Labs) {
    let script = "echo '<4>WARNING: CPU: 0 PID: 1 at nowhere' > /dev/kmsg; echo done";
    let (stdout, stderr) = labs.gives(2, &["lab", "exec", "one", "--", "sh", "-c", script]);
    assert_eq!(stdout, "done\n");
    assert!(stderr.contains("WARNING: CPU: 0 PID: 1 at nowhere"), "{stderr}");
    labs.gives(0, &["lab", "exec", "one", "--", "true"]);
}

fn a_killed_client_takes_its_command_along(labs: &Labs) {
    let mut client = labs.command(&["lab", "exec", "one", "--", "sleep", "4321"]).spawn().unwrap();
    let sleeps = || {
        let output = labs.kumiki(&["lab", "exec", "one", "--", "ps", "-o", "args"]);
        text(&output.stdout).contains("sleep 4321")
    };
    eventually("the command begins", sleeps);
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("the command ends", || !sleeps());
}
