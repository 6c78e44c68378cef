//! Reading and writing what is in the page cache, and devices without a disk.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::fd::AsFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::warm::{buffer, warm_file};
use crate::mapping::{Mapping, mappable};
use crate::sweep;
use kumiki_measure::case::{Case, Choice, Each, Level, Place};
use kumiki_measure::error::{Error, Result};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A file is walked through in steps of the case's size and is at least this
/// long, so that going back to its start does not count.
const FILE_BYTES: u64 = 4 * MIB;

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = Vec::new();
    for (bytes, level) in sweep::sizes(choice, &sweep::own(&[4 * KIB, MIB], &[1, 512, 64 * KIB])) {
        cases.extend(by_position(bytes).map(|case| case.level(level)));
        cases.extend(by_offset(bytes).map(|case| case.level(level.max(Level::Default))));
    }
    for (bytes, level) in sweep::sizes(choice, &sweep::own(&[4 * KIB], &[1, MIB])) {
        cases.extend(devices(bytes).map(|case| case.level(level)));
    }
    for (bytes, level) in sweep::sizes(choice, &sweep::own(&[MIB], &[4 * KIB, 64 * KIB])) {
        cases.push(mapped_read(bytes).level(level));
    }
    cases
}

/// Checks that a call moved as many bytes as asked.
fn moved(call: &str, asked: usize, answer: Result<usize, Errno>) -> Result<()> {
    match answer {
        Ok(done) if done == asked => Ok(()),
        Ok(done) => Err(Error::Invalid(format!(
            "{call} moved {done} of {asked} bytes at once (Linux moves less than 2 GiB); \
             choose a smaller size"
        ))),
        Err(e) => Err(Error::os(format!("{call} {asked} bytes"), e)),
    }
}

/// Offsets `0, step, 2·step, …` below the end of the case's file.
struct Walk {
    at: u64,
    step: u64,
    end: u64,
}

impl Walk {
    fn new(step: u64) -> Self {
        let steps = (FILE_BYTES / step.max(1)).max(1);
        Walk { at: 0, step, end: steps.saturating_mul(step) }
    }

    fn file(&self, place: &Place) -> Result<File> {
        warm_file(&place.scratch, self.end)
    }

    /// The offset for the next operation, and whether the walk begins anew.
    fn next(&mut self) -> (u64, bool) {
        let anew = self.at >= self.end;
        if anew {
            self.at = 0;
        }
        let here = self.at;
        self.at += self.step;
        (here, anew)
    }
}

/// `read` and `write`, which move the file's position.
fn by_position(bytes: u64) -> [Case; 2] {
    let rewound = |file: &File, walk: &mut Walk| match walk.next() {
        (_, false) => Ok(()),
        (start, true) => rustix::fs::seek(file, SeekFrom::Start(start))
            .map(drop)
            .map_err(|e| Error::os("rewind a file", e)),
    };
    let read = Case::new("file.read", "read from a cached file", move |place| {
        let (mut walk, mut buffer) = (Walk::new(bytes), buffer(bytes)?);
        let file = start_of(walk.file(place)?)?;
        Ok(Each(move || {
            rewound(&file, &mut walk)?;
            moved("read", buffer.len(), rustix::io::read(&file, black_box(&mut buffer[..])))
        }))
    });
    let write = Case::new("file.write", "write over a cached file", move |place| {
        let (mut walk, buffer) = (Walk::new(bytes), buffer(bytes)?);
        let file = start_of(walk.file(place)?)?;
        Ok(Each(move || {
            rewound(&file, &mut walk)?;
            moved("write", buffer.len(), rustix::io::write(&file, black_box(&buffer)))
        }))
    });
    [read, write].map(|case| case.with("bytes", bytes).asks(bytes))
}

fn start_of(file: File) -> Result<File> {
    rustix::fs::seek(&file, SeekFrom::Start(0)).map_err(|e| Error::os("rewind a file", e))?;
    Ok(file)
}

