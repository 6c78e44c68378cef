//! Children that are there before they are needed.

use std::io::Write;

use kumiki_spawn::{Command, Stdio, Zygotes, ready};
use rustix::process::{Pid, Signal, kill_process};

use crate::child::in_a_child;
use crate::faults::{children, servers};

/// Not a test by itself: what a zygote of the tests below does.
#[test]
fn as_a_zygote() {
    let Some(started) = ready().unwrap() else { return };
    let folder = std::env::current_dir().unwrap();
    let (args, env) = (&started.args[1..], started.env.len());
    let mut said = format!("{args:?} in {} with {env} variables\n", folder.display());
    if args.first().is_some_and(|arg| arg == "cat") {
        said = std::io::read_to_string(std::io::stdin()).unwrap();
    }
    // The test's own output is caught.
    rustix::io::write(rustix::stdio::stdout(), said.as_bytes()).unwrap();
    std::process::exit(7);
}

fn pool(count: usize) -> Zygotes {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "zygotes::as_a_zygote", "--test-threads=1"]).stdout(Stdio::null());
    Zygotes::new(command, count).unwrap()
}

fn work() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.stdout(Stdio::piped());
    command
}

#[test]
fn one_gets_what_a_command_says() {
    let mut pool = pool(2);
    let said = |command: &mut Command, pool: &mut Zygotes| {
        let output = pool.start(command).unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut command = work();
    command.args(["a", "", "c d"]).env_clear().env("A", "1").env("B", "").current_dir("/proc");
    assert_eq!(said(&mut command, &mut pool), "[\"a\", \"\", \"c d\"] in /proc with 2 variables\n");
    assert_eq!(pool.len(), 2);
    let own = std::env::vars_os().count();
    let here = std::env::current_dir().unwrap();
    let text = format!("[] in {} with {own} variables\n", here.display());
    assert_eq!(said(&mut work(), &mut pool), text);
    // More than there are at a time.
    let mut children: Vec<_> =
        (0..5).map(|_| pool.start(work().arg("cat").stdin(Stdio::piped())).unwrap()).collect();
    for (number, child) in children.iter_mut().enumerate() {
        writeln!(child.stdin.as_mut().unwrap(), "child {number}").unwrap();
    }
    for (number, child) in children.into_iter().enumerate() {
        assert_eq!(
            child.wait_with_output().unwrap().stdout,
            format!("child {number}\n").as_bytes()
        );
    }
}

#[test]
fn what_a_process_cannot_become_is_refused() {
    let mut pool = pool(1);
    let mut refused = |command: &mut Command| pool.start(command).unwrap_err().to_string();
    assert!(refused(&mut Command::new("true")).contains("true"));
    assert!(refused(work().uid(1)).contains("the user of a process that is there already"));
    assert!(refused(work().setsid(true)).contains("the session"));
    let given = std::fs::File::open("/").unwrap();
    let mut command = work();
    command.fd(given, 3);
    assert!(Zygotes::new(command, 1).unwrap_err().to_string().contains("descriptor 3"));
}

/// A zero byte would make two of one, and others of those behind it.
#[test]
fn no_string_becomes_another_by_a_zero_byte() {
    let mut pool = pool(1);
    let said: [&dyn Fn(&mut Command); 4] = [
        &|command| _ = command.arg("a\0LD_PRELOAD=/tmp/x.so"),
        &|command| _ = command.env("A", "1\0B=2"),
        &|command| _ = command.env("A\0B", "1"),
        &|command| _ = command.current_dir("/\0/tmp"),
    ];
    for say in said {
        let mut command = work();
        say(&mut command);
        let error = pool.start(&mut command).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{command:?}");
        assert!(error.to_string().contains("zero byte"), "{error}");
        assert_eq!(pool.len(), 1, "the child has not been lost");
    }
    let output = pool.start(work().arg("a")).unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
}

/// There the kernel keeps nothing of a child that has ended.
#[test]
fn one_that_has_died_is_passed_over_where_sigchld_is_ignored() {
    in_a_child("zygotes::one_that_has_died_is_passed_over_where_sigchld_is_ignored", || {
        // SAFETY: no handler, in a process for this test alone.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        let mut pool = pool(2);
        for child in children("RSDt").into_iter().filter(|child| !servers().contains(child)) {
            let child = Pid::from_raw(child).unwrap();
            kill_process(child, Signal::KILL).unwrap();
            while rustix::process::test_kill_process(child).is_ok() {
                std::thread::yield_now();
            }
        }
        let mut child = pool.start(&mut work()).unwrap();
        let said = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        assert!(said.starts_with("["), "{said:?}");
    });
}

/// A program that never gets ready is not started for ever.
#[test]
fn that_all_end_is_said() {
    let mut pool = Zygotes::new(Command::new("false"), 2).unwrap();
    let mut said = String::new();
    for _ in 0..1000 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        match pool.start(&mut Command::new("false")) {
            // It was quick: the child had not ended yet.
            Ok(mut child) => drop(child.wait()),
            Err(error) => {
                said = error.to_string();
                break;
            }
        }
    }
    assert!(said.contains("of the pool of false"), "{said:?}");
}

#[test]
fn they_die_and_are_replaced() {
    in_a_child("zygotes::they_die_and_are_replaced", || {
        let mut pool = pool(3);
        let all = || children("RSDtTZ");
        // And the pool's server.
        assert_eq!(all().len(), 4);
        let before = all();
        for child in &before {
            kill_process(Pid::from_raw(*child).unwrap(), Signal::KILL).unwrap();
        }
        let output = pool.start(&mut work()).unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7));
        assert!(all().iter().all(|child| !before.contains(child)));
        assert_eq!(all().len(), 4);
        // Who may not open files has zygotes who may not.
        // SAFETY: changes this process, which is for this test alone.
        unsafe { libc::umask(0o077) };
        let former = all();
        assert!(pool.start(&mut work()).unwrap().wait().is_ok());
        assert!(all().iter().all(|child| !former.contains(child)));
        drop(pool);
        assert_eq!(all(), [] as [i32; 0]);
    });
}
