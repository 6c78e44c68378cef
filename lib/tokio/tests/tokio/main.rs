//! Files for async programs, on two runtimes.

mod cancelled;
mod edges;
mod files;
#[path = "../filter/mod.rs"]
mod filter;
mod names;
mod object_ranges;
#[cfg(feature = "tokio")]
mod static_files;
#[cfg(feature = "tokio")]
mod stream;
#[cfg(feature = "tokio")]
mod suite;

use std::fs::File;
use std::future::Future;
use std::io::Write;

/// Runs it on tokio's executor, and on one of another kind.
fn on_both<F: Future<Output = ()>>(work: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(work());
    futures_lite::future::block_on(work());
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

/// A file below the build's folder, which is on a disk where the machine has one.
fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(content).unwrap();
    file
}

/// Has the kernel forget the file's content, as far as the file system does so.
fn make_cold(file: &File) {
    file.sync_all().unwrap();
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}
