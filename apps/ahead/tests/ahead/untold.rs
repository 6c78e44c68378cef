//! File systems whose listings do not tell which names are folders: sshfs as soon as a listing comes from its own memory, and ext4 made
//! without that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scene::{Counts, ahead, at_times, has, run};

/// An ext4 file system in a file, mounted until it is dropped.
struct Mounted {
    folder: tempfile::TempDir,
    at: PathBuf,
}

impl Mounted {
    /// One whose listings tell no kinds; none, said why, where this user may not mount it.
    fn new() -> Option<Self> {
        if !has("mkfs.ext4") || !has("mount") {
            return None;
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (image, at) = (folder.path().join("image"), folder.path().join("at"));
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        fs::create_dir(&at).unwrap();
        let mut make = Command::new("mkfs.ext4");
        let (_, made) = run(make.args(["-q", "-F", "-O", "^filetype"]).arg(&image));
        assert!(made.status.success(), "{made:?}");
        let (_, mounted) = run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at));
        if !mounted.status.success() {
            println!("passed over: {}", String::from_utf8_lossy(&mounted.stderr));
            return None;
        }
        Some(Mounted { folder, at })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let (_, ended) = run(Command::new("umount").arg(&self.at));
        assert!(ended.status.success(), "{}: {ended:?}", self.folder.path().display());
    }
}

/// Folders three deep, beside files.
fn fill(above: &Path, depth: u32) {
    (0..12).for_each(|at| fs::write(above.join(format!("file{at}")), "text").unwrap());
    for at in 0..if depth < 3 { 8 } else { 0 } {
        let folder = above.join(format!("folder{at}"));
        fs::create_dir(&folder).unwrap();
        fill(&folder, depth + 1);
    }
}

/// Has a program walk such a tree; true if most of its folders were listed ahead and used.
fn are_listed(mounted: &Mounted, words: &[&str]) -> bool {
    let (_, expected) = run(Command::new(words[0]).args(&words[1..]).current_dir(&mounted.at));
    assert!(expected.status.success(), "{expected:?}");
    let mut command = ahead(words[0]);
    // All of it is in memory.
    let counts = Counts::of(command.env("KUMIKI_AHEAD", "cold=1"));
    let (_, output) = run(command.args(&words[1..]).current_dir(&mounted.at));
    assert_eq!(output, expected, "{words:?}");
    let (listed, used) = (counts.get(9), counts.get(10));
    println!("{words:?}: {listed} folders listed ahead, {used} used");
    // A file is listed by nobody.
    assert!(listed <= 584, "{listed} listed ahead");
    listed >= 100 && used * 2 >= listed
}

#[test]
fn folders_are_listed_ahead_by_what_is_found_of_their_names() {
    let Some(mounted) = Mounted::new() else { return };
    fill(&mounted.at, 0);
    for words in [&["du", "-s", "."][..], &["tar", "-cf", "-", "."], &["find", ".", "-size", "+1k"]]
    {
        if has(words[0]) {
            at_times(|| are_listed(&mounted, words));
        }
    }
}
