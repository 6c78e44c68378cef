//! What these functions ask of the kernel, traced: each call that std's do not make is one that is
//! refused elsewhere here, or stands below with a reason.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use super::{REFUSED, VARIABLE};

/// Conditions under which one side alone is called.
pub(super) const STD: &str = "std-alone";
pub(super) const OURS: &str = "ours-alone";
/// Calls that only ours make and that no filter here refuses.
const OTHERS: &[(&str, &str)] = &[
    ("restart_syscall", "the kernel's own, of a sleep that a tracer has interrupted"),
    ("uname", "rustix takes its answer for granted, and panics where a filter refuses it"),
];
/// Calls that are made only where two threads meet at one thing.
const WHERE_THREADS_MEET: [&str; 1] = ["sched_yield"];

/// Calls of a process of this program under a condition, by all its threads; `None` where nothing
/// can be traced.
fn calls(condition: &str) -> Option<BTreeSet<String>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-o"]).arg(file.path()).arg(env::current_exe().unwrap());
    traced.args(["edges::functions_are_as_std_s_at_their_edges", "--exact", "--nocapture"]);
    let output = match traced.env(VARIABLE, condition).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: strace: {error}");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("ptrace(") || said.contains("PTRACE_") {
        println!("skipped: {said}");
        return None;
    }
    assert!(
        output.status.success(),
        "{condition}: {}{said}",
        String::from_utf8_lossy(&output.stdout)
    );
    let lines = std::fs::read_to_string(file.path()).unwrap();
    // "PID name(…" at its begin, "PID <... name resumed>" at its end.
    let begun = lines.lines().filter_map(|line| line.split_whitespace().nth(1)?.split_once('('));
    Some(begun.map(|(name, _)| name.to_owned()).collect())
}

#[test]
fn each_call_that_std_does_not_make_is_refused_here() {
    let (Some(std), Some(ours)) = (calls(STD), calls(OURS)) else { return };
    assert!(std.len() > 20 && std.contains("openat"), "{std:?}");
    let mut unknown: Vec<_> = ours.difference(&std).map(String::as_str).collect();
    unknown.retain(|name| !REFUSED.iter().any(|(refused, _)| refused == name));
    unknown.retain(|name| !OTHERS.iter().any(|(other, _)| other == name));
    assert!(unknown.is_empty(), "{unknown:?}: refuse them, or say why not");
    let is_made = |name: &str| ours.contains(name) || WHERE_THREADS_MEET.contains(&name);
    let unmade: Vec<_> = REFUSED.iter().filter(|(name, _)| !is_made(name)).collect();
    assert!(unmade.is_empty(), "refused, and never made: {unmade:?}");
}
