//! What becomes of the output.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};

use crate::scene::{OURS, Scene, gnu_du, said};

const SIGPIPE: i32 = rustix::process::Signal::PIPE.as_raw();

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

/// How a pipe ends that nobody reads: after its first line, or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    LeavesAfterALine,
    NeverCame,
}

/// Runs it by a shell, with SIGPIPE ignored or not, into such a pipe.
fn without_reader(
    scene: &Scene,
    program: &str,
    args: &[&str],
    ignored: bool,
    reader: Reader,
) -> Output {
    let trap = if ignored { "trap '' PIPE; " } else { "" };
    let mut command = scene.command("sh");
    command.args(["-c", &format!("{trap}exec \"$0\" \"$@\""), program]).args(args);
    let (theirs, ours) = std::io::pipe().unwrap();
    let mut lines = BufReader::new(theirs);
    if reader == Reader::NeverCame {
        drop(lines);
        return command.stdout(ours).output().unwrap();
    }
    let child = command.stdout(ours).stderr(Stdio::piped()).spawn().unwrap();
    // Its own end is gone with it.
    drop(command);
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert!(first.contains('\t'), "{first}");
    drop(lines);
    child.wait_with_output().unwrap()
}

#[test]
fn a_reader_that_leaves_ends_it_as_gnu_du() {
    let scene = Scene::new();
    scene.folder("deep");
    // More than a pipe holds.
    for number in 0..1000 {
        scene.file(format!("deep/{number}{}", "c".repeat(200)), 0);
    }
    let cases: [(Reader, &[&str]); 5] = [
        (Reader::LeavesAfterALine, &["-a", "deep"]),
        (Reader::LeavesAfterALine, &["--plain", "-a", "deep"]),
        (Reader::NeverCame, &["deep"]),
        (Reader::NeverCame, &["--help"]),
        (Reader::NeverCame, &["--version"]),
    ];
    for (reader, args) in cases {
        for ignored in [false, true] {
            let what = format!("{args:?} {reader:?}, ignored: {ignored}");
            let ours = without_reader(&scene, OURS, args, ignored, reader);
            if ignored {
                assert_eq!(ours.status.code(), Some(1), "{what}");
                let line = "kumiki-du: write error: Broken pipe\n";
                assert!(said(&ours).ends_with(line), "{what}: {}", said(&ours));
            } else {
                assert_eq!(ours.status.signal(), Some(SIGPIPE), "{what}");
                assert_eq!(said(&ours), "", "{what}");
            }
            if gnu_du() && !args.contains(&"--plain") {
                let theirs = without_reader(&scene, "du", args, ignored, reader);
                assert_eq!(theirs.status, ours.status, "{what}");
            }
        }
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
