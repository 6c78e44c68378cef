//! Saves many files so that a power cut leaves each whole: written beside their places, flushed to
//! the disk at the same time, then renamed. Feature `parasc`.
//!
//! ```console
//! $ cargo run -p kumiki --features parasc --example save_files -- FOLDER 300
//! ```

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use kumiki::parasc::op::Fsync;
use kumiki::parasc::{Config, Engine};

/// Writes each of `files` into `folder`, all or none of it.
fn save(engine: &Engine, folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), Box<dyn Error>> {
    let beside = |name: &str| folder.join(format!(".{name}.new"));
    let mut flushes = Vec::new();
    for (name, content) in files {
        let mut file = File::create(beside(name))?;
        file.write_all(content)?;
        flushes.push(Fsync::new(file));
    }
    // One after the other each would wait for the disk by itself.
    for flushed in engine.requester()?.run(&mut flushes)? {
        flushed?;
    }
    for (name, _) in files {
        fs::rename(beside(name), folder.join(name))?;
    }
    // The names, too.
    Ok(File::open(folder)?.sync_all()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [folder, count] = &words[..] else { return Err("usage: save_files FOLDER COUNT".into()) };
    let count: usize = count.parse()?;
    let file = |n: usize| (format!("file-{n}"), format!("the content of {n}\n").into_bytes());
    let files: Vec<_> = (0..count).map(file).collect();
    save(&Engine::new(&Config::default())?, Path::new(folder), &files)?;
    println!("{count} files are on the disk");
    Ok(())
}
