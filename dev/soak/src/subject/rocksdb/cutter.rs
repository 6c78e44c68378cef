//! Tables that are cut while a database reads them: what it answers is right or an error, and all is
//! right again when they are whole.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use super::words::{Word, Words, done};
use crate::content::File;
use crate::soak::Soak;

const KEYS: u32 = 300;
/// Bytes of a value, at most.
const MOST: usize = 4000;
/// Keys that are asked for at once.
const MANY: usize = 40;
/// Bytes by which RocksDB aligns what it reads ahead, direct or not.
const BLOCK: usize = 4096;

pub(super) struct Cutter {
    pub(super) soak: &'static Soak,
    pub(super) socket: PathBuf,
    /// Folder of its database.
    pub(super) folder: PathBuf,
    pub(super) way: &'static str,
    pub(super) rng: Rng,
}

/// State of a table that is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Whole,
    /// Cut between two blocks of the disk.
    CutAtBlock,
    /// Cut within one.
    CutWithin,
}

/// Findings of a look.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    right: u64,
    errors: u64,
}

fn key(key: u32) -> Vec<u8> {
    format!("{key:06}").into_bytes()
}

fn value(key: u32) -> Vec<u8> {
    File { number: key, most: MOST }.whole(1)
}

impl Cutter {
    pub(super) fn run(mut self) {
        while !self.soak.is_over() {
            let done = Words::connect(&self.socket).and_then(|words| match words {
                Some(mut words) => self.rounds(&mut words),
                None => Ok(None),
            });
            match done {
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => self.soak.fail(&format!("tables cut, {}: {error:#}", self.way)),
            }
        }
    }

    fn ask(&self, words: &mut Words, asked: &[&[u8]]) -> Result<Option<Vec<Word>>> {
        let what = String::from_utf8_lossy(asked[1]).into_owned();
        let _waits = self.soak.request(format!("{what}, of tables that are cut, {}", self.way));
        words.ask(asked)
    }

    /// Rounds with one process; none when that was killed.
    fn rounds(&mut self, words: &mut Words) -> Result<Option<()>> {
        fs::remove_dir_all(&self.folder).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let pairs: Vec<_> = (0..KEYS).map(|number| (key(number), value(number))).collect();
        let mut make: Vec<&[u8]> = vec![b"cut", b"make"];
        make.extend(pairs.iter().flat_map(|(key, value)| [&**key, &**value]));
        let Some(made) = self.ask(words, &make)? else { return Ok(None) };
        done(made)?;
        while !self.soak.is_over() {
            if self.round(words)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn round(&mut self, words: &mut Words) -> Result<Option<()>> {
        let Some(opened) = self.ask(words, &[b"cut", b"open"])? else { return Ok(None) };
        done(opened)?;
        let Some(found) = self.look(words, Table::Whole)? else { return Ok(None) };
        let mut sum = found;
        let tables = fs::read_dir(&self.folder)?.flatten().map(|entry| entry.path());
        let tables: Vec<_> =
            tables.filter(|path| path.extension() == Some("sst".as_ref())).collect();
        ensure!(!tables.is_empty(), "there are no tables");
        let table = &tables[self.rng.usize(..tables.len())];
        let bytes = fs::read(table).context("reading a table")?;
        let file = OpenOptions::new().write(true).open(table).context("opening a table")?;
        let (rest, how) = match (self.rng.usize(..bytes.len()), self.rng.bool()) {
            (rest, true) => (rest / BLOCK * BLOCK, Table::CutAtBlock),
            (rest, false) if rest % BLOCK == 0 => (rest, Table::CutAtBlock),
            (rest, false) => (rest, Table::CutWithin),
        };
        file.set_len(rest as u64).context("cutting a table")?;
        let looked = (0..4).try_fold(Some(()), |looked, _| match looked {
            Some(()) => Ok(self.look(words, how)?.map(|found| {
                sum.right += found.right;
                sum.errors += found.errors;
            })),
            None => Ok::<_, anyhow::Error>(None),
        });
        // Never with a hole: from the front on.
        file.write_all_at(&bytes[rest..], rest as u64).context("making a table whole")?;
        if looked?.is_none() || self.look(words, Table::Whole)?.is_none() {
            return Ok(None);
        }
        self.soak.count(&format!("tables cut, {}", self.way));
        self.soak.count_many(&format!("read right around a cut, {}", self.way), sum.right);
        self.soak.count_many(&format!("refused of a cut table, {}", self.way), sum.errors);
        Ok(Some(()))
    }

    /// Reads many keys, and some in their order; where a table is cut it may fail.
    fn look(&mut self, words: &mut Words, table: Table) -> Result<Option<Found>> {
        let may_fail = table != Table::Whole;
        let mut found = Found::default();
        let numbers: Vec<_> = (0..MANY).map(|_| self.rng.u32(..KEYS)).collect();
        let names: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        let way: &[u8] = if self.rng.bool() { b"async" } else { b"plain" };
        let mut asked: Vec<&[u8]> = vec![b"cut", b"get many", way];
        asked.extend(names.iter().map(|name| &**name));
        let Some(answer) = self.ask(words, &asked)? else { return Ok(None) };
        ensure!(answer.len() == MANY, "{} answers to {MANY} keys", answer.len());
        for (number, word) in numbers.iter().zip(answer) {
            match word {
                Word::Value(bytes) if bytes == value(*number) => found.right += 1,
                Word::Error(_) if may_fail => found.errors += 1,
                Word::Value(bytes) => bail!("key {number} holds {} other bytes", bytes.len()),
                other => bail!("key {number}: {other:?}"),
            }
        }
        // RocksDB 7.8 reads ahead in whole blocks, and ends by an assertion of its own where a read
        // comes to an end within one, cached or not (file_prefetch_buffer.cc:45).
        if table == Table::CutWithin {
            return Ok(Some(found));
        }
        // It ends by another one where a walk with `async_io` meets such an end (line 524).
        let way = if may_fail { b"plain" } else { way };
        let first = self.rng.u32(..KEYS);
        let count = MANY.to_string();
        let asked: [&[u8]; 5] = [b"cut", b"walk", way, &key(first), count.as_bytes()];
        let Some(mut answer) = self.ask(words, &asked)? else { return Ok(None) };
        let end = answer.pop().context("an empty answer")?;
        for (number, pair) in (first..).zip(answer.chunks(2)) {
            let right = [Word::Value(key(number)), Word::Value(value(number))];
            ensure!(pair == right, "{first} and those behind: another pair at {number}");
            found.right += 1;
        }
        match end {
            Word::Done => {
                let all = MANY.min((KEYS - first) as usize);
                // RocksDB 7.8 takes a table that is cut between blocks for one that ends there, and says
                // nothing: by posix:// alone, too (three of three runs of one seed).
                let short = answer.len() < 2 * all;
                ensure!(!short || may_fail, "{} of {all} in order", answer.len() / 2);
                found.errors += u64::from(short);
            }
            Word::Error(_) if may_fail => found.errors += 1,
            other => bail!("{other:?} after {} in order", answer.len() / 2),
        }
        Ok(Some(found))
    }
}
