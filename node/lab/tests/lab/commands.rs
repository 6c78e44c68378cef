//! Commands: exit codes, streams, signals, several at once.

use std::io::{self, Read, Write};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_lab::{Error, Exit};

use crate::machine;

#[test]
fn exit_codes_come_through_as_they_are() {
    let Some(machine) = machine() else { return };
    for code in [0, 1, 7, 127, 128, 255] {
        let output = machine.command("sh").args(["-c", &format!("exit {code}")]).output().unwrap();
        assert_eq!(output.exit, Exit::Code(code));
    }
    let output = machine.command("sh").args(["-c", "kill -9 $$"]).output().unwrap();
    assert_eq!(output.exit, Exit::Signal(9));
}

#[test]
fn the_two_outputs_stay_apart_and_root_runs_the_command() {
    let Some(machine) = machine() else { return };
    let script = "echo to stdout; echo to stderr >&2; id -u; echo $A";
    let output = machine.command("sh").args(["-c", script]).env("A", "a b").output().unwrap();
    assert_eq!(output.stdout, b"to stdout\n0\na b\n");
    assert_eq!(output.stderr, b"to stderr\n");
    let version = machine.command("uname").arg("-r").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    assert_eq!(version.trim(), machine.kernel().version);
}

#[test]
fn every_byte_goes_in_and_comes_out() {
    let Some(machine) = machine() else { return };
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let output = machine.command("cat").output_of(io::Cursor::new(bytes.clone())).unwrap();
    assert!(output.stdout == bytes, "{} of {} bytes", output.stdout.len(), bytes.len());
    let output = machine.command("wc").arg("-c").output_of(io::empty()).unwrap();
    assert_eq!(output.stdout, b"0\n", "an empty input has an end");
}

