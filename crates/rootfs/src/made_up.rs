//! Archives as somebody may make them who means harm. For fuzzing, and for its twin among the
//! tests.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
