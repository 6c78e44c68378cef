//! What becomes of the output.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use crate::scene::{OURS, Scene, gnu_du, said};

/// The program by a shell that redirects its stdout.
fn redirected(scene: &Scene, program: &str, args: &[&str], redirection: &str) -> Output {
    let mut command = scene.command("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}"), program]).args(args);
    command.output().unwrap()
}

#[test]
fn what_cannot_be_written_is_an_error_as_gnu_du_has_it() {
    let scene = Scene::new();
    scene.folder("a");
    for (redirection, reason) in
        [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
    {
        // And whether there would be something to write.
        for (args, writes) in [
            (&["."][..], true),
            (&["-sc", "missing", "a"], true),
            (&["--help"], true),
            (&["--version"], true),
            (&["missing"], false),
            (&["--nonsense"], false),
        ] {
            let ours = redirected(&scene, OURS, args, redirection);
            let what = format!("{args:?} {redirection}: {}", said(&ours));
            assert_eq!(ours.status.code(), Some(1), "{what}");
            let line = format!("kumiki-du: write error: {reason}\n");
            assert_eq!(said(&ours).ends_with(&line), writes, "{what}");
            assert!(!said(&ours).contains("panicked"), "{what}");
            if gnu_du() {
                let theirs = redirected(&scene, "du", args, redirection);
                assert_eq!(theirs.status, ours.status, "{what}");
                assert_eq!(said(&theirs).contains("write error"), writes, "{what}");
            }
        }
    }
}

#[test]
fn what_can_be_written_to_nowhere_is_none() {
    let scene = Scene::new();
    for redirection in [">/dev/null", "1<>/dev/null", "<&- >/dev/null", ">/dev/null 2>&-"] {
        for args in [".", "--help"] {
            let output = redirected(&scene, OURS, &[args], redirection);
            assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
        }
    }
}

/// Runs it as one would before `| head -1`, and returns that line.
fn first_line(command: &mut Command) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(said(&output), "");
    assert!(output.status.success());
    first
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let scene = Scene::new();
    scene.folder("deep");
    // More than a pipe holds.
    for number in 0..1000 {
        scene.file(format!("deep/{number}{}", "c".repeat(200)), 0);
    }
    let first = first_line(scene.command(OURS).args(["-a", "deep"]));
    assert!(first.contains("\tdeep"), "{first}");
    assert!(first_line(scene.command(OURS).arg("--help")).starts_with("Disk usage"));
}

#[test]
fn nor_is_one_that_has_never_come() {
    let scene = Scene::new();
    for args in [".", "--help", "--version"] {
        let (_, closed) = std::io::pipe().unwrap();
        let output = scene.command(OURS).arg(args).stdout(closed).output().unwrap();
        assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
    }
}

#[test]
fn a_full_disk_is_found_at_the_end_at_the_latest() {
    let scene = Scene::new();
    for lines in [1, 5000] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let operands = vec!["."; lines];
        let output = scene.command(OURS).args(["-l"]).args(operands).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(said(&output), "kumiki-du: write error: No space left on device\n");
    }
}
