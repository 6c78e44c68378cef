//! The error of a node that does not do what was waited for.

use std::time::Duration;

use crate::Error;
use crate::early;
use crate::module::abi;
use crate::stages::{self, STAMPS};
use crate::window::{Window, has_ended, meaning};

/// Lines of its log that the error shows.
const LOG_LINES: usize = 12;

/// Text about a kernel that measured its timer while its cpu stood still.
const NO_TIMER: &str = ", by which it has no timer and waits for ever: its cpu stood still while \
                        it measured the timer's rate, as happens where an emulator or hypervisor \
                        is short of cpus; start the node again";

/// Error for a node that has not become ready, slept or ended in time, with the end of its log, or
/// with the log in its memory that the kernel has not come to hand over. One that has ended, by its
/// word or by a panic in its memory, is not said to have been waited for.
pub fn silent(
    name: &str,
    window: &Window,
    early: &[String],
    what: &'static str,
    limit: Duration,
) -> Error {
    let log = String::from_utf8_lossy(&window.log()).into_owned();
    let lines: Vec<&str> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    let log = if !last.is_empty() {
        format!("; the end of its log:\n  {}", last.join("\n  "))
    } else if !early.is_empty() {
        let telling = early::telling(early, LOG_LINES).join("\n  ");
        let timer = if early::has_no_timer(early) { NO_TIMER } else { "" };
        format!("; it handed no log over, and in its memory is this one{timer}:\n  {telling}")
    } else {
        ", and it wrote no log".to_owned()
    };
    let word = match window.word() {
        abi::WORD_SILENT => "nothing",
        word => meaning(word),
    };
    let reached = stages::reached(STAMPS.map(|stamp| window.stamp(stamp)));
    let name = name.to_owned();
    if has_ended(window.word()) {
        return Error::Ended { name, word: format!("{word}, {reached}"), log };
    }
    Error::Silent { name, what, limit, word: format!("{word}, {reached}"), log }
}

/// Error for a node whose kernel has panicked before its module could say so.
pub fn panicked(name: &str, window: &Window, early: &[String]) -> Error {
    let reached = stages::reached(STAMPS.map(|stamp| window.stamp(stamp)));
    let log = format!(":\n  {}", early::telling(early, LOG_LINES).join("\n  "));
    Error::Ended { name: name.to_owned(), word: format!("panic, {reached}"), log }
}
