//! Tests that need a process of their own, for what they do to it or find in it. Those
//! of other crates use this too.

#![allow(dead_code, reason = "who includes this file may need part of it")]

use std::process::Command;

/// One that takes longer hangs, on however busy a machine.
const PATIENCE_S: u32 = 600;
/// Marks the process that a test has for itself.
const CHILD: &str = "KUMIKI_TEST_CHILD";

/// Runs test `name` again in a process of its own, where `work` is run.
pub(crate) fn in_a_child(name: &str, work: fn()) {
    in_a_child_with([], name, work);
}

/// The same, with more of an environment.
pub(crate) fn in_a_child_with<const N: usize>(
    environment: [(&str, String); N],
    name: &str,
    work: fn(),
) {
    if std::env::var_os(CHILD).is_some() {
        // Ends the process where it hangs.
        end_in(PATIENCE_S);
        return work();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    child.envs(environment);
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{}: {output:?}", output.status);
    said.lines().filter(|line| line.starts_with("skipped")).for_each(|line| println!("{line}"));
}

fn end_in(seconds: u32) {
    // SAFETY: asks for a signal; takes no pointer.
    unsafe { libc::alarm(seconds) };
}
