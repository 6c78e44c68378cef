//! Memory that the host's allocator does not hand out: blocks taken off line, and
//! what was kept from the host when it started.
//!
//! Which blocks are off line because of a node or an image stands in a file below
//! /run, written before the first of them goes: whoever gives the memory back,
//! also after a kill, brings them back on line.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_boot::Piece;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::memory::numa::{self, BLOCKS};
use crate::module::holding::Holding;
use crate::module::{abi, sysfs};
use crate::{Error, ErrorKind, Result, Subject};

const FIRMWARE: &str = "/sys/firmware/memmap";
const NOTES: &str = "/run/kumiki-osnode";

/// The kernel's unit of memory that is there or not.
const SECTION_BYTES: u64 = 128 << 20;

/// A block that takes longer has pages that do not move, or whose move needs memory
/// that is not free; the kernel would try for ever.
const BLOCK_LIMIT: Duration = Duration::from_secs(5);
/// Number of tries for a block that has to be this one.
const TRIES: usize = 3;
/// Interval at which a block on its way is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// Time for all blocks of one request.
const LIMIT: Duration = Duration::from_secs(60);

/// Held while nodes and images begin and end: a name does not begin again while
/// another process brings back what it had.
#[derive(Debug)]
pub struct Lock {
    _folder: File,
}

impl Lock {
    pub fn take() -> Result<Self> {
        fs::create_dir_all(NOTES).map_err(|error| Error::file(NOTES, error))?;
        let folder = File::open(NOTES).map_err(|error| Error::file(NOTES, error))?;
        flock(&folder, FlockOperation::LockExclusive)
            .map_err(|error| Error::file(NOTES, error.into()))?;
        Ok(Lock { _folder: folder })
    }

    /// Brings back what nodes and images had that are there no more, as after a kill.
    /// What does not come back now stays noted, and is tried again next time.
    pub fn sweep(&self) {
        for entry in fs::read_dir(NOTES).into_iter().flatten().flatten() {
            let file = entry.file_name();
            let holding = file.to_str().and_then(holding_of);
            if holding.is_some_and(|(kind, name)| !sysfs::exists(kind, name)) {
                let _ = Notes(entry.path()).bring_back(self);
            }
        }
    }
}

/// Owner whose notes a file of this name holds.
fn holding_of(file: &str) -> Option<(Holding, &str)> {
    let (noun, name) = file.strip_suffix(".blocks")?.split_once('-')?;
    let kind = [Holding::Node, Holding::Image].into_iter().find(|kind| kind.noun() == noun)?;
    Some((kind, name))
}

/// Notes of the blocks that one node or image has taken off line.
#[derive(Debug)]
pub struct Notes(PathBuf);

impl Notes {
    pub fn of(kind: Holding, name: &str) -> Self {
        Notes(Path::new(NOTES).join(format!("{}-{name}.blocks", kind.noun())))
    }

    fn read(&self) -> Vec<u64> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn write(&self, blocks: &[u64]) -> Result<()> {
        let text: String = blocks.iter().map(|block| format!("{block}\n")).collect();
        fs::create_dir_all(NOTES)
            .and_then(|()| {
                if !text.is_empty() {
                    return fs::write(&self.0, text);
                }
                match fs::remove_file(&self.0) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    removed => removed,
                }
            })
            .map_err(|error| Error::file(&self.0, error))
    }

    /// Brings them all back on line. Each is tried, and the first failure told.
    pub fn bring_back(&self, _lock: &Lock) -> Result<()> {
        if !self.0.exists() {
            return Ok(());
        }
        let (mut left, mut failure) = (Vec::new(), None);
        for block in self.read() {
            if let Err(error) = set_online(block) {
                left.push(block);
                failure.get_or_insert(error);
            }
        }
        self.write(&left)?;
        failure.map_or(Ok(()), Err)
    }

    /// Takes blocks of these NUMA nodes off line until they have `bytes`, and one run of
    /// neighbours among them has `first_bytes`. The run comes first.
    pub fn take(&self, bytes: u64, first_bytes: u64, numa_nodes: &[u32]) -> Result<Vec<Piece>> {
        let size = block_bytes()?;
        // Of an earlier piece.
        let before = self.read();
        let note = |blocks: &[u64]| self.write(&[&before, blocks].concat());
        let mut blocks = Vec::new();
        let begin = Instant::now();
        let near = |block: &u64| numa::has_block(numa_nodes, *block);
        for block in candidates()?.into_iter().filter(near) {
            if begin.elapsed() >= LIMIT {
                break;
            }
            blocks.push(block);
            // Before it goes: what is noted and on line is no trouble.
            note(&blocks)?;
            if !set_offline(block)? {
                blocks.pop();
                note(&blocks)?;
            }
            if let Some((pieces, spare)) = chosen(&blocks, size, bytes, first_bytes) {
                spare.iter().try_for_each(|&block| set_online(block))?;
                blocks.retain(|block| !spare.contains(block));
                note(&blocks)?;
                return Ok(pieces);
            }
        }
        let found = blocks.len() as u64 * size;
        blocks.iter().try_for_each(|&block| set_online(block))?;
        note(&[])?;
        Err(Error::refused(
            ErrorKind::NoMemory,
            Subject::Memory { asked: bytes, most: found },
            format!(
                "{found} of {bytes} bytes of memory could be taken off line within {LIMIT:?}{}: \
             start this machine with movablecore=SIZE, which keeps memory for that, or with \
             memmap=SIZE$ADDRESS",
                numa::restriction(numa_nodes)
            ),
        ))
    }
}

