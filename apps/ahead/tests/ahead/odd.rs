//! Programs that do what a library with threads must survive: each says the same with it and without, on a slow disk,
//! where the pool runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::scene::{Counts, Group, ahead, at_times, build, has, library, run};
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

/// A tree that is walked in another way than by opendir: the same is seen, and names that were asked ahead were used.
fn walked(deed: &str, cold: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = build("odd.c", folder.path());
    let tree = || Tree::wide(10, 60, 500);
    let Some(plain) = Slow::mount(tree(), ANSWER) else { return };
    let (_, expected) = run(Command::new(&program).args([deed, "."]).current_dir(plain.path()));
    let text = String::from_utf8_lossy(&expected.stdout).into_owned();
    assert!(
        text.contains("00 files, ") && text.contains(" bytes, 0 wrong"),
        "{deed}: {expected:?}"
    );
    // How many are asked before the program comes to them, others of this machine decide.
    at_times(|| {
        let Some(slow) = Slow::mount(tree(), ANSWER) else { return true };
        let mut command = ahead(&program);
        let counts = Counts::of(&mut command);
        let (_, output) =
            run(command.args([deed, "."]).env("KUMIKI_AHEAD", cold).current_dir(slow.path()));
        assert_eq!(output, expected, "{deed}");
        counts.get(6) > 0
    });
}

macro_rules! walked {
    ($($name:ident: $deed:literal, $cold:literal;)*) => { $(
        #[test]
        fn $name() {
            walked($deed, $cold);
        }
    )* };
}

walked! {
    a_tree_is_walked_by_fts: "tree-fts", "";
    a_tree_is_walked_by_fts_from_where_it_is: "tree-fts-here", "";
    a_tree_is_walked_by_ftw: "tree-ftw", "";
    a_tree_is_walked_by_nftw: "tree-nftw", "";
    a_tree_is_walked_by_nftw_which_changes_the_working_folder: "tree-nftw-chdir", "";
    a_tree_is_walked_by_nftw_with_folders_last: "tree-nftw-depth", "";
    a_walk_within_a_walk_is_made_as_it_came: "tree-within", "";
    a_tree_is_read_by_getdents64: "tree-getdents64", "";
    // Nobody is started by a call by number: another folder was read before.
    a_tree_is_read_by_numbers: "tree-numbers", "cold=1";
}

/// Allocators, and what leaves out fsync: in front of the library and behind it.
#[test]
fn beside_other_libraries_in_front_a_program_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("odd.c", folder.path());
    let tree = || Tree::wide(10, 12, 500);
    for other in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libeatmydata.so"] {
        let (_, found) = run(Command::new("true").env("LD_PRELOAD", other));
        if !found.stderr.is_empty() {
            println!("passed over: there is no {other}");
            continue;
        }
        for deed in ["walk", "scan", "fork", "vfork", "close-all"] {
            let Some(plain) = Slow::mount(tree(), ANSWER) else { return };
            let mut command = Command::new(&program);
            let (_, expected) = run(command.arg(deed).current_dir(plain.path()));
            let ours = library().display().to_string();
            for both in [format!("{ours}:{other}"), format!("{other}:{ours}")] {
                let Some(slow) = Slow::mount(tree(), ANSWER) else { return };
                let mut command = Command::new(&program);
                let counts = Counts::of(&mut command);
                command.arg(deed).env("LD_PRELOAD", &both).current_dir(slow.path());
                let (_, output) = run(&mut command);
                assert_eq!(output, expected, "{deed} with {both}");
                assert!(counts.pools() > 0, "{deed} with {both}: nothing was asked ahead");
            }
        }
    }
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

#[test]
fn in_a_control_group_with_few_processes_a_program_has_room_for_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("odd.c", folder.path());
    let Some(group) = Group::limited("pids", &["pids.max"], 12) else { return };
    let line = format!(
        "echo $$ >{}/cgroup.procs && exec {} crowd",
        group.path().display(),
        program.display()
    );
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

#[test]
fn in_a_control_group_with_little_memory_less_is_read_ahead() {
    let files = ["memory.max", "memory.limit_in_bytes"];
    let Some(group) = Group::limited("memory", &files, 32 << 20) else { return };
    if !has("python3") {
        return;
    }
    // A pause in which all is read that is within reach.
    let text = "import os, sys, time\n\
        for name in os.listdir(sys.argv[1])[:8]:\n\
        \x20   print(len(open(os.path.join(sys.argv[1], name), 'rb').read(1)))\n\
        time.sleep(0.5)\n";
    let opened = |line: &str| {
        let slow = Slow::mount(Tree::wide(1, 200, 128 << 10), ANSWER)?;
        let mut command = ahead("sh");
        let counts = Counts::of(&mut command);
        command.args(["-c", line, "sh", text]).arg(slow.path().join("folder0"));
        let (_, output) = run(&mut command);
        assert_eq!(output.stdout, "1\n".repeat(8).as_bytes(), "{output:?}");
        Some(counts.get(7))
    };
    let line = "exec python3 -I -S -c \"$1\" \"$2\"";
    // A sixteenth of what is left of 32 MiB is less than 16 files; each thread may begin one before it is known how large they
    // are.
    let most = 16 + 8 + 32;
    let limited = format!("echo $$ >{}/cgroup.procs && {line}", group.path().display());
    let Some(few) = opened(&limited) else { return };
    assert!(few <= most, "{few} files are read ahead");
    let is_more = (0..8).any(|_| opened(line).is_none_or(|many| many > most));
    assert!(is_more, "without a limit not more than {most} files are read ahead");
}
