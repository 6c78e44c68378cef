//! Calls that are tried before they are handed over.

mod chain;
mod descriptor;
mod equal;
mod refused;

use std::fs::File;
use std::io::Write;

use kumiki_parasc::{Config, Engine};
use rustix::fs::{Advice, fadvise};

fn engine() -> Engine {
    Engine::new(&Config::default()).unwrap()
}

/// A file below the build's folder, which is on a disk where the machine has one.
fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
    file.write_all(content).unwrap();
    file
}

/// Has the kernel forget the file's content, as far as the file system does so.
fn make_cold(file: &File) {
    file.sync_all().unwrap();
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
}