impl Notes {
    /// Blocks among them that are to be taken again if these pieces are given back; `None` if some
    /// of that was neither taken off line nor kept from this machine's kernel at its start.
    pub fn to_take_again(&self, pieces: &[Piece]) -> Result<Option<Vec<u64>>> {
        let noted = self.read();
        let size = if noted.is_empty() { u64::MAX } else { block_bytes()? };
        let aside = set_aside()?;
        let comes_back = |piece: &&Piece| {
            let mut blocks = piece.address / size..piece.end().div_ceil(size);
            blocks.all(|block| noted.contains(&block)) || aside.iter().any(|all| holds(all, piece))
        };
        Ok(pieces.iter().all(|piece| comes_back(&piece)).then_some(noted))
    }

    /// Takes these off line again for a node: all of them, or none.
    pub fn take_again(&self, node: &str, blocks: &[u64]) -> Result<()> {
        let refused = |block: u64, why: &str| {
            Err(Error::refused(
                ErrorKind::NoMemory,
                Subject::node(node),
                format!(
                    "node {node} sleeps without its memory, and memory block {block} of that {why} \
                     ({}): kumiki node start {node} tries it again, and starts it anew",
                    state(block).display()
                ),
            ))
        };
        for &block in blocks {
            if read_state(block)? != "online" {
                return refused(block, "is off line, for another node or by hand");
            }
        }
        // Before they go: what is noted and on line is no trouble.
        self.write(blocks)?;
        for (n, &block) in blocks.iter().enumerate() {
            let mut is_off = false;
            for _ in 0..TRIES {
                is_off = is_off || set_offline(block)?;
            }
            if !is_off {
                blocks[..n].iter().try_for_each(|&block| set_online(block))?;
                self.write(&[])?;
                return refused(block, "is in use by this machine, which does not move it");
            }
        }
        Ok(())
    }
}

fn holds(all: &Piece, piece: &Piece) -> bool {
    all.address <= piece.address && piece.end() <= all.end()
}

/// Whole blocks for a request, if there are enough: pieces, of which the first is
/// one run of `first_bytes` at least, and blocks that are not needed.
fn chosen(
    blocks: &[u64],
    size: u64,
    bytes: u64,
    first_bytes: u64,
) -> Option<(Vec<Piece>, Vec<u64>)> {
    let mut sorted = blocks.to_vec();
    sorted.sort_unstable();
    let mut runs: Vec<Vec<u64>> = Vec::new();
    for block in sorted {
        match runs.last_mut() {
            Some(run) if run.last() == Some(&(block - 1)) => run.push(block),
            _ => runs.push(vec![block]),
        }
    }
    // The longest first; it is the likeliest to hold the kernel.
    runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
    let mut left = bytes.div_ceil(size) as usize;
    if (runs.first()?.len() as u64) < first_bytes.div_ceil(size) || blocks.len() < left {
        return None;
    }
    let (mut pieces, mut spare) = (Vec::new(), Vec::new());
    for run in runs {
        let (taken, rest) = run.split_at(left.min(run.len()));
        left -= taken.len();
        spare.extend(rest);
        if let Some(first) = taken.first() {
            pieces.push(Piece { address: first * size, bytes: taken.len() as u64 * size });
        }
    }
    Some((pieces, spare))
}

