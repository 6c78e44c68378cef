//! Arguments, environment, folder, descriptors: as from the standard library.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process;

use kumiki_spawn::{Command, Refusal, Stdio};

use super::new;

/// The same of both: what a shell's script prints.
fn both(script: &str, with: impl Fn(&mut Command), std: impl Fn(&mut process::Command)) -> String {
    let (mut ours, mut theirs) = (new("sh"), process::Command::new("sh"));
    ours.args(["-c", script]);
    theirs.args(["-c", script]);
    with(&mut ours);
    std(&mut theirs);
    let (ours, theirs) = (ours.output().unwrap(), theirs.output().unwrap());
    assert_eq!(
        (ours.status, String::from_utf8_lossy(&ours.stdout), ours.stderr),
        (theirs.status, String::from_utf8_lossy(&theirs.stdout), theirs.stderr)
    );
    String::from_utf8(ours.stdout).unwrap()
}

#[test]
fn arguments_environment_and_folder_arrive() {
    let args = ["-", "", "two words", "ä\n"];
    let text = both(r#"for a; do echo "[$a]"; done"#, |c| _ = c.args(args), |c| _ = c.args(args));
    assert_eq!(text, "[]\n[two words]\n[ä\n]\n");
    let text = both(
        "env | grep -v ^_ | sort",
        |c| _ = c.env_clear().env("B", "2").env("A", "=1").env("C", "").env_remove("B"),
        |c| _ = c.env_clear().env("B", "2").env("A", "=1").env("C", "").env_remove("B"),
    );
    assert!(text.contains("A==1\nC=\n") && !text.contains("B="), "{text}");
    both("env | grep -v ^_ | sort", |_| (), |_| ());
    let folder = tempfile::tempdir().unwrap();
    let text = both("pwd -P", |c| _ = c.current_dir(&folder), |c| _ = c.current_dir(&folder));
    assert_eq!(text.trim(), fs::canonicalize(&folder).unwrap().to_str().unwrap());
    both("pwd -P", |_| (), |_| ());
    both(r#"echo "$0" >&2; exit 7"#, |c| _ = c.arg("a"), |c| _ = c.arg("a"));
}

/// By the PATH that the child has, and where it has none by execvp(3)'s own, not by the caller's.
#[test]
fn a_program_is_searched_for_as_the_standard_library_does() {
    alone!("a_program_is_searched_for_as_the_standard_library_does", || {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("only-here");
        fs::write(&script, "#!/bin/sh\necho found\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        // SAFETY: this process is for this test alone, and has no other thread that looks.
        unsafe { std::env::set_var("PATH", folder.path()) };
        let long = "x".repeat(300);
        for program in ["only-here", "true", "no-such", "/etc/passwd/x", "/no/such", &long] {
            // Whether its variables are taken away, and its PATH then: as it was, none, or this one.
            let paths = [None, Some(None), Some(Some(folder.path()))].into_iter();
            let others =
                ["/bin", "/no:/etc/passwd", "/etc/passwd:/no"].map(|it| Some(Some(Path::new(it))));
            let ways = paths.chain(others).flat_map(|path| [(false, path), (true, path)]);
            for (clear, path) in ways {
                let (mut one, mut other) = (new(program), std::process::Command::new(program));
                if clear {
                    one.env_clear();
                    other.env_clear();
                }
                match path {
                    Some(Some(path)) => {
                        one.env("PATH", path);
                        other.env("PATH", path);
                    }
                    Some(None) => {
                        one.env_remove("PATH");
                        other.env_remove("PATH");
                    }
                    None => (),
                }
                let own = one.output().map(|it| it.stdout);
                if let Err(error) = &own {
                    let name = format!("executing the program {program}: ");
                    assert!(error.to_string().starts_with(&name), "{error}");
                }
                let one_said = own.map_err(|it| Refusal::number(&it));
                let said = other.output().map(|it| it.stdout).map_err(|it| it.raw_os_error());
                assert_eq!(one_said, said, "{program} {clear} {path:?}");
                assert!(one.refused_at().is_none_or(|at| at.ends_with(program)));
            }
        }
    });
}

#[test]
fn descriptors_are_what_was_asked_for_and_no_others() {
    both("cat; echo error >&2", |_| (), |_| ());
    let open = new("ls").arg("/proc/self/fd").output().unwrap();
    // The last one is its own, of the folder.
    assert_eq!(String::from_utf8(open.stdout).unwrap(), "0\n1\n2\n3\n");
    let mut file = tempfile::tempfile().unwrap();
    let mut child = new("cat")
        .stdin(Stdio::piped())
        .stdout(file.try_clone().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(b"through a pipe").unwrap();
    assert!(child.stdout.is_none());
    // Which closes the pipe.
    assert!(child.wait().unwrap().success());
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through a pipe");
    let status = new("sh").args(["-c", "exit 3"]).stdin(File::open("/").unwrap()).status();
    assert_eq!(status.unwrap().code(), Some(3));
}

#[test]
fn what_the_caller_has_closed_is_closed() {
    alone!("what_the_caller_has_closed_is_closed", || {
        let closed = || {
            let mut command = new("readlink");
            let child = command.args(["/proc/self/fd/0"]).stdout(Stdio::piped()).spawn().unwrap();
            !child.wait_with_output().unwrap().status.success()
        };
        assert!(!closed());
        // SAFETY: nothing of this process, which is for this test alone, reads from there.
        unsafe { libc::close(0) };
        assert!(closed());
        let mut command = new("true");
        assert!(command.stdin(Stdio::closed()).status().unwrap().success());
        // Another file has the number now, and is to be two others.
        let file = File::open("/dev/null").unwrap();
        assert_eq!(std::os::fd::AsRawFd::as_raw_fd(&file), 0);
        let mut command = new("sh");
        command.args(["-c", "readlink /proc/$$/fd/0 /proc/$$/fd/3 /proc/$$/fd/4; :"]);
        command.stdin(Stdio::piped()).fd(file.try_clone().unwrap(), 3).fd(file, 4);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert!(text.starts_with("pipe:") && text.ends_with("\n/dev/null\n/dev/null\n"), "{text}");
    });
}

#[test]
fn both_outputs_may_be_long() {
    let script =
        "i=0; while [ $i -lt 20000 ]; do echo 0123456789; echo 9876543210 >&2; i=$((i+1)); done";
    let output = new("sh").args(["-c", script]).output().unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (220_000, 220_000));
}

#[test]
fn a_child_is_killed_and_waited_for_once() {
    let mut child = new("sleep").arg("1000").spawn().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    let id = child.id();
    // The kernel lets the server go on before it has set the new program's arguments.
    while fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap() != "sleep\x001000\x00" {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert_eq!(child.wait().unwrap(), status);
    assert_eq!(child.try_wait().unwrap(), Some(status));
    child.kill().unwrap();
}

#[test]
fn many_threads_spawn_at_once() {
    std::thread::scope(|threads| {
        for thread in 0..4 {
            threads.spawn(move || {
                for round in 0..25 {
                    let code = (thread * 25 + round) % 256;
                    let mut command = new("sh");
                    let status = command.args(["-c", &format!("exit {code}")]).status();
                    assert_eq!(status.unwrap().code(), Some(code));
                }
            });
        }
    });
}

/// Whatever was said, in the words of the standard library.
#[test]
fn it_is_shown_as_that_of_the_standard_library() {
    macro_rules! shown {
        ($new:expr) => {{
            let mut command = $new;
            command.arg("a b").env("K", "v\"").env_remove("X").env_remove("Y").current_dir("/tmp");
            let mut cleared = $new;
            cleared.env_clear().env("A", "b").arg0("other");
            [format!("{:?}", $new), format!("{command:?}"), format!("{cleared:?}")]
        }};
    }
    use std::os::unix::process::CommandExt;
    assert_eq!(shown!(new("prog")), shown!(std::process::Command::new("prog")));
}

/// Outputs that are longer than a pipe, one after the other and crossed.
#[test]
fn both_outputs_are_read_whatever_comes_first() {
    let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; echo end >&2; echo end";
    let output = new("sh").args(["-c", script]).output().unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (300_004, 300_004));
    assert!(output.stdout.ends_with(b"end\n") && output.stderr.ends_with(b"end\n"));
}

#[test]
fn the_caller_s_own_outputs_are_given_crossed() {
    alone!("the_caller_s_own_outputs_are_given_crossed", || {
        let script = "readlink /proc/$$/fd/1; readlink /proc/$$/fd/2 >&2; :";
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: changes this process, which is for this test alone.
        assert_eq!(unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), 2) }, 2);
        let mut command = new("sh");
        command.args(["-c", script]).stderr(std::io::stdout()).stdout(std::io::stderr());
        assert!(command.status().unwrap().success());
        let look = "test $(readlink /proc/$$/fd/1) = /dev/null; exit $?";
        let mut command = new("sh");
        command.args(["-c", look]).stdout(std::io::stderr());
        assert!(command.status().unwrap().success());
    });
}
