//! Runs that end early: what was measured until then is kept.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use crate::common::{Home, MEASURE, entries, text, wait_until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// Much longer than any test lets it run, with cases that have processes.
const LONG: [&str; 5] = ["measure", "process.", "ipc.", "--time", "600"];

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// The newest run as the list shows it, and its rows.
fn newest(home: &Home) -> (Value, Value) {
    let run = home.runs().pop().unwrap();
    (run, home.json(&["results", "show", "latest", "--json"]))
}

/// What an unfinished run holds is all there, and another one goes on from it.
fn kept(home: &Home, at_least: u64) {
    let (listed, shown) = newest(home);
    assert_eq!(listed["run"]["complete"], false);
    assert_eq!(shown["run"]["complete"], false);
    let rows = shown["rows"].as_array().unwrap();
    assert!(rows.len() as u64 >= at_least, "{} rows", rows.len());
    assert_eq!(listed["rows"], rows.len());
    assert!(home.prints(&["results", "ls"]).contains("unfinished"));
    home.prints(&["report", "latest", "-o", "page.html"]);

    home.prints(&MEASURE);
    let complete: Vec<_> = home.runs().iter().map(|run| run["run"]["complete"].clone()).collect();
    assert_eq!(complete, [false, true]);
}

#[test]
fn killed_in_the_middle() {
    let home = Home::new();
    let mut child = home.spawn(&LONG);
    home.wait_for_rows(&mut child, 5);
    kill_process(pid(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    kept(&home, 5);
    wait_until("the killed run's processes end", || home.processes().is_empty());
}

/// Ctrl-C reaches every process of the foreground group.
#[test]
fn interrupted_by_ctrl_c() {
    let home = Home::new();
    let mut child = home.spawn(&LONG);
    home.wait_for_rows(&mut child, 5);
    kill_process_group(pid(&child), Signal::INT).unwrap();
    interrupted(&home, child, 130);
}

/// The page of what there is is written, and the answer given.
#[test]
fn a_report_interrupted_by_ctrl_c() {
    let home = Home::new();
    let mut child = home.spawn(&["report", "process.", "--time", "600", "-o", "page.html"]);
    home.wait_for_rows(&mut child, 3);
    kill_process_group(pid(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (answer, talk) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(130), "{talk}");
    assert!(answer.contains("Interrupted") && answer.contains("page.html"), "{answer}");
    assert!(home.path("page.html").is_file());
}

/// A second one does not wait for the visit in progress, nor for the page.
#[test]
fn a_second_ctrl_c_ends_at_once() {
    let home = Home::new();
    let mut child = home.spawn(&LONG);
    home.wait_for_rows(&mut child, 3);
    kill_process_group(pid(&child), Signal::INT).unwrap();
    // Both may find the run at its end; the first one then decides alike.
    let _ = kill_process_group(pid(&child), Signal::INT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    wait_until("the run's processes end", || home.processes().is_empty());
    assert_eq!(entries(&home.path("tmp")), Vec::<String>::new(), "no scratch folder is left");
}

/// What nohup(1) started goes on when the terminal hangs up.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let home = Home::new();
    let nohup = ["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_kumiki")];
    let mut command = home.run_by("sh", &[&nohup[..], &LONG].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    home.wait_for_rows(&mut child, 3);
    let (before, group) = (home.rows(), pid(&child));
    kill_process_group(group, Signal::HUP).unwrap();
    home.wait_for_rows(&mut child, before + 3);
    kill_process_group(group, Signal::TERM).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
}

/// Commands that do not measure end as any program does.
#[test]
fn what_does_not_measure_is_ended_by_the_signal() {
    use std::os::unix::process::ExitStatusExt;
    let home = Home::new();
    // It waits for its input for ever.
    let fifo = home.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let child = home.spawn(&["compare", fifo.to_str().unwrap(), "latest"]);
    let waits = || {
        let stat = format!("/proc/{}/stat", child.id());
        std::fs::read_to_string(stat).is_ok_and(|stat| stat.contains(" (kumiki) S "))
    };
    wait_until("it waits", waits);
    kill_process_group(pid(&child), Signal::INT).unwrap();
    let status = child.wait_with_output().unwrap().status;
    assert_eq!(status.signal(), Some(2), "a shell says 130: {status}");
}

#[test]
fn ended_by_sigterm() {
    let home = Home::new();
    let mut child = home.spawn(&LONG);
    home.wait_for_rows(&mut child, 5);
    kill_process(pid(&child), Signal::TERM).unwrap();
    interrupted(&home, child, 143);
}

fn interrupted(home: &Home, child: Child, status: i32) {
    let output = child.wait_with_output().unwrap();
    let talk = text(output.stderr);
    assert_eq!(output.status.code(), Some(status), "as a shell names the signal: {talk}");
    assert!(talk.contains("interrupted") && talk.contains("kept as result 1"), "{talk}");
    let shown = text(output.stdout);
    assert!(shown.contains("process.fork"), "what there is is shown");
    assert!(shown.contains("Interrupted; until then: ") && shown.contains("result 1: "), "{shown}");
    wait_until("the run's processes end", || home.processes().is_empty());
    assert_eq!(entries(&home.path("tmp")), Vec::<String>::new(), "no scratch folder is left");
    let (_, shown) = newest(home);
    let skipped = shown["skipped"].as_array().unwrap();
    let blamed = skipped.iter().filter(|s| s["reason"].as_str().unwrap().contains("signal"));
    assert_eq!(blamed.count(), 0, "an interruption is no fault of a case: {skipped:?}");
    kept(home, 5);
}
