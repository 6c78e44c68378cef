//! Files that a program opens by their names, in folders that it does not list.

use std::path::Path;
use std::time::Duration;

use crate::asked::{are_asked_by_others, by, is_much, is_once};
use crate::scene::{Counts, ahead, at_times, build, has, run};
use crate::slow::{Asked, Slow, Tree, What};

/// Time of an answer: long beside what a thread takes to be woken.
const ANSWER: Duration = Duration::from_millis(4);

/// A run of the program, as this process, with what it asked and the processes in which threads were begun.
struct Run {
    process: u32,
    asked: Vec<Asked>,
    pools: u64,
}

/// Has the program read so many files of so many folders; none where there is no slow disk.
fn read(words: &[&str], (folders, files): (usize, usize), in_each: usize) -> Option<Run> {
    let folder = tempfile::tempdir().unwrap();
    let program = build("names.c", folder.path());
    let slow = Slow::mount(Tree::wide(folders, in_each, 3000), ANSWER)?;
    if words == ["after-looking"] {
        // Its listing is in memory then, as where the names that are looked for have brought it.
        assert_eq!(std::fs::read_dir(slow.path().join("folder0")).unwrap().count(), in_each);
    }
    let mut command = ahead(&program);
    let counts = Counts::of(&mut command);
    command.args(words).arg(slow.path()).args([folders.to_string(), files.to_string()]);
    let (process, output) = run(command.current_dir(Path::new("/")));
    let expected = format!("{} bytes, 0 failed\n", folders * files * 3000);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    Some(Run { process, asked: slow.asked(), pools: counts.pools() })
}

#[test]
fn files_of_one_folder_are_asked_by_others_and_only_once() {
    at_times(|| {
        let Some(run) = read(&[], (1, 300), 300) else { return true };
        are_asked_by_others(&run.asked, &[What::Looked, What::Read], run.process)
    });
}

#[test]
fn files_of_many_small_folders_are_asked_by_others_and_only_once() {
    at_times(|| {
        let Some(run) = read(&[], (60, 10), 10) else { return true };
        are_asked_by_others(&run.asked, &[What::Looked, What::Read], run.process)
    });
}

#[test]
fn a_few_files_of_a_folder_start_no_threads() {
    let Some(run) = read(&[], (1, 10), 300) else { return };
    assert_eq!(run.pools, 0);
    let (_, others) = by(&run.asked, What::Looked, run.process);
    assert_eq!(others, 0);
}

#[test]
fn one_file_of_each_folder_has_few_asked_in_vain() {
    let Some(run) = read(&[], (200, 1), 30) else { return };
    let (own, others) = by(&run.asked, What::Read, run.process);
    println!("{own} read by itself, {others} by others, {} processes with threads", run.pools);
    assert!(own + others <= 200 + 64, "{others} read by others");
}

/// It may have interrupted the program's allocator.
#[test]
fn in_a_handler_of_a_signal_no_threads_are_started() {
    let Some(run) = read(&["in-handler"], (1, 300), 300) else { return };
    assert_eq!(run.pools, 0);
    let (_, others) = by(&run.asked, What::Read, run.process);
    assert_eq!(others, 0);
}

/// As an interpreter that looks for a package in several forms before it reads its folder.
#[test]
fn a_few_slow_looks_tell_that_a_folder_is_cold_whose_listing_is_in_memory() {
    at_times(|| {
        let Some(run) = read(&["after-looking"], (1, 300), 300) else { return true };
        assert_eq!(run.pools, 1);
        let (own, others) = by(&run.asked, What::Looked, run.process);
        is_much(own, others)
    });
}

/// As rsync, which makes its list of files some folders before it opens them.
#[test]
fn files_that_are_opened_in_a_second_pass_are_read_by_others_and_only_once() {
    at_times(|| {
        let Some(run) = read(&["two-passes"], (60, 20), 20) else { return true };
        let (own, others) = by(&run.asked, What::Read, run.process);
        println!("{own} read by itself, {others} by others");
        [What::Looked, What::Read].iter().all(|what| is_once(&run.asked, *what)) && others >= own
    });
}

/// Its sender opens files a thousand names behind its list.
#[test]
fn what_rsync_opens_behind_its_list_is_read_by_others_and_only_once() {
    if !has("rsync") {
        return;
    }
    at_times(|| {
        let Some(slow) = Slow::mount(Tree::wide(100, 30, 3000), ANSWER) else { return true };
        // In memory, where it can be.
        let out = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut command = ahead("rsync");
        command.arg("-a").arg(format!("{}/", slow.path().display())).arg(out.path());
        let (process, output) = run(&mut command);
        assert!(output.status.success(), "{output:?}");
        let asked = slow.asked();
        let (own, others) = by(&asked, What::Read, process);
        println!("{own} read by itself, {others} by others");
        assert!(own + others >= 3000);
        [What::Looked, What::Read].iter().all(|what| is_once(&asked, *what)) && others >= 2 * own
    });
}
