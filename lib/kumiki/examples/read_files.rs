//! Reads every file of a folder, however many: those in memory are read at once, the others by
//! many threads at the same time. Feature `parasc`.
//!
//! ```console
//! $ cargo run -p kumiki --features parasc --example read_files -- /etc
//! ```

use std::env;
use std::error::Error;
use std::ffi::CString;
use std::fs::{self, File};
use std::sync::Arc;

use kumiki::parasc::op::path;
use kumiki::parasc::tries::OpenRead;
use kumiki::parasc::{Config, Engine};

/// Files that are read at the same time: their contents are in memory together.
const AT_ONCE: usize = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).ok_or("usage: read_files FOLDER")?;
    let mut names: Vec<CString> = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(path::terminated(entry.file_name())?);
        }
    }
    let folder = Arc::new(File::open(&folder)?);
    let engine = Engine::new(&Config::default())?;
    let (mut files, mut bytes) = (0, 0);
    for names in names.chunks(AT_ONCE) {
        let reads = names.iter().map(|name| OpenRead::new(Arc::clone(&folder), name.clone()));
        for (read, name) in engine.attempt_all(reads).into_iter().zip(names) {
            match read.wait()?.output {
                Ok(opened) => {
                    files += 1;
                    bytes += opened.data.len();
                }
                Err(error) => eprintln!("{}: {error}", name.to_string_lossy()),
            }
        }
    }
    println!("{files} files, {bytes} bytes");
    Ok(())
}