fn block_bytes() -> Result<u64> {
    let path = Path::new(BLOCKS).join("block_size_bytes");
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Unsupported {
            feature: "taking memory off line".into(),
            needs: "a kernel with CONFIG_MEMORY_HOTPLUG".into(),
        },
        _ => Error::file(&path, error),
    })?;
    u64::from_str_radix(text.trim(), 16).map_err(|error| {
        Error::refused(
            ErrorKind::Unsupported,
            Subject::File(path.clone()),
            format!("{}: {text:?}: {error}", path.display()),
        )
    })
}

fn state(block: u64) -> PathBuf {
    Path::new(BLOCKS).join(format!("memory{block}/state"))
}

fn read_state(block: u64) -> Result<String> {
    let path = state(block);
    let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
    Ok(text.trim().to_owned())
}

/// Blocks on line, the likeliest to go first: those kept for movable pages, then from
/// the top, where the kernel itself is not.
fn candidates() -> Result<Vec<u64>> {
    let entries = fs::read_dir(BLOCKS).map_err(|error| Error::file(BLOCKS, error))?;
    let mut blocks = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(block) = name.strip_prefix("memory").and_then(|digits| digits.parse().ok()) else {
            continue;
        };
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let zones = read("valid_zones");
        if read("state").trim() == "online" && zones.trim() != "none" {
            blocks.push((!zones.contains("Movable"), std::cmp::Reverse(block)));
        }
    }
    blocks.sort_unstable();
    Ok(blocks.into_iter().map(|(_, block)| block.0).collect())
}

/// Takes the block off line, and returns true if it is. The kernel tries until it is sent a signal,
/// so another process asks it, and is killed when time is over.
fn set_offline(block: u64) -> Result<bool> {
    let path = state(block);
    let failed = |error| Error::os(format!("taking memory block {block} off line"), error);
    let mut command = Command::new("sh");
    command.args(["-c", "echo offline > \"$1\"", "sh"]).arg(&path);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    // It would try on if this process were killed.
    let dies_with_this = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(dies_with_this) };
    let mut child = command.spawn().map_err(failed)?;
    let begin = Instant::now();
    while child.try_wait().map_err(failed)?.is_none() {
        if begin.elapsed() >= BLOCK_LIMIT {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            break;
        }
        thread::sleep(LOOK);
    }
    // Not its exit status: it may have been killed a moment too late.
    Ok(read_state(block)? == "offline")
}

/// Brings a block back, for movable pages, so that it can go again.
fn set_online(block: u64) -> Result<()> {
    let path = state(block);
    let begin = Instant::now();
    loop {
        match &*read_state(block)? {
            "offline" => break,
            // Somebody who has just been killed asked for it.
            "going-offline" if begin.elapsed() < BLOCK_LIMIT => thread::sleep(LOOK),
            "going-offline" => {
                return Err(Error::refused(
                    ErrorKind::Busy,
                    Subject::File(path.clone()),
                    format!(
                        "memory block {block} is still being taken off line after {BLOCK_LIMIT:?} \
                     ({}): end who does that, then try again",
                        path.display()
                    ),
                ));
            }
            _ => return Ok(()),
        }
    }
    let written = fs::write(&path, "online_movable").or_else(|_| fs::write(&path, "online"));
    written.map_err(|error| {
        Error::os(format!("bringing memory block {block} on line ({})", path.display()), error)
    })
}

/// RAM by the firmware's word that the command line of this machine's kernel keeps
/// from it: `memmap=SIZE$ADDRESS` and what is beyond `mem=SIZE`.
pub fn set_aside() -> Result<Vec<Piece>> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| Error::file(path, error));
    let line = read(Path::new("/proc/cmdline"))?;
    let mut ram = Vec::new();
    // Not every firmware has such a map.
    for entry in fs::read_dir(FIRMWARE).into_iter().flatten().flatten() {
        let file = |name: &str| read(&entry.path().join(name));
        if file("type")?.trim() == "System RAM" {
            let number = |text: String| number(text.trim()).unwrap_or(0);
            ram.push((number(file("start")?), number(file("end")?).saturating_add(1)));
        }
    }
    Ok(kept_from_kernel(&line, &ram))
}

