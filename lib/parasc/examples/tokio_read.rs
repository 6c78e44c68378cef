//! Reads files side by side, as futures on tokio's executor.
//!
//! ```console
//! $ cargo run --package kumiki-parasc --example tokio_read -- Cargo.toml README.md
//! ```
//!
//! A submitted operation is a future like any other: it can be awaited, raced
//! against a time limit, or dropped. The buffer stays with the operation until
//! the kernel is done with it, whatever becomes of the future.

use std::error::Error;
use std::fs::File;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use kumiki_parasc::op::{Errno, Pread};
use kumiki_parasc::{Config, Engine};

/// Bytes of each call.
const PIECE: usize = 64 * 1024;

/// The length of a file, found by reading all of it.
async fn read(engine: &Engine, path: &str) -> Result<u64, Box<dyn Error>> {
    let mut operation = Pread::new(File::open(path)?, 0, vec![0; PIECE].into_boxed_slice());
    let mut total = 0;
    loop {
        let completed = engine.submit(operation).await?;
        match completed.output {
            Ok(0) => return Ok(total),
            Ok(count) => total += count as u64,
            // As for a call of one's own.
            Err(Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        let (file, _, buffer) = completed.operation.into_parts();
        operation = Pread::new(file, total, buffer);
    }
}

/// Reads all of them at the same time; for each its length, or why there is none.
pub(crate) async fn lengths(
    paths: Vec<String>,
) -> Result<Vec<(String, Result<u64, String>)>, Box<dyn Error>> {
    let engine = Arc::new(Engine::new(&Config::default())?);
    let tasks: Vec<_> = paths
        .into_iter()
        .map(|path| {
            let engine = Arc::clone(&engine);
            let local = async move {
                let length = read(&engine, &path).await.map_err(|error| error.to_string());
                (path, length)
            };
            tokio::spawn(local)
        })
        .collect();
    let mut lengths = Vec::new();
    for task in tasks {
        lengths.push(task.await?);
    }
    Ok(lengths)
}

#[allow(dead_code, reason = "the test that includes this file has its own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        eprintln!("usage: tokio_read FILE...");
        return Ok(ExitCode::from(2));
    }
    let mut failed = false;
    for (path, length) in lengths(paths).await? {
        match length {
            Ok(length) => println!("{length:>12} {path}"),
            Err(error) => {
                eprintln!("{path}: {error}");
                failed = true;
            }
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
