//! How many bytes the files of a folder have: one batch of statx(2).
//!
//! ```console
//! $ cargo run --package kumiki-parasc --example batch_stat -- /usr/bin
//! ```

use std::error::Error;
use std::ffi::CString;
use std::fs::{self, File};
use std::process::ExitCode;

use kumiki_parasc::op::{AtFlags, Statx, StatxFlags, path};
use kumiki_parasc::{Config, Engine};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: batch_stat FOLDER");
        return Ok(ExitCode::from(2));
    };
    let names = fs::read_dir(&folder)?.map(|entry| Ok(path::terminated(entry?.file_name())?));
    let names = names.collect::<Result<Vec<CString>, Box<dyn Error>>>()?;
    let folder = File::open(&folder)?;

    let engine = Engine::new(&Config::default())?;
    let mut requester = engine.requester()?;
    let stat = |name| Statx::new(&folder, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::SIZE);
    let mut batch: Vec<_> = names.iter().map(stat).collect();
    let (mut bytes, mut failed) = (0, 0);
    let outputs = requester.run(&mut batch)?;
    for ((operation, output), name) in batch.iter().zip(outputs).zip(&names) {
        if let Err(errno) = output {
            eprintln!("{}: {errno}", name.to_string_lossy());
            failed += 1;
        }
        bytes += operation.attributes().map_or(0, |attributes| attributes.size());
    }
    println!("{} files, {bytes} bytes", names.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
