//! What is said depends on whether somebody looks: on a terminal there is
//! progress, elsewhere none.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;

use crate::common::{Home, MEASURE};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// What a command writes to standard error if that is a terminal.
fn on_a_terminal(command: &mut Command) -> String {
    on_a_screen(100, command.stdout(Stdio::null()), |command, line| command.stderr(line))
}

/// What a command writes to a terminal of so many columns.
fn on_a_screen(
    columns: u16,
    command: &mut Command,
    connect: fn(&mut Command, Stdio) -> &mut Command,
) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let line = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&line, size).unwrap();
    let mut child = connect(command, Stdio::from(line)).spawn().unwrap();
    // Our copy of the line, so that the reader sees the end.
    connect(command, Stdio::null());
    let reader = thread::spawn(move || {
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        let mut terminal = File::from(terminal);
        // The kernel answers EIO when the last writer has gone.
        while let Ok(n @ 1..) = terminal.read(&mut bytes) {
            seen.extend_from_slice(&bytes[..n]);
        }
        seen
    });
    child.wait().unwrap();
    String::from_utf8(reader.join().unwrap()).unwrap()
}

/// Whether a text sets colours or type (SGR, ECMA-48).
fn styled(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
    })
}

#[test]
fn progress_is_shown_on_a_terminal() {
    let home = Home::new();
    for no_color in [false, true] {
        let mut command = home.start(&MEASURE);
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let seen = on_a_terminal(&mut command);
        let progress = seen.contains(" %") && seen.contains(" s left") && seen.contains("entry.");
        assert!(progress, "{seen:?}");
        assert!(!(no_color && styled(&seen)), "{seen:?}");
    }
}

#[test]
fn no_progress_is_shown_elsewhere() {
    let home = Home::new();
    home.kumiki(&MEASURE).assert().success().stderr("");
    let json = home.kumiki(&[&MEASURE[..], &["--json"]].concat()).assert().success();
    let talk = String::from_utf8(json.get_output().stderr.clone()).unwrap();
    assert!(!talk.contains(" left") && !talk.contains('\x1b'), "the answer alone: {talk}");
}

#[test]
fn no_color_is_obeyed() {
    let home = Home::new();
    let wrong = ["measure", "--sizes", "much"];
    assert!(styled(&on_a_terminal(&mut home.start(&wrong))));
    assert!(!styled(&on_a_terminal(home.start(&wrong).env("NO_COLOR", "1"))));
    assert!(!styled(&home.fails(&wrong)));
}

/// Tables and texts for people fit 80 columns; in more of them they show more.
#[test]
fn what_is_shown_fits_the_terminal() {
    let home = Home::new();
    let name = home.reference();
    let shown = |columns, args: &[&str]| {
        on_a_screen(columns, home.start(args).stderr(Stdio::null()), |command, line| {
            command.stdout(line)
        })
    };
    for args in [
        &["results", "ls"][..],
        &["results", "show", &name, "--verbose"],
        &["compare", &name, &name, "--all"],
        &["report", &name, "--verbose"],
        &["measure", "ls"],
    ] {
        let text = shown(80, args);
        assert!(text.lines().count() > 3, "{text}");
        // But for a path, which is not broken.
        for line in text.lines().filter(|line| !line.starts_with("Page: ")) {
            assert!(line.trim_end().chars().count() <= 80, "{args:?}: {line}");
        }
    }
    let show = ["results", "show", &name];
    assert!(!shown(80, &show).contains("p99") && shown(140, &show).contains("p99"));
}

#[test]
fn top_takes_the_other_screen_and_gives_it_back() {
    let home = Home::new();
    let mut command = home.start(&["resource", "top", "--count", "2", "--every", "1"]);
    command.env("XDG_RUNTIME_DIR", home.path("run")).stderr(Stdio::null());
    std::fs::create_dir(home.path("run")).unwrap();
    let seen = on_a_screen(60, &mut command, |command, line| command.stdout(line));
    assert!(seen.starts_with("\x1b[?1049h") && seen.ends_with("\x1b[?1049l"), "{seen:?}");
    assert_eq!(seen.matches("\x1b[H").count(), 2, "{seen:?}");
    assert_eq!(seen.matches("0 calls/s").count(), 2, "{seen:?}");
    let long = seen.split(['\n', '\r']).any(|line| {
        let text = line.split('\x1b').map(|part| part.trim_start_matches("[K").len());
        text.max().unwrap_or(0) > 60
    });
    assert!(!long && !styled(&seen), "{seen:?}");
}
