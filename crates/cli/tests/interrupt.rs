//! Runs that end early: what was measured until then is kept.

mod common;

use std::process::Child;

use common::{Home, MEASURE, entries, text, wait_until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// Much longer than any test lets it run, with cases that have processes.
const LONG: [&str; 5] = ["measure", "process.", "ipc.", "--time", "600"];

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// The newest run as the list shows it, and its rows.
fn newest(home: &Home) -> (Value, Value) {
    let list = home.json(&["results", "ls", "--json"]);
    let run = list.as_array().unwrap().last().unwrap().clone();
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
    let list = home.json(&["results", "ls", "--json"]);
    let complete: Vec<_> =
        list.as_array().unwrap().iter().map(|run| run["run"]["complete"].clone()).collect();
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
    interrupted(&home, child);
}

#[test]
fn ended_by_sigterm() {
    let home = Home::new();
    let mut child = home.spawn(&LONG);
    home.wait_for_rows(&mut child, 5);
    kill_process(pid(&child), Signal::TERM).unwrap();
    interrupted(&home, child);
}

fn interrupted(home: &Home, child: Child) {
    let output = child.wait_with_output().unwrap();
    let talk = text(output.stderr);
    assert_eq!(output.status.code(), Some(1), "an interrupted run is no success: {talk}");
    assert!(talk.contains("interrupted") && talk.contains("kept as result 1"), "{talk}");
    assert!(text(output.stdout).contains("process.fork"), "what there is is shown");
    wait_until("the run's processes end", || home.processes().is_empty());
    assert_eq!(entries(&home.path("tmp")), Vec::<String>::new(), "no scratch folder is left");
    let (_, shown) = newest(home);
    let skipped = shown["skipped"].as_array().unwrap();
    let blamed = skipped.iter().filter(|s| s["reason"].as_str().unwrap().contains("signal"));
    assert_eq!(blamed.count(), 0, "an interruption is no fault of a case: {skipped:?}");
    kept(home, 5);
}
