//! What cannot be started is an error with posix_spawn's number, and nothing is left of
//! it. Servers die.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use kumiki_spawn::{Command, Refusal, Stdio};
use rustix::process::{Pid, Signal, kill_process};

use crate::child::in_a_child;

fn by(server: bool, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.by_server(server);
    command
}

fn number(command: &mut Command) -> Option<i32> {
    Refusal::number(&command.stdin(Stdio::null()).spawn().unwrap_err())
}

/// In a process of its own, whose children are known.
#[test]
fn what_is_no_program_is_an_error_with_its_number() {
    in_a_child("faults::what_is_no_program_is_an_error_with_its_number", || {
        kumiki_spawn::start_server().unwrap();
        // Memory that children begin in stays.
        refused(false);
        let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
        let before = [count("fd"), count("map_files")];
        for round in 0..10 {
            refused(round % 2 == 0);
        }
        assert_eq!([count("fd"), count("map_files")], before);
    });
}

fn refused(by_server: bool) {
    let new = |program: &Path| by(by_server, program);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8], mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    assert_eq!(number(&mut new(Path::new("/no/such/program"))), Some(libc::ENOENT));
    assert_eq!(number(&mut new(Path::new("no-such-program-anywhere"))), Some(libc::ENOENT));
    assert_eq!(number(&mut new(Path::new(""))), Some(libc::ENOENT));
    assert_eq!(number(&mut new(folder.path())), Some(libc::EACCES));
    assert_eq!(number(&mut new(&file("plain", b"text", 0o644))), Some(libc::EACCES));
    assert_eq!(number(&mut new(&file("no-elf", b"text", 0o755))), Some(libc::ENOEXEC));
    let script = file("script", b"#!/no/such/interpreter\n", 0o755);
    assert_eq!(number(&mut new(&script)), Some(libc::ENOENT));
    // A name that PATH finds first where it may not be executed.
    let path = format!("{}:/bin:/usr/bin", folder.path().display());
    file("true", b"text", 0o644);
    assert!(new(Path::new("true")).env("PATH", &path).status().unwrap().success());
    assert_eq!(number(new(Path::new("plain")).env("PATH", &path)), Some(libc::EACCES));
    assert_eq!(number(new(Path::new("true")).current_dir("/no/such/folder")), Some(libc::ENOENT));
    assert_eq!(number(new(Path::new("true")).process_group(i32::MAX)), Some(libc::EPERM));
    let long = "x".repeat(200 << 10);
    assert_eq!(number(new(Path::new("true")).arg(&long)), Some(libc::E2BIG));
    assert_eq!(number(new(Path::new("true")).args(vec![&long; 100])), Some(libc::E2BIG));
    let zero = new(Path::new("true")).arg("a\0b").spawn().unwrap_err();
    assert_eq!(zero.kind(), ErrorKind::InvalidInput);
    assert_eq!(children("Z"), [] as [i32; 0]);
}

/// A program that is there when it is looked for and not when it is executed, or the other way
/// round: it runs, or there is none.
#[test]
fn a_program_that_comes_and_goes_runs_or_is_not_there() {
    const ROUNDS: usize = 200;
    in_a_child("faults::a_program_that_comes_and_goes_runs_or_is_not_there", || {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("comes-and-goes");
        let path = format!("/no/such/folder:{}", folder.path().display());
        let once = |by_server: bool| {
            let mut command = by(by_server, "comes-and-goes");
            command.env("PATH", &path).stdin(Stdio::null()).status()
        };
        let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
        // What stays for the next children.
        assert!(once(false).is_err() && once(true).is_err());
        let before = count("fd");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::os::unix::fs::symlink("/bin/true", &link).unwrap();
                    std::thread::yield_now();
                    fs::remove_file(&link).unwrap();
                }
            });
            for round in 0..ROUNDS {
                match once(round % 2 == 0) {
                    Ok(status) => assert!(status.success(), "{round}: {status}"),
                    Err(error) => {
                        assert_eq!(Refusal::number(&error), Some(libc::ENOENT), "{round}")
                    }
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(count("fd"), before);
        assert_eq!(children("Z"), [] as [i32; 0]);
        assert_eq!(children("RSDtT"), servers());
    });
}

/// Children of this process in such a state.
pub(crate) fn children(state: &str) -> Vec<i32> {
    let own = std::process::id().to_string();
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is = state.contains(fields.next()?) && fields.next()? == own;
        is.then_some(id)
    });
    all.collect()
}

/// Its spawn servers, which have no C library.
pub(crate) fn servers() -> Vec<i32> {
    let is_server = |id: &i32| {
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
        maps.contains("kumiki-spawn-requests") && !maps.contains("libc")
    };
    children("RSDt").into_iter().filter(is_server).collect()
}

#[test]
fn a_server_that_was_killed_is_replaced() {
    in_a_child("faults::a_server_that_was_killed_is_replaced", || {
        killed();
        assert!(by(true, "true").status().unwrap().success());
        assert_eq!((children("Z").len(), servers().len()), (0, 1));
    });
}

fn killed() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for server in servers() {
                    let _ = kill_process(Pid::from_raw(server).unwrap(), Signal::KILL);
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (mut started, mut ended) = (0, 0);
        for round in 0..100 {
            let script = format!("echo {round} >> {}", log.display());
            // In a row as often as that it may be killed before it has begun.
            match by(true, "sh").args(["-c", &script]).status() {
                Ok(status) if status.success() => started += 1,
                // A child looks like its server until exec: it was taken for one, and may
                // have written its line before the signal came.
                Ok(status) => {
                    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
                    ended += 1;
                }
                Err(error) => assert!(error.to_string().contains("spawn server"), "{error}"),
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        // Each that was started has run once, and no other.
        let mut lines: Vec<String> =
            fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
        let ran = lines.len();
        assert!((started..=started + ended).contains(&ran), "{ran} of {started} and {ended}");
        lines.dedup();
        assert_eq!(lines.len(), ran, "one has run twice");
        assert!(started > 50, "{started}");
    });
}

/// Children of one that has given up its rights have none of them.
#[test]
fn a_caller_that_is_somebody_else_now_has_another_server() {
    const NOBODY: libc::uid_t = 65_534;
    in_a_child("faults::a_caller_that_is_somebody_else_now_has_another_server", || {
        kumiki_spawn::start_server().unwrap();
        let before = servers();
        // SAFETY: changes this process, which is for this test alone.
        if unsafe { libc::setuid(NOBODY) } != 0 {
            return println!("skipped: only root becomes somebody else");
        }
        let output = by(true, "id").arg("-u").current_dir("/").output().unwrap();
        assert_eq!(output.stdout, b"65534\n");
        assert_eq!(children("RSDt").iter().filter(|id| before.contains(id)).count(), 0);
    });
}

/// A child of fork(2) has children of its own.
#[test]
fn a_child_of_fork_has_a_server_of_its_own() {
    in_a_child("faults::a_child_of_fork_has_a_server_of_its_own", || {
        assert!(by(true, "true").status().unwrap().success());
        // SAFETY: the child does what a program may, as no other thread held a lock.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let fine = by(true, "sh").args(["-c", "exit 9"]).status();
            let fine = fine.is_ok_and(|status| status.code() == Some(9));
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        let mut status = -1;
        // SAFETY: waits for that child; `status` is writable.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(by(true, "true").status().unwrap().success());
    });
}
