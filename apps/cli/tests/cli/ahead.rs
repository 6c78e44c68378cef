//! `kumiki ahead`: a command runs as without it, its calls asked ahead.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::Home;

/// A folder with some names, on the disk of the build.
fn tree(home: &Home) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["a", "b", "c"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        (0..20)
            .for_each(|at| fs::write(folder.path().join(format!("{name}/{at}")), "text").unwrap());
    }
    let _ = home;
    folder
}

#[test]
fn output_and_exit_status_are_the_commands_own() {
    let home = Home::new();
    let line = "echo out; echo err >&2; exit 7";
    for say in [&[][..], &["--say"]] {
        let words = [&["ahead"][..], say, &["--", "sh", "-c", line]].concat();
        let output = home.start(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(output.stdout, b"out\n");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("err\n") && (said.len() > 4) != say.is_empty(), "{said}");
    }
    let output = home.start(&["ahead", "--", "sh", "-c", "kill -KILL $$"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    let words = ["ahead", "--say", "--", "sh", "-c", "kill -KILL $$"];
    assert_eq!(home.start(&words).output().unwrap().status.code(), Some(137));
}

#[test]
fn a_command_that_is_not_there_has_the_status_of_a_shell() {
    let home = Home::new();
    let file = home.write("none", "");
    let none = file.to_str().unwrap();
    for say in [&[][..], &["--say"]] {
        for (command, status) in [("no-such-command", 127), (none, 126)] {
            let words = [&["ahead"][..], say, &["--", command]].concat();
            let output = home.start(&words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(status), "{said}");
            assert!(said.contains(command), "{said}");
        }
    }
}

#[test]
fn a_signal_reaches_the_command() {
    let home = Home::new();
    let line = "trap 'echo taken; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut command = home.start(&["ahead", "--say", "--", "sh", "-c", line]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "taken");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn what_was_asked_and_used_is_said() {
    let home = Home::new();
    let tree = tree(&home);
    let mut command = home.start(&["ahead", "--say", "--", "ls", "-lR"]);
    // As if nothing of it were in memory.
    let output = command.arg(tree.path()).env("KUMIKI_AHEAD", "cold=1").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("ahead: asked for") && said.contains("used), opened 0 files"), "{said}");
    let plain = home.run_by("ls", &["-lR"]).arg(tree.path()).output().unwrap();
    assert_eq!(output.stdout, plain.stdout);
}

#[test]
fn other_libraries_in_front_stay_and_children_have_them() {
    let home = Home::new();
    let mut command = home.start(&["ahead", "--", "sh", "-c", "sh -c 'echo \"$LD_PRELOAD\"'"]);
    let output = command.env("LD_PRELOAD", "libc.so.6").output().unwrap();
    let value = String::from_utf8(output.stdout).unwrap();
    assert!(value.contains("ahead.so:libc.so.6"), "{value}");
}

/// Builds a static program; none, said why, where none can be linked.
fn alone(home: &Home, source: &str) -> Option<PathBuf> {
    let source = home.write("alone.c", source);
    let program = home.path("alone");
    let words = ["-static", "-o", program.to_str().unwrap(), source.to_str().unwrap()];
    let is_built = home.run_by("cc", &words).output().unwrap().status.success();
    if !is_built {
        println!("passed over: no static program can be linked here");
    }
    is_built.then_some(program)
}

#[test]
fn a_program_that_takes_no_library_is_run_and_said_so_where_it_may_not_be_watched() {
    let home = Home::new();
    let Some(program) = alone(&home, "int main(void) { return 4; }\n") else { return };
    // Without the right to watch, whoever runs this test.
    let words = ["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--ambient-caps=-all"];
    let mut command = home.run_by("setpriv", &words);
    command.arg(env!("CARGO_BIN_EXE_kumiki")).args(["ahead", "--say", "--"]).arg(&program);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("linked statically") && said.contains("CAP_SYS_ADMIN"), "{said}");
}

/// Opens each file of three folders by the names that they have.
const READER: &str = r#"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words)
{
	long files = 0;
	for (int at = 1; at < count; at++) {
		DIR *folder = opendir(words[at]);
		if (!folder)
			return 1;
		/* Whoever watches it has time. */
		usleep(200000);
		for (struct dirent *name; (name = readdir(folder));) {
			int file = openat(dirfd(folder), name->d_name, O_RDONLY);
			char byte;
			if (read(file, &byte, 1) == 1)
				files++;
			close(file);
			usleep(2000);
		}
		closedir(folder);
	}
	printf("%ld\n", files);
	fflush(stdout);
	if (getenv("PAUSE"))
		getchar();
	return 5;
}
"#;

#[test]
fn what_a_static_program_opens_is_watched_and_asked_ahead() {
    if !rustix::process::geteuid().is_root() {
        println!("passed over: watching takes CAP_SYS_ADMIN");
        return;
    }
    let home = Home::new();
    let tree = tree(&home);
    let Some(program) = alone(&home, READER) else { return };
    for say in [true, false] {
        let mut command = home.start(&["ahead"]);
        command.args(say.then_some("--say")).arg("--").arg(&program);
        let folders = ["a", "b", "c"].map(|name| tree.path().join(name));
        // As if nothing of it were in memory.
        let output = command.args(folders).env("KUMIKI_AHEAD", "cold=1").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert_eq!(output.stdout, b"60\n");
        if !say {
            assert_eq!(said, "");
        } else if said.contains("CAP_SYS_ADMIN") {
            println!("passed over: root may not watch here");
            return;
        } else {
            let opened = said.split("opened ").nth(1).and_then(|rest| rest.split(' ').next());
            let opened: u32 = opened.unwrap_or_default().parse().unwrap_or(0);
            assert!(opened >= 10, "{said}");
        }
    }
}

/// Files and folders below a folder that processes have open.
fn open_below(folder: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let open = processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok());
    let links =
        open.flat_map(|open| open.flatten().filter_map(|open| open.path().read_link().ok()));
    links.filter(|path| path.starts_with(folder)).count()
}

#[test]
fn after_a_while_what_watches_a_static_program_holds_nothing_open() {
    let home = Home::new();
    let tree = tree(&home);
    let Some(program) = alone(&home, READER) else { return };
    let folders = ["a", "b", "c"].map(|name| tree.path().join(name));
    let mut command = home.start(&["ahead", "--"]);
    command.arg(program).args(folders).env("PAUSE", "1");
    // It goes on until its input ends.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "60\n");
    let is_closed = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        open_below(tree.path()) == 0
    });
    assert!(is_closed && child.try_wait().unwrap().is_none(), "it holds folders open");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn bounds_that_cannot_be_are_refused() {
    let home = Home::new();
    for (word, value) in
        [("--threads", "0"), ("--threads", "65"), ("--names", "0"), ("--bytes", "x")]
    {
        let output = home.start(&["ahead", word, value, "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{word} {value}");
    }
}
