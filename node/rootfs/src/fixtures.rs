//! Archives as somebody may make them who means harm. For fuzzing, and for its twin among the
//! tests.

mod about;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::layer::Reading;
use crate::limits::Limits;
use crate::read::Root;
use crate::store::Store;
use crate::tree::{About, Tree, What};

const LIMITS: Limits = Limits { bytes: 1 << 20, entries: 1000, names: 1 << 20 };
const OUTSIDE: &str = "outside";

/// Reads these bytes as a layer over some files, and lays out what comes of it. Nothing may
/// panic, and no file may change but those of its own folders.
pub fn layer(bytes: &[u8]) {
    let work = tempfile::tempdir().expect("a folder");
    let made = |name: &str| {
        let folder = work.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        folder
    };
    let (data, root) = (made("data"), made("root"));
    fs::write(work.path().join(OUTSIDE), OUTSIDE).expect("a file");
    let store = Store::new(&data, LIMITS.bytes);
    let mut reading = Reading::new("made up", base(), store, LIMITS);
    let read = reading.layer(bytes, 1, true);
    let Reading { tree, store, left_out, .. } = reading;
    if read.is_ok() {
        // Without the right to give files away it ends early, in order.
        let _ = Root::of(tree, store, left_out).lay_out(&root);
    }
    check(work.path(), &data);
}

/// Reads these bytes as an archive of all files. What is accepted is what `tar -x` makes of it,
/// unless that complains. As root, who may give files away.
pub fn like_tar(bytes: &[u8]) {
    let work = tempfile::tempdir().expect("a folder");
    let folder = |name: &str| {
        let folder = work.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        folder
    };
    let (data, ours, theirs) = (folder("data"), folder("ours"), folder("theirs"));
    let archive = work.path().join("archive.tar");
    fs::write(&archive, bytes).expect("a file");
    let source = crate::Source::Tar(archive.clone());
    let Ok(root) = crate::read(&source, &[], &data, LIMITS) else { return };
    if root.left_out() > 0 || root.lay_out(&ours).is_err() || !by_tar(&archive, &theirs) {
        return;
    }
    let differences = about::differences(&ours, &theirs, false);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Reads these bytes as a packed archive. However much they expand to, the limits hold.
pub fn packed(bytes: &[u8]) {
    const SMALL: Limits = Limits { bytes: 1 << 16, entries: 100, names: 1 << 14 };
    let work = tempfile::tempdir().expect("a folder");
    let (data, archive) = (work.path().join("data"), work.path().join("archive"));
    fs::create_dir(&data).expect("a folder");
    fs::write(&archive, bytes).expect("a file");
    let read = crate::read(&crate::Source::Tar(archive), &[], &data, SMALL);
    let kept = fs::read_dir(&data).expect("it is there").flatten();
    let kept: u64 = kept.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum();
    assert!(kept <= SMALL.bytes, "{kept} bytes are kept");
    if let Ok(root) = read {
        assert!(root.tree.len() as u64 <= 257 * SMALL.entries, "{} files", root.tree.len());
    }
}

/// Makes the checksum of each block what a header's is: bytes that were made up would not get past
/// it.
pub fn with_sums(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512).filter(|block| block.iter().any(|&byte| byte != 0)) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

/// Has GNU tar unpack an archive to a folder; whether it had nothing to complain of.
pub fn by_tar(archive: &Path, folder: &Path) -> bool {
    let mut command = Command::new("tar");
    command.args(["-x", "-p", "--delay-directory-restore", "--numeric-owner"]);
    command.args(["--xattrs", "--xattrs-include=*", "-f"]).arg(archive).arg("-C").arg(folder);
    let output = command.stdin(Stdio::null()).env("LC_ALL", "C").output().expect("tar is there");
    output.status.success()
}

fn base() -> Tree {
    let mut tree = Tree::new();
    let links = [("out", "/../.."), ("up", "../outside"), ("loop", "loop"), ("d/in", "../d")];
    for (path, target) in links {
        let link = What::Link(target.as_bytes().to_vec());
        tree.put(path.as_bytes(), link, About::default(), 0).expect("a good name");
    }
    tree.put(b"d/pipe", What::Fifo, About::default(), 0).expect("a good name");
    tree
}

fn check(work: &Path, data: &Path) {
    let outside = work.join(OUTSIDE);
    assert_eq!(fs::read(&outside).expect("it is there"), OUTSIDE.as_bytes());
    let about = fs::symlink_metadata(&outside).expect("it is there");
    assert!(about.nlink() == 1 && about.mode() & 0o7111 == 0, "{about:?}");
    let names = fs::read_dir(work).expect("it is there").count();
    assert_eq!(names, 3, "files beside its own");
    let kept: u64 = fs::read_dir(data)
        .expect("it is there")
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|about| about.len())
        .sum();
    assert!(kept <= LIMITS.bytes + 1, "{kept} bytes are kept");
}
