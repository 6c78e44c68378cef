//! Functions with the names of `tokio::fs`, held against those.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use kumiki_tokio::fs;

use super::{content, file, make_cold, on_both};

#[test]
fn files_are_read_whole_as_tokio_reads_them() {
    let all = content(300_000);
    let temporary = file(&all);
    on_both(|| async {
        for cold in [false, true] {
            if cold {
                make_cold(temporary.as_file());
            }
            assert!(fs::read(temporary.path()).await.unwrap() == all);
        }
        for path in ["/proc/self/status", "/dev/null", "/etc/hostname"] {
            let known = std::fs::read(path).unwrap();
            assert_eq!(fs::read(path).await.unwrap().is_empty(), known.is_empty(), "{path}");
        }
        for path in ["/no/such", "/etc", "/etc/passwd/below", "a\0b"] {
            let theirs = std::fs::read(path).unwrap_err();
            let ours = fs::read(path).await.unwrap_err();
            assert_eq!((ours.kind(), ours.raw_os_error()), (theirs.kind(), theirs.raw_os_error()));
        }
    });
}

/// What a thread writes to a FIFO, this way or that, is all read, and its writer is released.
#[test]
fn a_fifo_is_read_as_std_reads_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for round in 0..40 {
        let to = path.clone();
        let (come, ready) = std::sync::mpsc::channel();
        // Before the reader, behind it, or at the same time; in one piece or in two.
        let writer = std::thread::spawn(move || {
            come.send(()).unwrap();
            if round % 2 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let mut file = std::fs::File::options().write(true).open(to)?;
            file.write_all(b"hello, ")?;
            if round % 3 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            file.write_all(b"reader")
        });
        ready.recv().unwrap();
        if round % 4 == 1 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let read = runtime.block_on(async {
            tokio::time::timeout(std::time::Duration::from_secs(20), fs::read(&path)).await
        });
        let read =
            read.unwrap_or_else(|_| panic!("round {round}: it waits though the writer is gone"));
        assert_eq!(read.unwrap(), b"hello, reader", "{round}");
        writer.join().unwrap().unwrap();
    }
}

#[test]
fn attributes_and_paths_are_those_that_std_tells() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("file"), content(77)).unwrap();
    std::os::unix::fs::symlink("file", path("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("broken")).unwrap();
    on_both(|| async {
        for name in ["file", "link", "."] {
            let (ours, theirs) =
                (fs::metadata(path(name)).await.unwrap(), std::fs::metadata(path(name)).unwrap());
            assert_eq!(
                (ours.len(), ours.is_file(), ours.is_dir()),
                (theirs.len(), theirs.is_file(), theirs.is_dir())
            );
            assert_eq!(ours.modified().unwrap(), theirs.modified().unwrap());
            let canonical = fs::canonicalize(path(name)).await.unwrap();
            assert_eq!(canonical, std::fs::canonicalize(path(name)).unwrap());
        }
        assert!(fs::symlink_metadata(path("broken")).await.unwrap().is_symlink());
        for name in ["broken", "none"] {
            let theirs = std::fs::metadata(path(name)).unwrap_err();
            assert_eq!(fs::metadata(path(name)).await.unwrap_err().kind(), theirs.kind());
            assert_eq!(fs::canonicalize(path(name)).await.unwrap_err().kind(), theirs.kind());
        }
    });
}

async fn entries(path: &Path) -> BTreeSet<std::path::PathBuf> {
    let (mut list, mut found) = (fs::read_dir(path).await.unwrap(), BTreeSet::new());
    while let Some(entry) = list.next_entry().await.unwrap() {
        assert_eq!(entry.path(), path.join(entry.file_name()));
        assert!(entry.metadata().await.unwrap().is_file());
        assert!(found.insert(entry.path()));
    }
    assert!(list.next_entry().await.unwrap().is_none());
    found
}

#[test]
fn a_directory_s_entries_are_all_there_once() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // More than one part of them.
    let names = (0..1500).map(|at| folder.path().join(format!("{at:040}")));
    let names: BTreeSet<_> = names.collect();
    names.iter().for_each(|name| std::fs::write(name, "").unwrap());
    on_both(|| async {
        assert!(entries(folder.path()).await == names);
        // A future that is given up half way loses none.
        let (mut list, mut found) = (fs::read_dir(folder.path()).await.unwrap(), BTreeSet::new());
        loop {
            let given_up = futures_lite::future::poll_once(list.next_entry()).await;
            let entry = match given_up {
                Some(entry) => entry,
                None => list.next_entry().await,
            };
            let Some(entry) = entry.unwrap() else { break };
            assert!(found.insert(entry.path()));
        }
        assert!(found == names);
        assert!(fs::read_dir("/etc/passwd").await.is_err());
    });
}
