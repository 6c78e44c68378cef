//! Exit status of a command that could not be started elsewhere, as a shell gives it.

use std::io;

use anyhow::{Error, Result};
use kumiki_node::{ErrorKind, Subject};
use kumiki_places::wire::Why;

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

/// Says why one was not started at a place, with that status; other errors go on. A place of a version before
/// [`Why::NoProgram`] gives its words alone.
pub(crate) fn at_place(error: kumiki_places::Error) -> Result<Verdict> {
    let status = match &error {
        kumiki_places::Error::Refused { why: Why::NoProgram, .. } => Some(NOT_FOUND),
        kumiki_places::Error::Refused { why: Why::NotExecutable, .. } => Some(NOT_EXECUTABLE),
        _ => None,
    };
    said(error.into(), status)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_there_or_is_none_has_the_status_of_a_shell() {
        let error = |number| io::Error::from_raw_os_error(number);
        assert_eq!(here(&error(2), "nosuch").unwrap(), Verdict::Exit(127));
        let no_memory = here(&error(12), "nosuch").unwrap_err();
        assert!(no_memory.to_string().starts_with("nosuch: "), "{no_memory}");
    }

    #[test]
    fn at_a_place_the_status_is_by_the_kind_of_the_refusal_and_not_by_its_text() {
        let of = |why| {
            let text = format!("process: nosuch: {}", io::Error::from_raw_os_error(2));
            at_place(kumiki_places::Error::Refused { place: "a.core0".to_owned(), why, text })
        };
        assert_eq!(of(Why::NoProgram).unwrap(), Verdict::Exit(127));
        assert_eq!(of(Why::NotExecutable).unwrap(), Verdict::Exit(126));
        assert!(of(Why::Kind).is_err());
        let nobody = kumiki_places::Error::Gone { place: "nosuch".to_owned() };
        assert!(at_place(nobody).is_err());
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
