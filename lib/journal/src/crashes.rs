//! Processes that are killed and machines whose power is cut at any operation of a disk, again and again: what was answered
//! is there, in its order, and nothing else is.
//!
//! ```text
//!  killed      what was written is in the machine's memory: the next process sees it, and it may yet be lost
//!  power cut   flushed bytes and synced names are there; of the rest each sector is or is not, and names up to some moment
//! ```
//!
//! The journal's own code runs in every life: reading, sweeping, settling, frames, files made ahead, snapshots, a last
//! word. Only the disk is played.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::files::{Reader, read, settle};
use crate::segments::Segments;
use crate::snapshot::{Snapshot, sweep};

/// Bytes of a sector: one is there or is not.
const SECTOR: usize = 512;
/// Bytes of a log's file: a few frames fill it.
const FILE: u64 = 4096;
const WORD: &[u8] = b"elsewhere";

/// An operation that may be lost.
#[derive(Clone, Debug)]
enum Op {
    Write { inode: usize, at: usize, bytes: Vec<u8> },
    End { inode: usize, bytes: usize },
    Flush { inode: usize },
    Create { name: String, inode: usize },
    Rename { from: String, to: String },
    Remove { name: String },
    Sync,
}

/// Names, and what is in the files.
#[derive(Clone, Debug, Default)]
struct Files {
    names: BTreeMap<String, usize>,
    inodes: Vec<Vec<u8>>,
}

impl Files {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { inode, at, bytes } => {
                let file = &mut self.inodes[*inode];
                file.resize(file.len().max(at + bytes.len()), 0);
                file[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Op::End { inode, bytes } => self.inodes[*inode].resize(*bytes, 0),
            Op::Create { name, inode } => _ = self.names.insert(name.clone(), *inode),
            Op::Rename { from, to } => {
                if let Some(inode) = self.names.remove(from) {
                    self.names.insert(to.clone(), inode);
                }
            }
            Op::Remove { name } => _ = self.names.remove(name),
            Op::Flush { .. } | Op::Sync => {}
        }
    }
}

/// A disk, and the process that uses it.
struct State {
    /// Files that are there whatever comes, but for what stands in `ops`.
    kept: Files,
    /// Files as the process sees them.
    seen: Files,
    ops: Vec<Op>,
    /// Operations before the process is killed, or the power is cut.
    left: usize,
}

#[derive(Clone)]
struct Played(Arc<Mutex<State>>);

/// Numbers of one seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % most as u64) as usize
    }

    fn is_heads(&mut self) -> bool {
        self.below(2) == 1
    }
}

