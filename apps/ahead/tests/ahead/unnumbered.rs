//! File systems whose listings tell no numbers of files, as sshfs's: a name is known by its folder and its text.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::asked::{by, is_much, is_once};
use crate::scene::{Counts, ahead, at_times, has, run};
use crate::slow::{Slow, Tree, What};

const ANSWER: Duration = Duration::from_millis(1);

fn tree() -> Tree {
    Tree::wide(30, 30, 3000)
}

/// Runs a program in the slow tree with the library and without; fails if what it writes differs, if a name or contents are asked twice,
/// or if others ask for little. Says how long both took.
fn asks(line: &str, what: &[What]) {
    let program = line.split(' ').next().unwrap();
    let Some(plain) = Slow::mount_unnumbered(tree(), ANSWER) else { return };
    if !has(program) {
        return;
    }
    let out = || tempfile::tempdir_in("/dev/shm").unwrap();
    let words = |command: &mut Command, slow: &Slow, out: &tempfile::TempDir| {
        command.args(["-c", &format!("exec {line}")]);
        command.current_dir(slow.path()).env("OUT", out.path());
    };
    let (mut command, folder) = (Command::new("sh"), out());
    words(&mut command, &plain, &folder);
    let began = Instant::now();
    let (_, expected) = run(&mut command);
    let took_plain = began.elapsed();
    assert!(expected.status.success(), "{line}: {expected:?}");
    at_times(|| {
        let Some(slow) = Slow::mount_unnumbered(tree(), ANSWER) else { return true };
        let (mut command, folder) = (ahead("sh"), out());
        let counts = Counts::of(&mut command);
        words(&mut command, &slow, &folder);
        let began = Instant::now();
        let (program, output) = run(&mut command);
        let took = began.elapsed();
        println!("{line}: {took_plain:.2?}, ahead {took:.2?}");
        println!("{} folders listed ahead, {} of them used", counts.get(9), counts.get(10));
        assert_eq!(output, expected, "{line}");
        let asked = slow.asked();
        what.iter().all(|what| {
            let (own, others) = by(&asked, *what, program);
            println!("{what:?}: {own} by itself, {others} by others");
            // Of the first folders a part is read while nothing is asked ahead, which FUSE does not keep.
            (*what == What::Listed || is_once(&asked, *what)) && is_much(own, others)
        })
    });
}

#[test]
fn tar_has_attributes_and_contents_asked() {
    asks("tar -cf - .", &[What::Looked, What::Read]);
}

/// It lists by paths from the working folder, and its reader is a process of its own.
#[test]
fn rsync_has_attributes_and_contents_asked() {
    asks("rsync -a ./ $OUT/", &[What::Looked, What::Read]);
}

#[test]
fn find_by_size_has_attributes_asked() {
    asks("find . -type f -size +1k", &[What::Looked]);
}

#[test]
fn du_has_folders_listed() {
    asks("du -s .", &[What::Looked, What::Listed]);
}

#[test]
fn ls_has_folders_listed() {
    asks("ls -lRU --time-style=+ .", &[What::Looked, What::Listed]);
}

#[test]
fn what_a_program_does_not_look_at_is_not_asked() {
    let Some(slow) = Slow::mount_unnumbered(tree(), ANSWER) else { return };
    if !has("find") {
        return;
    }
    let (_, output) =
        run(ahead("find").arg(slow.path()).args(["-name", "file7", "-printf", "%f\n"]));
    assert_eq!(output.stdout, "file7\n".repeat(30).as_bytes());
    let of_files = |asked: &&crate::slow::Asked| {
        asked.what != What::Listed && !slow.tree.is_folder(asked.file)
    };
    let asked: Vec<_> = slow.asked().into_iter().filter(|asked| of_files(&asked)).collect();
    // Thirty that it prints are not looked at either.
    assert!(asked.is_empty(), "{asked:?}");
}
