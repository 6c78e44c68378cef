//! In a node: where its memory runs short, the kernel ends programs, not the processes by which the
//! host reaches them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// File with the score by which it is killed sooner than others, from -1000, never, on.
const SCORE: &str = "/proc/self/oom_score_adj";

/// This process is not ended.
pub(super) fn begin() {
    // Without it the agent is one of many, and is started again.
    let _ = fs::write(SCORE, "-1000");
}

/// The program is, as any other. Before it goes to a root of its own.
pub(super) fn not(command: &mut Command) {
    // Neither a failure nor its want keeps the program from running.
    let step = || {
        let _ = fs::write(SCORE, "0");
        Ok(())
    };
    // SAFETY: between fork and exec this opens, writes and closes a file by a short path, for
    // which the standard library neither allocates nor takes a lock.
    unsafe { command.pre_exec(step) };
}

/// Has this process end as any other, before it becomes somebody else.
pub(super) fn end() {
    let _ = fs::write(SCORE, "0");
}
