//! Exit status of a command that could not be started elsewhere, as a shell gives it.

use std::io;

use anyhow::{Error, Result};
use kumiki_node::{ErrorKind, Subject};
use kumiki_sys::sentence::with_causes;

use crate::{Verdict, failure};

/// Status of a program that is not found (POSIX, "Exit Status for Commands").
const NOT_FOUND: u8 = 127;
/// Found, and not one to execute.
const NOT_EXECUTABLE: u8 = 126;

/// Says why a command was not started here, with that status.
pub(crate) fn here(error: &io::Error, word: &str) -> Result<Verdict> {
    let status = error.raw_os_error().and_then(by_number);
    said(Error::msg(format!("{word}: {error}")), status)
}

/// Says why one was not started in a node, with that status; other errors go on.
pub(crate) fn in_node(error: Error) -> Result<Verdict> {
    let refused = error.downcast_ref::<kumiki_node::Error>();
    let status = match refused.map(|refused| (refused.kind(), refused.subject())) {
        Some((ErrorKind::NotFound, Some(Subject::Program(_)))) => Some(NOT_FOUND),
        Some((_, Some(Subject::Program(_)))) => Some(NOT_EXECUTABLE),
        _ => None,
    };
    said(error, status)
}

/// Says why one was not started at a place, with that status; other errors go on.
pub(crate) fn at_place(error: Error, word: &str) -> Result<Verdict> {
    let status = by_text(&with_causes(error.as_ref()), word);
    said(error, status)
}

fn said(error: Error, status: Option<u8>) -> Result<Verdict> {
    let Some(status) = status else { return Err(error) };
    failure::tell(&error);
    Ok(Verdict::Exit(status))
}

fn by_number(number: i32) -> Option<u8> {
    match rustix::io::Errno::from_raw_os_error(number) {
        rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => Some(NOT_FOUND),
        rustix::io::Errno::ACCESS | rustix::io::Errno::NOEXEC => Some(NOT_EXECUTABLE),
        _ => None,
    }
}

/// The status for a place's refusal to start `word`, where it is known why: its text, which is all
/// that comes from there, ends with the command's name and the system's own words for it.
fn by_text(text: &str, word: &str) -> Option<u8> {
    let (_, why) = text.rsplit_once(&format!("{word}: "))?;
    let (words, number) = why.strip_suffix(')')?.rsplit_once(" (os error ")?;
    // A colon is another thing's, such as its folder's.
    number.parse().ok().filter(|_| !words.contains(": ")).and_then(by_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_there_or_is_none_has_the_status_of_a_shell() {
        let error = |number| io::Error::from_raw_os_error(number);
        for (text, expected) in [
            (format!("place a.core0: process: nosuch: {}", error(2)), Some(127)),
            (format!("place a.core0: process: nosuch: {}", error(13)), Some(126)),
            (format!("place a.core0: process: nosuch: {}", error(8)), Some(126)),
            (format!("place a.core0: process: nosuch: {}", error(12)), None),
            (format!("process: nosuch: its working folder /x: {}", error(2)), None),
            ("nobody answers at place nosuch".to_owned(), None),
        ] {
            assert_eq!(by_text(&text, "nosuch"), expected, "{text}");
        }
        assert_eq!(here(&error(2), "nosuch").unwrap(), Verdict::Exit(127));
        let no_memory = here(&error(12), "nosuch").unwrap_err();
        assert!(no_memory.to_string().starts_with("nosuch: "), "{no_memory}");
    }

    #[test]
    fn in_a_node_the_status_is_by_what_is_refused() {
        use kumiki_node::Error;
        let program = || Subject::Program("x".to_owned());
        let of = |kind, subject| in_node(Error::refused(kind, subject, "node n1: x").into());
        assert_eq!(of(ErrorKind::NotFound, program()).unwrap(), Verdict::Exit(127));
        assert_eq!(of(ErrorKind::Refused, program()).unwrap(), Verdict::Exit(126));
        assert!(of(ErrorKind::NotFound, Subject::node("n1")).is_err());
    }
}
