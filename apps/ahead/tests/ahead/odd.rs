//! Programs that do what a library with threads must survive: each says the same with it and without, on a slow disk,
//! where the pool runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::scene::{Counts, ahead, build, has, run};
use crate::slow::{Slow, Tree};

const ANSWER: Duration = Duration::from_millis(1);

fn same(deed: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = build("odd.c", folder.path());
    let tree = || Tree::wide(10, 12, 500);
    let Some(plain) = Slow::mount(tree(), ANSWER) else { return };
    let (_, expected) = run(Command::new(&program).arg(deed).current_dir(plain.path()));
    let Some(slow) = Slow::mount(tree(), ANSWER) else { return };
    let mut command = ahead(&program);
    let counts = Counts::of(&mut command);
    let (_, output) = run(command.arg(deed).current_dir(slow.path()));
    assert_eq!(output, expected, "{deed}");
    assert!(counts.pools() > 0, "{deed}: nothing was asked ahead");
    assert!(!expected.stdout.is_empty(), "{deed}: {expected:?}");
}

macro_rules! odd {
    ($($name:ident: $deed:literal;)*) => { $(
        #[test]
        fn $name() {
            same($deed);
        }
    )* };
}

odd! {
    a_program_walks: "walk";
    one_whose_first_thread_ends_ends_with_its_last: "first-thread";
    threads_of_one_are_cancelled_within_its_calls: "cancel";
    one_has_folders_scanned_by_the_c_library: "scan";
    one_forks_and_its_child_walks: "fork";
    one_uses_vfork: "vfork";
    one_closes_all_descriptors_as_it_goes: "close-all";
    the_lowest_free_descriptor_is_what_it_was: "lowest";
    one_is_alone_for_unshare: "unshare";
    one_confines_itself_by_a_filter_that_kills: "filter";
    what_it_forks_under_such_a_filter_lives: "filter-fork";
    one_changes_its_root_and_user: "root";
    one_takes_its_signals_itself: "signals";
    errno_is_kept: "errno";
}

#[test]
fn a_limit_of_32_descriptors_is_enough() {
    let tree = || Tree::wide(10, 12, 500);
    let (Some(plain), true) = (Slow::mount(tree(), ANSWER), has("tar")) else { return };
    let line = "ulimit -n 32; exec tar -cf - .";
    let (_, expected) = run(Command::new("sh").args(["-c", line]).current_dir(plain.path()));
    let Some(slow) = Slow::mount(tree(), ANSWER) else { return };
    let (_, output) = run(ahead("sh").args(["-c", line]).current_dir(slow.path()));
    assert_eq!(output, expected);
    assert!(expected.status.success() && expected.stdout.len() > 60_000);
}

/// Descriptors of any thread of a process that are of a folder or of what is below it.
fn open_below(process: u32, folder: &Path) -> usize {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let tables = tasks.filter_map(|task| fs::read_dir(task.ok()?.path().join("fd")).ok());
    let links = tables.flatten().filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    links.filter(|link| link.starts_with(folder)).count()
}

#[test]
fn after_a_while_nothing_is_held_open_that_keeps_a_file_system_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("odd.c", folder.path());
    let Some(slow) = Slow::mount(Tree::wide(10, 12, 500), ANSWER) else { return };
    let mut command = ahead(&program);
    command.arg("idle").arg(slow.path()).current_dir("/").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("first: 120 files"));
    let until = Instant::now() + Duration::from_secs(20);
    while open_below(child.id(), slow.path()) > 0 {
        assert!(Instant::now() < until, "folders are open for ever");
        sleep(Duration::from_millis(10));
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// A control group in which a few processes may be; none, said why, where it cannot be made here.
struct Group(std::path::PathBuf);

impl Group {
    fn of_processes(most: u32) -> Option<Self> {
        let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/pids"];
        let made = places.iter().find_map(|place| {
            let at = Path::new(place).join(format!("kumiki-ahead-test-{}", std::process::id()));
            fs::create_dir(&at).ok()?;
            let group = Group(at);
            // Made by the kernel, if it is a group.
            let limit = fs::File::options().write(true).open(group.0.join("pids.max"));
            limit.ok()?.write_all(most.to_string().as_bytes()).ok()?;
            Some(group)
        });
        if made.is_none() {
            println!("passed over: a control group of processes cannot be made here");
        }
        made
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn in_a_control_group_with_few_processes_a_program_has_room_for_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("odd.c", folder.path());
    let Some(group) = Group::of_processes(12) else { return };
    let line =
        format!("echo $$ >{}/cgroup.procs && exec {} crowd", group.0.display(), program.display());
    let tree = || Tree::wide(10, 12, 500);
    let Some(plain) = Slow::mount(tree(), ANSWER) else { return };
    let (_, expected) = run(Command::new("sh").args(["-c", &line]).current_dir(plain.path()));
    let Some(slow) = Slow::mount(tree(), ANSWER) else { return };
    let mut command = ahead("sh");
    let counts = Counts::of(&mut command);
    let (_, output) = run(command.args(["-c", &line]).current_dir(slow.path()));
    assert!(expected.status.code() == Some(3), "{expected:?}");
    assert_eq!(output, expected);
    assert!(counts.pools() > 0, "nothing was asked ahead");
}
