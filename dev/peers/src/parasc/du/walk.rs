//! Walkers for which the bench is the program: crates, and a ring.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow};
use ignore::{ParallelVisitor, ParallelVisitorBuilder, WalkState};

mod ring;

/// The walker that needs io_uring.
pub(crate) const RING: &str = "io_uring";

/// All.
pub(crate) const NAMES: &[&str] = &["jwalk", "ignore", "dua", RING];

/// Threads: as many as cpus that a bench has.
const THREADS: usize = 2;

/// Contents of a tree, hard links counted once.
#[derive(Debug, Default)]
pub(crate) struct Total {
    /// Blocks of files with one name.
    blocks: u64,
    /// Of those with several, by device and inode.
    linked: HashMap<(u64, u64), u64>,
    /// Names, and the tree itself.
    pub(crate) entries: u64,
}

impl Total {
    /// Allocated KiB.
    pub(crate) fn kib(&self) -> u64 {
        // A block of stat(2) has 512 bytes.
        (self.blocks + self.linked.values().sum::<u64>()) / 2
    }

    fn add(&mut self, directory: bool, links: u64, file: (u64, u64), blocks: u64) {
        self.entries += 1;
        if links > 1 && !directory {
            self.linked.insert(file, blocks);
        } else {
            self.blocks += blocks;
        }
    }

    fn add_metadata(&mut self, metadata: &std::fs::Metadata) {
        let file = (metadata.dev(), metadata.ino());
        self.add(metadata.is_dir(), metadata.nlink(), file, metadata.blocks());
    }

    fn merge(&mut self, other: Total) {
        self.blocks += other.blocks;
        self.entries += other.entries;
        self.linked.extend(other.linked);
    }
}

/// The walker of this name.
pub(crate) fn by_name(name: &str) -> Option<fn(&Path) -> Result<Total>> {
    Some(match name {
        "jwalk" => jwalk,
        "ignore" => ignore,
        "dua" => dua,
        RING => ring::walk,
        _ => return None,
    })
}

/// Reads attributes in its threads, as its documentation shows.
fn jwalk(tree: &Path) -> Result<Total> {
    type Walk = jwalk::WalkDirGeneric<((), Option<std::fs::Metadata>)>;
    let walk = Walk::new(tree)
        .skip_hidden(false)
        .sort(false)
        .parallelism(jwalk::Parallelism::RayonNewPool(THREADS))
        .process_read_dir(|_, _, (), children| {
            for child in children.iter_mut().flatten() {
                child.client_state = child.metadata().ok();
            }
        });
    let mut total = Total::default();
    for entry in walk {
        let entry = entry?;
        let metadata = entry.client_state.as_ref();
        total.add_metadata(metadata.with_context(|| format!("{}", entry.path().display()))?);
    }
    Ok(total)
}

/// Each thread has a total of its own.
fn ignore(tree: &Path) -> Result<Total> {
    struct Visitors(Mutex<Result<Total>>);
    struct Visitor<'a> {
        total: Total,
        failed: Option<ignore::Error>,
        all: &'a Mutex<Result<Total>>,
    }

    impl<'a> ParallelVisitorBuilder<'a> for &'a Visitors {
        fn build(&mut self) -> Box<dyn ParallelVisitor + 'a> {
            Box::new(Visitor { total: Total::default(), failed: None, all: &self.0 })
        }
    }

    impl ParallelVisitor for Visitor<'_> {
        fn visit(&mut self, entry: Result<ignore::DirEntry, ignore::Error>) -> WalkState {
            match entry.and_then(|entry| entry.metadata()) {
                Ok(metadata) => self.total.add_metadata(&metadata),
                Err(error) => {
                    self.failed = Some(error);
                    return WalkState::Quit;
                }
            }
            WalkState::Continue
        }
    }

    impl Drop for Visitor<'_> {
        fn drop(&mut self) {
            let mut all = self.all.lock().expect("visitors do not panic");
            match (self.failed.take(), &mut *all) {
                (Some(error), _) => *all = Err(error.into()),
                (None, Ok(all)) => all.merge(std::mem::take(&mut self.total)),
                (None, Err(_)) => {}
            }
        }
    }

    let visitors = Visitors(Mutex::new(Ok(Total::default())));
    let walk =
        ignore::WalkBuilder::new(tree).standard_filters(false).threads(THREADS).build_parallel();
    walk.visit(&mut &visitors);
    visitors.0.into_inner().map_err(|_| anyhow!("a visitor panicked"))?
}

/// Walks as dua-cli does, by its library.
fn dua(tree: &Path) -> Result<Total> {
    let options = dua_core::Options::default();
    let walk = dua_core::walk(tree, THREADS, dua_core::Order::Completion, options, |_| true);
    let mut total = Total::default();
    for entry in walk {
        let entry = entry?;
        let metadata = entry.metadata.context("attributes were not left out")??;
        total.add_metadata(&metadata);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_walker_finds_everything_and_counts_links_once() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        std::fs::create_dir_all(root.join("a/.hidden/c")).unwrap();
        for i in 0..700 {
            std::fs::write(root.join(format!("a/{i}")), vec![1; 10_000]).unwrap();
        }
        std::fs::write(root.join("a/.hidden/c/.gitignore"), "*").unwrap();
        std::fs::hard_link(root.join("a/0"), root.join("a/.hidden/link")).unwrap();
        std::os::unix::fs::symlink("/", root.join("a/root")).unwrap();
        let mut sizes = Vec::new();
        for &name in NAMES {
            if name == RING && io_uring::IoUring::new(1).is_err() {
                eprintln!("skipped: io_uring is refused here");
                continue;
            }
            let total = by_name(name).unwrap()(root).unwrap();
            // The root, three folders, a symbolic link, the link, .gitignore.
            assert_eq!(total.entries, 700 + 1 + 3 + 1 + 1 + 1, "{name}");
            assert_eq!(total.linked.len(), 1, "{name}");
            sizes.push((total.kib(), name));
        }
        assert!(sizes.iter().all(|(kib, _)| *kib == sizes[0].0), "{sizes:?}");
        let du = std::process::Command::new("du").arg("-s").arg(root).output().unwrap();
        let du = String::from_utf8(du.stdout).unwrap();
        assert!(du.starts_with(&format!("{}\t", sizes[0].0)), "{sizes:?}, du {du}");
    }
}
