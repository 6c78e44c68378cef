//! The disk on which the server keeps its keys: in memory, so that it can be filled.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::resp::{Connection, Value, words};
use crate::faults::Fault;
use crate::ground::Ground;
use crate::soak::Soak;

/// Beginning of the server's refusal of what has no room there.
pub(super) const FULL: &str = "MISCONF";
/// Bytes of the disk: two snapshots of all memory, and the logs between them, are far less.
const BYTES: usize = 512 << 20;
/// Bytes that are written to it at once.
const PIECE: usize = 1 << 20;
/// Name by which such refusals are counted.
pub(super) const REFUSED: &str = "refused by a full disk";
/// The server refuses what is written after so long, on however busy a machine.
const REFUSES: Duration = Duration::from_secs(60);
/// The server takes commands again so long after the disk has room: a snapshot that has failed is tried again after 10 s,
/// and it may be what makes room.
const RECOVERS: Duration = Duration::from_secs(30);
/// Time after the last look for which clients may be refused.
const EXCUSE: Duration = Duration::from_secs(1);

/// Makes it; its folder.
pub(super) fn made(ground: &Ground) -> Result<PathBuf> {
    let folder = ground.path("kept");
    ground.memory(&folder, BYTES)?;
    Ok(folder)
}

/// Fills it, frees it, and looks whether what was refused is done again.
pub(super) fn full<'a>(soak: &'a Soak, folder: &'a Path, address: SocketAddr) -> Fault<'a> {
    Fault::new("disk full", move |rng| {
        let path = folder.join("filled");
        let filled = until_refused(soak, &path, address);
        let until = Instant::now() + Duration::from_millis(rng.u64(1..500));
        while Instant::now() < until && !soak.is_over() {
            soak.excuse(EXCUSE);
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::remove_file(&path)?;
        filled?;
        let begun = Instant::now();
        while !soak.is_over() {
            soak.excuse(EXCUSE);
            // Descriptors may be out, and a client is refused then.
            let set = words(&[b"SET", b"after a full disk", b"1"]);
            match Connection::new(address).and_then(|mut it| it.ask(&set)) {
                Ok(Value::Text(_)) => break,
                other if begun.elapsed() > RECOVERS => {
                    bail!("the disk has had room again for {RECOVERS:?}, and a SET is {other:?}")
                }
                Ok(_) | Err(_) => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    })
}

/// Fills the disk, and has the server use up the files that it has made ahead, until it refuses.
fn until_refused(soak: &Soak, path: &Path, address: SocketAddr) -> Result<()> {
    let set = words(&[b"SET", b"to a full disk", &[b'x'; 60_000]]);
    let begun = Instant::now();
    let mut connection = None;
    while !soak.is_over() {
        // Again and again: a snapshot that was under way takes the place of logs, and their room is free.
        fill(soak, path)?;
        // Descriptors may be out.
        let mut asked = match connection.take().map_or_else(|| Connection::new(address), Ok) {
            Ok(connection) => connection,
            Err(_) => continue,
        };
        match asked.ask(&set) {
            Ok(Value::Error(text)) if text.starts_with(FULL) => {
                soak.count(REFUSED);
                return Ok(());
            }
            other if begun.elapsed() > REFUSES => {
                bail!("the disk has been full for {REFUSES:?}, and a SET is {other:?}")
            }
            Ok(_) => connection = Some(asked),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Writes more to a file, until there is no room.
fn fill(soak: &Soak, path: &Path) -> Result<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    let piece = vec![b'x'; PIECE];
    loop {
        soak.excuse(EXCUSE);
        match file.write(&piece) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
