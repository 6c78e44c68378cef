//! Trees of which all attributes are in memory, as after `du` or `git status`, and contents are not: only reads sleep.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use rustix::fs::{Advice, fadvise, syncfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::scene::{Counts, ahead, at_times, has, run};

/// Has a file's contents be in no memory; false where the file system keeps them, or does not tell.
fn forget(file: &Path) -> bool {
    let open = File::open(file).unwrap();
    fadvise(&open, 0, None, Advice::DontNeed).unwrap();
    let mut byte = [0];
    let mut slices = [std::io::IoSliceMut::new(&mut byte)];
    preadv2(&open, &mut slices, 0, ReadWriteFlags::NOWAIT) == Err(Errno::AGAIN)
}

/// A tree on the disk of the build; none, said why, where its contents cannot be taken out of memory.
fn tree(folders: usize, files: usize) -> Option<tempfile::TempDir> {
    let tree = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let names: Vec<_> = (0..folders * files)
        .map(|at| tree.path().join(format!("folder{}/file{at}", at / files)))
        .collect();
    for name in &names {
        fs::create_dir_all(name.parent().unwrap()).unwrap();
        fs::write(name, [b'x'; 6000]).unwrap();
    }
    syncfs(File::open(tree.path()).unwrap()).unwrap();
    let is_cold = names.iter().filter(|name| forget(name)).count() * 2 >= names.len();
    // The trials above may have had them read.
    names.iter().for_each(|name| _ = fadvise(File::open(name).unwrap(), 0, None, Advice::DontNeed));
    if !is_cold {
        println!("passed over: contents stay in memory here, or the file system does not tell");
    }
    is_cold.then_some(tree)
}

/// Has tar read such a tree with the library in front; gives files that were opened ahead and used so, and processes with threads.
fn read(folders: usize, files: usize) -> Option<(u64, u64)> {
    let tree = tree(folders, files)?;
    let tar = |command: &mut Command| {
        // Not to /dev/null, for which it reads nothing.
        let line = "tar -cf - . | cksum";
        let (_, output) = run(command.args(["-c", line]).current_dir(tree.path()));
        assert!(output.status.success(), "{output:?}");
        output
    };
    let mut command = ahead("sh");
    let counts = Counts::of(&mut command);
    let output = tar(&mut command);
    assert_eq!(output, tar(&mut Command::new("sh")));
    println!("{} opened ahead, {} used, {} pools", counts.get(7), counts.get(8), counts.pools());
    Some((counts.get(8), counts.pools()))
}

#[test]
fn they_are_read_ahead_in_a_tree() {
    let is_much = |found: Option<(u64, u64)>| found.is_none_or(|(used, _)| used >= 400);
    at_times(|| !has("tar") || is_much(read(60, 20)));
}

#[test]
fn they_are_read_ahead_where_each_folder_has_a_few_files() {
    let is_much = |found: Option<(u64, u64)>| found.is_none_or(|(used, _)| used >= 200);
    at_times(|| !has("tar") || is_much(read(400, 2)));
}

/// Nothing has slept yet when tar comes to its one folder.
#[test]
fn they_are_read_ahead_in_one_large_folder() {
    let is_much = |found: Option<(u64, u64)>| found.is_none_or(|(used, _)| used >= 500);
    at_times(|| !has("tar") || is_much(read(1, 2000)));
}
