//! Exit status of a command that could not be started elsewhere, as a shell gives it.

use anyhow::{Error, Result};
use kumiki_sys::sentence::with_causes;

use crate::{Verdict, output};

/// Status of a program that is not found (POSIX, "Exit Status for Commands").
const NOT_FOUND: u8 = 127;
/// Found, and not one to execute.
const NOT_EXECUTABLE: u8 = 126;

/// Says why a command was not started, with that status; other errors go on.
pub(crate) fn none(error: Error, word: &str) -> Result<Verdict> {
    let text = with_causes(error.as_ref());
    let Some(status) = status(&text, word) else { return Err(error) };
    output::talk(text);
    Ok(Verdict::Exit(status))
}

/// The status for an error of starting `word` at a place or in a node, where it is known why: its text
/// ends with the command's name and the system's own words for it.
fn status(text: &str, word: &str) -> Option<u8> {
    let (_, why) = text.rsplit_once(&format!("{word}: "))?;
    let (words, number) = why.strip_suffix(')')?.rsplit_once(" (os error ")?;
    // A colon is another thing's, such as its folder's.
    match number.parse().map(rustix::io::Errno::from_raw_os_error) {
        _ if words.contains(": ") => None,
        Ok(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Some(NOT_FOUND),
        Ok(rustix::io::Errno::ACCESS | rustix::io::Errno::NOEXEC) => Some(NOT_EXECUTABLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_there_or_is_none_has_the_status_of_a_shell() {
        let error = |number| std::io::Error::from_raw_os_error(number);
        for (text, expected) in [
            (format!("place a.core0: process: nosuch: {}", error(2)), Some(127)),
            (format!("node n1: starting nosuch: {}", error(2)), Some(127)),
            (format!("node n1: starting nosuch: {}", error(13)), Some(126)),
            (format!("node n1: starting nosuch: {}", error(8)), Some(126)),
            (format!("node n1: starting nosuch: {}", error(12)), None),
            (format!("process: nosuch: its working folder /x: {}", error(2)), None),
            (format!("node nosuch: /run/kumiki-node: {}", error(2)), None),
            ("no node n1".to_owned(), None),
        ] {
            assert_eq!(status(&text, "nosuch"), expected, "{text}");
        }
    }
}
