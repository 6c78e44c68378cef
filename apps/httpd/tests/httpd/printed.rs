//! Help and version arrive, or the program says that they did not.

use std::process::{Command, Stdio};

use crate::{FAILED, PROGRAM};

#[test]
fn help_that_goes_nowhere_is_an_error() {
    for word in ["--help", "--version"] {
        for to in [">&-", ">/dev/full"] {
            let script = format!("exec \"$0\" {word} {to}");
            let output = Command::new("sh").args(["-c", &script, PROGRAM]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(FAILED), "{word} {to}: {said}");
            assert!(said.contains("writing to standard output"), "{word} {to}: {said}");
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut unread = Command::new(PROGRAM);
        let status = unread.arg(word).stdout(writer).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(141), "{word} to a pipe that nobody reads");
        let output = Command::new(PROGRAM).arg(word).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty());
    }
}