impl Played {
    fn new() -> Played {
        let (kept, seen) = (Files::default(), Files::default());
        Played(Arc::new(Mutex::new(State { kept, seen, ops: Vec::new(), left: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Does an operation, or is the end of the process: of a write then some sectors have come.
    fn does(&self, op: Op) -> io::Result<()> {
        let mut state = self.state();
        let is_over = state.left == 0;
        state.left = state.left.saturating_sub(1);
        let op = match op {
            Op::Write { inode, at, mut bytes } if is_over => {
                bytes.truncate(bytes.len() / 2 / SECTOR * SECTOR);
                Op::Write { inode, at, bytes }
            }
            _ if is_over => return Err(io::Error::other("the process has ended")),
            op => op,
        };
        state.seen.apply(&op);
        state.ops.push(op);
        match is_over {
            true => Err(io::Error::other("the process has ended")),
            false => Ok(()),
        }
    }

    /// The power is cut: what was not flushed is there or not.
    fn cut(&self, dice: &mut Dice) {
        let mut state = self.state();
        let ops = std::mem::take(&mut state.ops);
        let synced = ops.iter().rposition(|op| matches!(op, Op::Sync)).unwrap_or(0);
        let named = synced + dice.below(ops.len() - synced + 1);
        let mut flushed = BTreeMap::new();
        for (at, op) in ops.iter().enumerate() {
            if let Op::Flush { inode } = op {
                flushed.insert(*inode, at);
            }
        }
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Create { .. } | Op::Rename { .. } | Op::Remove { .. } if at >= named => {}
                Op::Write { inode, .. } | Op::End { inode, .. }
                    if flushed.get(inode).is_some_and(|flush| at < *flush) =>
                {
                    state.kept.apply(op);
                }
                Op::Write { inode, at, bytes } => {
                    let (mut at, mut rest) = (*at, &bytes[..]);
                    while !rest.is_empty() {
                        let (sector, behind) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                        if dice.is_heads() {
                            let (inode, bytes) = (*inode, sector.to_vec());
                            state.kept.apply(&Op::Write { inode, at, bytes });
                        }
                        (at, rest) = (at + sector.len(), behind);
                    }
                }
                Op::End { .. } if dice.is_heads() => {}
                op => state.kept.apply(op),
            }
        }
        state.seen = state.kept.clone();
    }
}

struct PlayedFile {
    disk: Played,
    inode: usize,
}

impl Disk for Played {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().seen.names.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.state();
        let inode = state.seen.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.seen.inodes[*inode].clone())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let inode = {
            let mut state = self.state();
            // Where the file is not flushed its room may not be there.
            state.kept.inodes.push(Vec::new());
            state.seen.inodes.push(Vec::new());
            state.seen.inodes.len() - 1
        };
        self.does(Op::Create { name: name.to_owned(), inode })?;
        if bytes > 0 {
            self.does(Op::End { inode, bytes: bytes as usize })?;
        }
        Ok(Box::new(PlayedFile { disk: self.clone(), inode }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let inode = *self.state().seen.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(PlayedFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if !self.state().seen.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.does(Op::Rename { from: from.to_owned(), to: to.to_owned() })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.state().seen.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.does(Op::Remove { name: name.to_owned() })
    }

    fn sync(&self) -> io::Result<()> {
        self.does(Op::Sync)
    }

    fn name(&self) -> String {
        "played".to_owned()
    }

    fn file_bytes(&self) -> u64 {
        FILE
    }
}

impl DiskFile for PlayedFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (inode, at, bytes) = (self.inode, at as usize, bytes.to_vec());
        self.disk.does(Op::Write { inode, at, bytes })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.does(Op::Flush { inode: self.inode })
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.does(Op::End { inode: self.inode, bytes: bytes as usize })
    }
}

/// A record: its number, and so many bytes that are it too.
fn record(number: u64, bytes: usize) -> Vec<u8> {
    let mut record = [number.to_le_bytes(), (bytes as u64).to_le_bytes()].concat();
    record.resize(record.len() + bytes, number as u8);
    record
}

/// The number of the last record; each is one more than the one before. A snapshot has all of them as one.
#[derive(Default)]
struct Last(u64);

impl Reader for Last {
    type Error = Error;

    fn head(&mut self, _: &str, payload: &[u8]) -> Result<()> {
        assert_eq!(payload, b"head");
        Ok(())
    }

    fn records(&mut self, mut payload: &[u8]) -> std::result::Result<(), String> {
        while let Some((head, rest)) = payload.split_first_chunk::<16>() {
            let [number, bytes] = [0, 8].map(|at| {
                u64::from_le_bytes(*head[at..].first_chunk().expect("there are sixteen bytes"))
            });
            if bytes == u64::MAX {
                self.0 = number;
                payload = rest;
                continue;
            }
            if number != self.0 + 1 {
                return Err(format!("record {number} stands behind {}", self.0));
            }
            let (padding, rest) = rest.split_at(bytes as usize);
            if padding.iter().any(|byte| *byte != number as u8) {
                return Err(format!("record {number} is not what it was"));
            }
            (self.0, payload) = (number, rest);
        }
        Ok(())
    }
}

/// A step of a process.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Records that are answered when it returns.
    Write {
        records: usize,
        bytes: usize,
    },
    Prepare,
    BeginSnapshot,
    EndSnapshot,
}

/// A process, and its end.
#[derive(Clone, Debug)]
struct Life {
    steps: Vec<Step>,
    /// Says that all has left, if it comes so far.
    leaves: bool,
    /// Ends by itself, if it comes so far.
    ends: bool,
    /// Operations of the disk before it is killed.
    operations: usize,
    is_cut: bool,
    seed: u64,
}

/// Promises that were made.
#[derive(Debug, Default)]
struct Promised {
    /// Number of the last record that was answered.
    answered: u64,
    /// Number of the last record that may be there.
    written: u64,
    /// All has left, and who has it was told so.
    has_left: bool,
    /// A last word may be there.
    may_have_left: bool,
}

impl Promised {
    /// A process that reads what is there, and goes on.
    fn live(&mut self, disk: &Played, life: &Life) -> Result<()> {
        let mut last = Last::default();
        let found = read(disk, None, &mut last).expect("what is there can be read");
        assert!(
            (self.answered..=self.written).contains(&last.0),
            "{} records are there: {self:?}",
            last.0
        );
        assert!(found.left.is_some() || !self.has_left, "it has left, and does not say so");
        assert!(found.left.is_none() || self.may_have_left, "it says that it has left");
        assert!(found.left.as_ref().is_none_or(|word| word == WORD));
        (self.written, self.may_have_left) = (last.0, found.left.is_some());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        sweep(disk)?;
        settle(disk, &found)?;
        // From here on others may be answered by what was read.
        self.answered = last.0;
        if self.may_have_left {
            self.has_left = true;
            return Ok(());
        }
        let mut segments = Segments::behind(&shared, b"head".to_vec(), &found)?;
        let mut snapshot = None;
        for step in &life.steps {
            match *step {
                Step::Write { records, bytes } => {
                    let numbers = self.written + 1..=self.written + records as u64;
                    self.written = *numbers.end();
                    let records: Vec<_> = numbers.map(|one| record(one, bytes)).collect();
                    segments.write(&records)?;
                    self.answered = self.written;
                }
                Step::Prepare => segments.prepare().map_err(|source| Error::Io {
                    what: "making a file ahead".to_owned(),
                    source,
                })?,
                Step::BeginSnapshot if snapshot.is_none() => {
                    let below = segments.first();
                    let mut last = Last::default();
                    read(disk, Some(below), &mut last).expect("what is closed can be read");
                    let mut new = Snapshot::begin(&shared, b"head", below)?;
                    let all = [last.0.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
                    new.frame().extend_from_slice(&all);
                    new.gathered()?;
                    snapshot = Some(new);
                }
                Step::EndSnapshot => _ = snapshot.take().map(Snapshot::end).transpose()?,
                Step::BeginSnapshot => {}
            }
        }
        if life.leaves {
            self.may_have_left = true;
            segments.leave(WORD)?;
            self.has_left = true;
        } else if life.ends {
            segments.end()?;
        }
        Ok(())
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write =
        (1..4_usize, 0..1500_usize).prop_map(|(records, bytes)| Step::Write { records, bytes });
    vec(
        prop_oneof![
            6 => write,
            1 => Just(Step::Prepare),
            1 => Just(Step::BeginSnapshot),
            1 => Just(Step::EndSnapshot),
        ],
        0..24,
    )
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let rarely = || prop::bool::weighted(0.05);
    let life = (steps(), rarely(), any::<bool>(), 0..160_usize, any::<bool>(), any::<u64>());
    let life = life.prop_map(|(steps, leaves, ends, operations, is_cut, seed)| Life {
        steps,
        leaves,
        ends,
        operations,
        is_cut,
        seed,
    });
    vec(life, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn what_was_answered_is_there_after_any_end(lives in lives()) {
        let (disk, mut promised) = (Played::new(), Promised::default());
        for life in &lives {
            disk.state().left = life.operations;
            // What fails is the end of the process.
            let _ = promised.live(&disk, life);
            if life.is_cut {
                disk.cut(&mut Dice(life.seed));
            }
        }
        disk.state().left = usize::MAX;
        promised.live(&disk, &Life { steps: vec![], leaves: false, ends: true, operations: 0, is_cut: false, seed: 0 }).unwrap();
    }
}
