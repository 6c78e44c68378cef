//! `rocksdb_multiget_direct` and `rocksdb_multiget_warm`: a MultiGet of 64 keys, each in a block of
//! its own, from the disk and from the kernel's memory, beside RocksDB's own file system and a
//! copy of how it reads by io_uring, which Debian's is built without.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;

use super::folder::Folder;
use super::turns::{Measured, Subject, interleaved};
use crate::pair::Pair;
use crate::run::median_of;

const ROUNDS: usize = 9;
const KEYS: usize = 64;
const POSIX: &str = "posix";
/// Each by the name of its file system.
const SUBJECTS: [(&str, &str); 4] = [
    ("kumiki", "kumiki://"),
    ("kumiki/threads", "kumiki://threads"),
    (POSIX, "posix://"),
    ("io_uring", "io_uring://"),
];

/// Programs and libraries that `cargo xtask bench` has built beside our own.
fn beside(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "{} is not built: cargo xtask bench does so", path.display());
    Ok(path)
}

/// A program that has a database open; ends with its stdin.
struct Reader {
    child: Child,
    requests: ChildStdin,
    samples: BufReader<ChildStdout>,
}

impl Reader {
    fn start(folder: &Path, uri: &str, how: &str) -> Result<Self> {
        let mut command = Command::new(beside("rocksdb-multiget")?);
        command.arg(folder).args([uri, how]);
        if uri.starts_with("kumiki://") {
            command.env("LD_PRELOAD", beside("libkumiki-rocksdb.so")?);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take().context("its stdin")?;
        let samples = BufReader::new(child.stdout.take().context("its stdout")?);
        let mut reader = Reader { child, requests, samples };
        let said = reader.line()?;
        ensure!(said.trim() == "ready", "{uri} has said {said:?}");
        Ok(reader)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.samples.read_line(&mut line)?;
        ensure!(!line.is_empty(), "a program that reads a database has ended");
        Ok(line)
    }

    fn turn(&mut self) -> Result<Vec<f64>> {
        writeln!(self.requests, "turn")?;
        let line = self.line()?;
        let samples = line.split_whitespace().map(str::parse::<f64>);
        samples.collect::<Result<_, _>>().with_context(|| format!("samples: {line:?}"))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn rows(pair: Pair) -> Result<Vec<Row>> {
    pair.bind_both()?;
    let folder = Folder::new()?;
    let made = Command::new(beside("rocksdb-multiget")?).arg(folder.path()).arg("make").status()?;
    ensure!(made.success(), "making a database in {}: {made}", folder.path().display());
    let mut rows = Vec::new();
    for (case, how) in [("rocksdb_multiget_direct", "direct"), ("rocksdb_multiget_warm", "cached")]
    {
        let mut readers = Vec::new();
        for (_, uri) in SUBJECTS {
            readers.push(Reader::start(folder.path(), uri, how)?);
        }
        let turns = SUBJECTS.iter().zip(&mut readers);
        let mut subjects: Vec<Subject<'_>> =
            turns.map(|((name, _), reader)| (*name, Box::new(|| reader.turn()) as _)).collect();
        let groups = interleaved(ROUNDS, &mut subjects)?;
        let base = groups.iter().find(|(name, _)| *name == POSIX).map(|(_, its)| median_of(its));
        let row = |(name, its): &Measured| Row::of((case, name), "ns", its, base).of_size(KEYS);
        rows.extend(groups.iter().map(row));
    }
    Ok(rows)
}