/// `pread` and `pwrite`, which are told the position.
fn by_offset(bytes: u64) -> [Case; 2] {
    let pread = Case::new("file.pread", "read from a cached file at an offset", move |place| {
        let (mut walk, mut buffer) = (Walk::new(bytes), buffer(bytes)?);
        let file = walk.file(place)?;
        Ok(Each(move || {
            let (offset, _) = walk.next();
            let answer = rustix::io::pread(&file, black_box(&mut buffer[..]), offset);
            moved("pread", buffer.len(), answer)
        }))
    });
    let pwrite = Case::new("file.pwrite", "write over a cached file at an offset", move |place| {
        let (mut walk, buffer) = (Walk::new(bytes), buffer(bytes)?);
        let file = walk.file(place)?;
        Ok(Each(move || {
            let (offset, _) = walk.next();
            moved("pwrite", buffer.len(), rustix::io::pwrite(&file, black_box(&buffer), offset))
        }))
    });
    [pread, pwrite].map(|case| case.with("bytes", bytes).asks(bytes))
}

/// Devices that move bytes without a file system below.
fn devices(bytes: u64) -> [Case; 2] {
    let zero = Case::new("file.read_zero", "read from /dev/zero", move |_| {
        let (device, mut buffer) = (open(File::options().read(true), "/dev/zero")?, buffer(bytes)?);
        Ok(Each(move || {
            let answer = rustix::io::read(&device, black_box(&mut buffer[..]));
            moved("read /dev/zero", buffer.len(), answer)
        }))
    });
    let null =
        Case::new("file.write_null", "write to /dev/null, which looks at nothing", move |_| {
            let (device, buffer) =
                (open(File::options().write(true), "/dev/null")?, buffer(bytes)?);
            Ok(Each(move || {
                moved(
                    "write /dev/null",
                    buffer.len(),
                    rustix::io::write(&device, black_box(&buffer)),
                )
            }))
        });
    [zero, null].map(|case| case.with("bytes", bytes).asks(bytes))
}

fn open(how: &OpenOptions, path: &str) -> Result<File> {
    how.open(path).map_err(|source| Error::File { path: path.into(), source })
}

/// Case that has the cost of `read` without a copy: mapping, faults, and the look at each byte.
fn mapped_read(bytes: u64) -> Case {
    let about = "map a cached file, add up its bytes, unmap";
    let case = Case::new("file.mapped_read", about, move |place| {
        let length = mappable(bytes)?;
        let file = warm_file(&place.scratch, bytes)?;
        Ok(Each(move || {
            black_box(mapped_sum(&file, length)?);
            Ok(())
        }))
    });
    case.with("bytes", bytes).asks(bytes)
}

fn mapped_sum(file: impl AsFd, bytes: usize) -> Result<u64> {
    let mapping = Mapping::file(file, bytes, ProtFlags::READ, MapFlags::PRIVATE)?;
    // SAFETY: the file has no name and one descriptor, and nobody writes by
    // that one while this runs.
    Ok(sum(unsafe { mapping.as_slice() }))
}

/// Adds eight bytes at a time, so that memory and not arithmetic is what counts.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder().iter().map(|&byte| u64::from(byte)).sum();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    words.fold(rest, |sum: u64, bytes| sum.wrapping_add(word(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_stays_in_its_file_and_visits_all_of_it() {
        for step in [1 << 20, 3000, FILE_BYTES, FILE_BYTES + 1] {
            let mut walk = Walk::new(step);
            let steps = walk.end / step;
            for turn in 0..2 * steps {
                assert_eq!(walk.next(), (turn % steps * step, turn == steps), "step {step}");
            }
        }
    }

    #[test]
    fn reading_nothing_is_possible() {
        assert_eq!(Walk::new(0).end, 0);
        assert_eq!(Walk::new(0).next().0, 0);
    }

    #[test]
    fn a_mapped_read_sees_the_whole_file() {
        let scratch = tempfile::tempdir().unwrap();
        let file = warm_file(scratch.path(), 19).unwrap();
        let word = u64::from_le_bytes([0x5a; 8]);
        let expected = word.wrapping_mul(2) + 3 * 0x5a;
        assert_eq!(mapped_sum(&file, 19).unwrap(), expected);
    }

    #[test]
    fn a_short_transfer_is_an_error() {
        assert!(moved("read", 5, Ok(5)).is_ok());
        assert!(moved("read", 5, Ok(4)).unwrap_err().to_string().contains("4 of 5"));
    }
}
