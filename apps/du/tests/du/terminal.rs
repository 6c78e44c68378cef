//! What is said depends on whether somebody looks: on a terminal there is progress
//! of a walk that takes long, elsewhere none.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::scene::{OURS, Scene};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Longer than a walk has nothing to tell.
const LONG: Duration = Duration::from_millis(800);

/// Names of so many files, on lines of their own, are more than a pipe holds and what
/// is put together before it is written.
const FILES: usize = 3000;

/// The operating side of a terminal, and the line that a program is given.
fn terminal() -> (File, OwnedFd) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let line = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (File::from(terminal), line)
}

/// Our command where the environment names a kind of terminal, as one has it: without a
/// name nobody knows how to clear a line, and none is drawn.
fn on_terminal(scene: &Scene) -> Command {
    let mut command = scene.command(OURS);
    command.env("TERM", "xterm");
    command
}

/// Everything that comes, until nobody is left to write.
fn everything(mut from: impl Read) -> String {
    let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
    // The kernel answers EIO when the last one who writes to a terminal has gone.
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..n]);
    }
    String::from_utf8(seen).unwrap()
}

/// Counts two directories, the second one long after it has begun: nobody reads for a
/// while what it prints of the first.
fn slow(scene: &Scene, stderr: Stdio) -> Command {
    scene.folder("first").folder("second").file("second/x", 1);
    for file in 0..FILES {
        scene.file(format!("first/{file:0100}"), 0);
    }
    let mut command = on_terminal(scene);
    command.args(["-a", "first", "second"]).stdout(Stdio::piped()).stderr(stderr);
    command
}

/// Reads long after the first was printed: on a busy machine that itself may take long.
fn read_late(child: &mut Child) -> String {
    let stdout = child.stdout.take().unwrap();
    poll(&mut [PollFd::new(&stdout, PollFlags::IN)], None).unwrap();
    thread::sleep(LONG);
    everything(stdout)
}

#[test]
fn progress_is_shown_on_a_terminal_and_taken_away() {
    let scene = Scene::new();
    let (terminal, line) = terminal();
    // The command keeps a copy of the line: it goes before the reader ends.
    let mut child = slow(&scene, Stdio::from(line)).spawn().unwrap();
    let shown = thread::spawn(|| everything(terminal));
    let printed = read_late(&mut child);
    assert!(child.wait().unwrap().success());
    let shown = shown.join().unwrap();
    assert!(printed.ends_with("\tsecond\n") && !printed.contains("entries"), "{printed}");
    let Some((before, after)) = shown.rsplit_once(" entries, ") else {
        panic!("no progress: {shown:?}");
    };
    let entries = before.rsplit(' ').next().unwrap().replace(',', "").parse::<usize>().unwrap();
    assert!(entries > FILES, "{shown:?}");
    assert!(after.contains("\x1b[2K"), "the line is not cleared: {shown:?}");
}

#[test]
fn no_progress_is_shown_elsewhere() {
    let scene = Scene::new();
    let mut child = slow(&scene, Stdio::piped()).spawn().unwrap();
    let printed = read_late(&mut child);
    let output = child.wait_with_output().unwrap();
    assert!(printed.ends_with("\tsecond\n") && output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_short_walk_has_nothing_to_tell() {
    let scene = Scene::new();
    scene.file("x", 1);
    let (terminal, line) = terminal();
    let mut child =
        on_terminal(&scene).arg("x").stdout(Stdio::null()).stderr(line).spawn().unwrap();
    let shown = everything(terminal);
    assert!(child.wait().unwrap().success());
    assert_eq!(shown, "");
}
