//! Files with holes (GNU tar's manual, "Storing Sparse Files"): where their parts belong.

use std::io::Read;

use crate::error::Fault;
use crate::header::{self, BLOCK, Header};
use crate::pax::{Sparse, decimal};

/// Parts of one file.
const PARTS: usize = 1 << 20;

/// A part of a file that is in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A file's parts, one after the other, and its size with the holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) parts: Vec<Part>,
    pub(crate) size: u64,
}

impl Map {
    /// `stored`: bytes of the parts together, as the archive has them.
    fn new(pairs: Vec<(u64, u64)>, size: u64, stored: u64) -> Result<Self, Fault> {
        let mut parts = Vec::new();
        let (mut end, mut bytes) = (0u64, 0u64);
        for (offset, length) in pairs {
            let fits = offset.checked_add(length).filter(|&ends| offset >= end && ends <= size);
            end = fits.ok_or_else(|| {
                format!("a map of holes that has {length} bytes at {offset}, of a file of {size}")
            })?;
            // Within the size, as they do not overlap.
            bytes += length;
            if length > 0 {
                parts.push(Part { offset, length });
            }
        }
        if bytes != stored {
            return Err(format!("a map of holes of {bytes} bytes, and {stored} are there"));
        }
        Ok(Map { parts, size })
    }

    /// Reads the map of a header of GNU's own format, and of the blocks that go on with it.
    pub(crate) fn old(header: &Header<'_>, archive: &mut impl Read) -> Result<Self, Fault> {
        let (fields, mut goes_on) = header.parts();
        let mut pairs = header::parts(fields).collect::<Result<Vec<_>, _>>()?;
        while goes_on {
            let mut block = [0; BLOCK];
            archive.read_exact(&mut block).map_err(|error| format!("its map of holes: {error}"))?;
            let more = Header(&block).more_parts();
            pairs.extend(header::parts(more.0).collect::<Result<Vec<_>, _>>()?);
            goes_on = more.1;
            bounded(pairs.len())?;
        }
        Map::new(pairs, header.real_size()?, header.size()?)
    }

    /// Reads the map of records; one of version 1.0 stands before the file's bytes, which are `stored`, and is
    /// taken off them.
    pub(crate) fn of_records(
        sparse: &Sparse,
        stored: &mut u64,
        archive: &mut impl Read,
    ) -> Result<Self, Fault> {
        let size = sparse.size.ok_or("a file with holes that does not say its size")?;
        let pairs = match (sparse.version, &sparse.map) {
            ((None, None), Some(map)) => {
                let pairs = map.chunks(2).map(|pair| match *pair {
                    [offset, length] => Ok((offset, length)),
                    _ => Err("a map of holes with an offset and no length".to_owned()),
                });
                pairs.collect::<Result<Vec<_>, _>>()?
            }
            ((None, None), None) if sparse.count == Some(0) => Vec::new(),
            ((Some(1), Some(0)), None) => leading(stored, archive)?,
            ((major, minor), map) => {
                let number = |part: Option<u64>| part.map_or("-".to_owned(), |of| of.to_string());
                let with = if map.is_some() { "with" } else { "without" };
                return Err(format!(
                    "a file with holes of format {}.{} {with} a map, which is none of 0.0, 0.1 and \
                     1.0",
                    number(major),
                    number(minor)
                ));
            }
        };
        if sparse.count.is_some_and(|count| count != pairs.len() as u64) {
            return Err(format!("a map of holes of {} parts, and it says otherwise", pairs.len()));
        }
        Map::new(pairs, size, *stored)
    }
}

fn bounded(count: usize) -> Result<(), Fault> {
    if count > PARTS {
        return Err(format!("a file of more than {PARTS} parts with holes between them"));
    }
    Ok(())
}

/// A map of numbers in lines, which fills whole blocks.
fn leading(stored: &mut u64, archive: &mut impl Read) -> Result<Vec<(u64, u64)>, Fault> {
    let mut lines = Lines { block: [0; BLOCK], at: BLOCK, stored, archive };
    let count = usize::try_from(lines.number()?).unwrap_or(usize::MAX);
    bounded(count)?;
    // Not reserved: what is said need not come.
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((lines.number()?, lines.number()?));
    }
    Ok(pairs)
}

/// Reads numbers, a block at a time.
struct Lines<'a, R> {
    block: [u8; BLOCK],
    at: usize,
    stored: &'a mut u64,
    archive: &'a mut R,
}

impl<R: Read> Lines<'_, R> {
    fn number(&mut self) -> Result<u64, Fault> {
        let mut digits = Vec::new();
        loop {
            if self.at == BLOCK {
                let left = self.stored.checked_sub(BLOCK as u64);
                *self.stored = left.ok_or("a map of holes that is longer than its file")?;
                let read = self.archive.read_exact(&mut self.block);
                read.map_err(|error| format!("its map of holes: {error}"))?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => break,
                // A number of 64 bits has no more digits.
                _ if digits.len() == 20 => break,
                _ => digits.push(byte),
            }
        }
        decimal(&digits).ok_or_else(|| "a map of holes that is damaged".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_order_within_the_file_and_all_there() {
        let map = |pairs: &[(u64, u64)], stored| Map::new(pairs.to_vec(), 10, stored);
        let two = map(&[(1, 2), (5, 5), (10, 0)], 7).unwrap();
        let part = |offset, length| Part { offset, length };
        assert_eq!(two.parts, [part(1, 2), part(5, 5)]);
        for (pairs, stored, says) in [
            (&[(1, 2), (2, 1)][..], 3, "1 bytes at 2"),
            (&[(9, 2)], 2, "2 bytes at 9"),
            (&[(u64::MAX, 2)], 2, "of a file of 10"),
            (&[(1, 2)], 3, "of 2 bytes, and 3 are there"),
        ] {
            assert!(map(pairs, stored).unwrap_err().contains(says));
        }
        assert_eq!(map(&[], 0).unwrap().size, 10);
    }

    #[test]
    fn a_map_of_lines_takes_whole_blocks_off_the_file() {
        let mut block = [0; BLOCK];
        block[..10].copy_from_slice(b"2\n0\n3\n8\n4\n");
        let sparse = Sparse { size: Some(12), version: (Some(1), Some(0)), ..Sparse::default() };
        let mut stored = BLOCK as u64 + 7;
        let map = Map::of_records(&sparse, &mut stored, &mut &block[..]).unwrap();
        assert_eq!((map.parts.len(), stored), (2, 7));
        let mut short = 100;
        assert!(Map::of_records(&sparse, &mut short, &mut &block[..]).is_err());
        for (at, byte) in [(0, b'x'), (1, b'9'), (4, b'9'), (0, b'9')] {
            let mut block = block;
            block[at] = byte;
            let read = Map::of_records(&sparse, &mut (BLOCK as u64 + 7), &mut &block[..]);
            assert!(read.is_err(), "{byte} at {at}");
        }
    }
}