fn kept_from_kernel(line: &str, ram: &[(u64, u64)]) -> Vec<Piece> {
    let mut kept = Vec::new();
    for word in line.split_whitespace() {
        if let Some(list) = word.strip_prefix("memmap=") {
            for (size, address) in list.split(',').filter_map(|one| one.split_once('$')) {
                if let (Some(size), Some(address)) = (number(size), number(address)) {
                    kept.push((address, address.saturating_add(size)));
                }
            }
        } else if let Some(size) = word.strip_prefix("mem=").and_then(number) {
            kept.push((size, u64::MAX));
        }
    }
    let mut pieces = Vec::new();
    for (from, to) in kept {
        for &(start, end) in ram {
            // A section that the kernel uses a part of is all in use.
            let start = start.max(from).next_multiple_of(SECTION_BYTES);
            let end = end.min(to) / abi::PIECE_UNIT * abi::PIECE_UNIT;
            if start < end {
                pieces.push(Piece { address: start, bytes: end - start });
            }
        }
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.bytes));
    pieces
}

/// Number as the kernel reads it: decimal or hexadecimal, with K, M, G or T behind it.
fn number(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    value.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn neighbours_make_one_piece_and_the_longest_run_comes_first() {
        let pieces = |blocks: &[u64], bytes, first| chosen(blocks, 128 * MIB, bytes, first);
        let piece =
            |block: u64, count: u64| Piece { address: block * 128 * MIB, bytes: count * 128 * MIB };
        assert_eq!(pieces(&[9, 8], 200 * MIB, 100 * MIB), Some((vec![piece(8, 2)], vec![])));
        let (found, spare) = pieces(&[9, 3, 4, 7], 384 * MIB, 129 * MIB).unwrap();
        assert_eq!((found[0], found.len(), spare.len()), (piece(3, 2), 2, 1));
        // Enough in all, and no two neighbours.
        assert_eq!(pieces(&[9, 7], 256 * MIB, 129 * MIB), None);
        assert_eq!(pieces(&[9], 256 * MIB, MIB), None);
        assert_eq!(pieces(&[], MIB, MIB), None);
    }

    #[test]
    fn what_is_of_the_hosts_own_allocator_is_not_taken_again() {
        let notes = Notes(tempfile::tempdir().unwrap().path().join("none"));
        let pieces = [Piece { address: 1 << 30, bytes: 256 * MIB }];
        assert_eq!(notes.to_take_again(&pieces).unwrap(), None);
        let all = Piece { address: 1 << 30, bytes: 256 * MIB };
        assert!(holds(&all, &pieces[0]) && !holds(&Piece { bytes: 255 * MIB, ..all }, &all));
    }

    #[test]
    fn what_the_command_line_keeps_from_the_kernel_is_ram_and_whole_sections() {
        let ram = [(0, 0x9fc00), (0x10_0000, 0x7ffd_f000), (1 << 32, (1 << 32) + 512 * MIB)];
        let kept = |line: &str| kept_from_kernel(line, &ram);
        assert_eq!(kept("quiet memmapx=1$2"), []);
        assert_eq!(
            kept("a memmap=256M$0x40000000 b"),
            [Piece { address: 0x4000_0000, bytes: 256 * MIB }]
        );
        // Not from the middle of a section, which the kernel has.
        assert_eq!(kept("memmap=300M$1000M"), [Piece { address: 1024 * MIB, bytes: 276 * MIB }]);
        assert_eq!(
            kept("mem=1536M"),
            [
                Piece { address: 1 << 32, bytes: 512 * MIB },
                Piece { address: 1536 * MIB, bytes: 510 * MIB },
            ]
        );
    }

    #[test]
    fn notes_tell_whose_they_are_and_go_twice() {
        for (kind, name) in [(Holding::Node, "n-1.blocks"), (Holding::Image, "a.b")] {
            let notes = Notes::of(kind, name);
            let file = notes.0.file_name().unwrap().to_str().unwrap();
            assert_eq!(holding_of(file), Some((kind, name)));
        }
        for other in ["node-n1", "disk-n1.blocks", ".blocks"] {
            assert_eq!(holding_of(other), None, "{other}");
        }
    }

    #[test]
    fn sizes_are_the_kernels() {
        let known = [("0x10", 16), ("2G", 2 << 30), ("0x1M", 1 << 20), ("64k", 64 << 10)];
        known.iter().for_each(|(text, value)| assert_eq!(number(text), Some(*value), "{text}"));
        assert_eq!((number(""), number("M"), number("x")), (None, None, None));
    }
}