#[test]
fn a_program_that_is_not_there_has_the_shells_code() {
    let Some(machine) = machine() else { return };
    let output = machine.command("no-such-program").output().unwrap();
    assert_eq!(output.exit, Exit::Code(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-program"));
    let output = machine.command("/etc/passwd").output().unwrap();
    assert_eq!(output.exit, Exit::Code(126));
}

#[test]
fn a_command_may_print_before_it_reads() {
    let Some(machine) = machine() else { return };
    let (reader, mut writer) = io::pipe().unwrap();
    let (first, seen) = channel();
    let asked = thread::spawn(move || {
        // The question comes while nothing has been typed.
        seen.recv_timeout(Duration::from_secs(60)).unwrap();
        writer.write_all(b"me\n").unwrap();
    });
    struct Tell(Vec<u8>, std::sync::mpsc::Sender<()>);
    impl Write for Tell {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes);
            let _ = self.1.send(());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut said = Tell(Vec::new(), first);
    let command = machine.command("sh").args(["-c", "echo who?; read name; echo hello $name"]);
    let outcome = command.spawn().unwrap().pass(reader, &mut said, io::sink()).unwrap();
    asked.join().unwrap();
    assert_eq!((outcome.exit, said.0.as_slice()), (Exit::Code(0), b"who?\nhello me\n".as_slice()));
}

#[test]
fn a_command_that_nobody_reads_waits_and_others_go_on() {
    let Some(machine) = machine() else { return };
    let endless = machine.command("yes").spawn().unwrap();
    let control = endless.control();
    // Long enough to fill whatever would fill.
    for _ in 0..5 {
        let output = machine.command("echo").arg("here").output().unwrap();
        assert_eq!(output.stdout, b"here\n");
    }
    control.signal(15).unwrap();
    let mut bytes = 0;
    struct Count<'a>(&'a mut usize);
    impl Write for Count<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            *self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let outcome = endless.pass(io::empty(), Count(&mut bytes), io::sink()).unwrap();
    assert_eq!(outcome.exit, Exit::Signal(15));
    assert!(bytes > 0 && bytes < 2 << 20, "{bytes} bytes were under way");
}

#[test]
fn several_commands_run_at_once() {
    let Some(machine) = machine() else { return };
    thread::scope(|scope| {
        for number in 0..6 {
            scope.spawn(move || {
                let script = format!("for i in 1 2 3 4 5; do echo {number}; sleep 0.05; done");
                let output = machine.command("sh").args(["-c", &script]).output().unwrap();
                assert_eq!(output.stdout, format!("{number}\n").repeat(5).as_bytes());
            });
        }
    });
}

/// What a machine's kernel takes for a second is one, however busy this machine was when it started.
#[test]
fn a_machine_s_clock_is_as_fast_as_ours() {
    let Some(machine) = machine() else { return };
    let uptime = || -> f64 {
        let output = machine.command("cat").arg("/proc/uptime").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    let (begin, before) = (Instant::now(), uptime());
    thread::sleep(Duration::from_secs(2));
    let (there, here) = (uptime() - before, begin.elapsed().as_secs_f64());
    assert!((0.5..2.0).contains(&(there / here)), "{there} s there, {here} s here");
    let line = machine.command("cat").arg("/proc/cmdline").output().unwrap();
    let told = String::from_utf8_lossy(&line.stdout).contains("tsc_early_khz=");
    assert_ne!(told, machine.times().kvm, "an emulated one is told how fast its clock is");
}

#[test]
fn a_time_limit_ends_the_command_and_its_children() {
    let Some(machine) = machine() else { return };
    let begin = Instant::now();
    let command = machine.command("sh").args(["-c", "sleep 987 & sleep 987"]);
    let error = command.time_limit(Duration::from_millis(500)).output().unwrap_err();
    assert!(matches!(error, Error::TimeLimit { .. }), "{error}");
    assert!(error.to_string().contains("sleep 987"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(60));
    let ps = machine.command("ps").arg("-o").arg("args").output().unwrap();
    assert!(!String::from_utf8_lossy(&ps.stdout).contains("sleep 987"));
}

#[test]
fn what_a_command_leaves_behind_does_not_hold_it_up() {
    let Some(machine) = machine() else { return };
    let output = machine.command("sh").args(["-c", "sleep 986 & echo done"]).output().unwrap();
    assert_eq!(output.stdout, b"done\n");
    machine.command("pkill").args(["-f", "sleep 986"]).output().unwrap();
    // Process 1 collects what has lost its parent, also of a session or group of its own.
    let script = "(true &)
        (setsid sh -c 'echo $$ > /tmp/orphan; exec sleep 985' &)
        until grep -q sleep /proc/$(cat /tmp/orphan)/comm; do sleep 0.05; done
        kill -9 $(cat /tmp/orphan)
        for i in $(seq 200); do ps -o stat,comm | grep -q '^Z' || exit 0; sleep 0.05; done
        ps -o pid,ppid,stat,args; exit 1";
    let output = machine.command("sh").args(["-c", script]).output().unwrap();
    assert_eq!(output.exit.code(), 0, "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_command_can_have_a_terminal() {
    let Some(machine) = machine() else { return };
    let mut said = Vec::new();
    let (reader, _kept_open) = io::pipe().unwrap();
    let command = machine.command("sh").args(["-c", "tty; stty size"]).terminal(33, 101);
    let outcome = command.spawn().unwrap().pass(reader, &mut said, io::sink()).unwrap();
    assert_eq!(outcome.exit, Exit::Code(0));
    assert_eq!(String::from_utf8_lossy(&said), "/dev/pts/0\r\n33 101\r\n");
    let mut rest = Vec::new();
    let command = machine.command("no-such-program").terminal(24, 80);
    let outcome = command.spawn().unwrap().pass(io::empty(), io::sink(), &mut rest).unwrap();
    assert_eq!(outcome.exit, Exit::Code(127));
    let mut text = String::new();
    rest.as_slice().read_to_string(&mut text).unwrap();
    assert!(text.contains("no-such-program"));
}
