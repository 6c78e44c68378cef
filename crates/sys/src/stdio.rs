//! Whether there was a standard output when the program began.
//!
//! Before `main` the standard library opens /dev/null in place of standard descriptors
//! that are closed, so that no file gets their numbers. From then on every write
//! succeeds. A program that must report that its output went nowhere has to check
//! earlier: among the functions that the C library calls before `main`, those of the
//! section `.init_array`.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether stdout was closed when the program began. In a library that was loaded
/// later: when that was.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Relaxed)
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
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

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
