//! What the program was given as it began: whether there was a standard output, and what
//! becomes of it when the reader of its pipe leaves.
//!
//! Before `main` the standard library opens /dev/null in place of standard descriptors
//! that are closed, so that no file gets their numbers. From then on every write
//! succeeds. It also ignores SIGPIPE, whatever the starter had chosen. A program that must
//! report that its output went nowhere, or end as others do when nobody reads it, has to
//! look earlier: among the functions that the C library calls before `main`, those of the
//! section `.init_array`.

use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

static CLOSED: AtomicBool = AtomicBool::new(false);
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// True if stdout was closed when the program began. In a library that was loaded later: when that
/// was.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Relaxed)
}

/// Gives SIGPIPE its default action, the end of the process, unless it was ignored when the
/// program began: so a write to a pipe that nobody reads ends the program as it ends those
/// in C. For the beginning of `main`.
pub fn restore_pipe_signal() {
    if !PIPE_IGNORED.load(Relaxed) {
        // SAFETY: a signal's number and a default action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}

/// Writes to standard output, and says whether it arrived: where it was closed, on a full device and
/// in a pipe that nobody reads it did not.
///
/// # Errors
/// Those of the write; EBADF where there is no standard output.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    if stdout_was_closed() {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints what a program has to say of itself, its help or version; its exit status: 0, 141 as of one
/// that SIGPIPE ends where nobody reads it, else `failed`, and why on standard error.
pub fn printed(program: &str, text: &[u8], failed: u8) -> u8 {
    match print(text) {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 128 + libc::SIGPIPE as u8,
        Err(error) => {
            // Nobody may be there to read it either.
            let _ = writeln!(io::stderr(), "{program}: writing to standard output: {error}");
            failed
        }
    }
}

#[used]
// SAFETY: the section is an array of pointers to such functions, which get arguments
// that this one does not look at.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: asks for a flag; takes no pointer, and fails for a closed descriptor.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags < 0, Relaxed);
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: changes nothing, and writes the whole of the action that there is.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: numbers, and a pointer that may be null.
    let handler = unsafe { action.assume_init() }.sa_sigaction;
    PIPE_IGNORED.store(handler == libc::SIG_IGN, Relaxed);
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    const PIPE: &str = "KUMIKI_TEST_PIPE";
    const PIPE_NAME: &str =
        "stdio::tests::a_pipe_that_nobody_reads_ends_it_unless_that_was_ignored";

    #[test]
    fn a_pipe_that_nobody_reads_ends_it_unless_that_was_ignored() {
        if env::var_os(PIPE).is_some() {
            restore_pipe_signal();
            let (reader, mut writer) = crate::descriptors::pipe().unwrap();
            drop(reader);
            let error = std::io::Write::write(&mut writer, b"x").unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
            return;
        }
        let own = env::current_exe().unwrap();
        // As 128 and the signal's number: a shell that executes nothing else after it.
        for (trap, expected) in [("", Some(128 + libc::SIGPIPE)), ("trap '' PIPE;", Some(0))] {
            let script = format!("{trap} \"$0\" --exact {PIPE_NAME}; exit $?");
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).arg(&own).env(PIPE, "1");
            // std starts it with the default action.
            assert_eq!(shell.status().unwrap().code(), expected, "{trap}");
        }
    }

    const EXPECTED: &str = "KUMIKI_TEST_STDOUT_WAS_CLOSED";
    const OWN_NAME: &str = "stdio::tests::a_closed_stdout_is_seen_before_main";

    #[test]
    fn a_closed_stdout_is_seen_before_main() {
        if let Ok(expected) = env::var(EXPECTED) {
            assert_eq!(stdout_was_closed().to_string(), expected);
            return;
        }
        let own = env::current_exe().unwrap();
        for (redirection, expected) in [(">&-", "true"), (">/dev/null", "false")] {
            let script = format!("exec \"$0\" --exact {OWN_NAME} {redirection}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).arg(&own).env(EXPECTED, expected);
            assert!(shell.status().unwrap().success(), "{redirection}");
        }
    }
}
