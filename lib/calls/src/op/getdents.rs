//! Directories: their entries.

use std::ffi::CStr;
use std::iter::FusedIterator;
use std::os::fd::AsFd;

use rustix::fs::FileType;

use super::BufferMut;
use super::output::descriptor;
use crate::request::Request;

filling! {
    /// getdents64(2): the next entries of a directory, as many as the buffer
    /// holds, in no order; 0 at the end. [`entries`](Self::entries) has them.
    ///
    /// An entry of a name of 255 bytes takes 280, and some file systems have longer
    /// names, of 255 characters; where not even one fits the call fails with `EINVAL`.
    /// 32 KiB is what the C library uses. To go on with the same operation take a
    /// buffer of fixed length: a vector is full after one call.
    pub struct Getdents64<F: AsFd> { dir: F }
    |op, pointer, room| Request::new(libc::SYS_getdents64, [descriptor(&op.dir), pointer, room])
}

impl<F: AsFd, B: BufferMut> Getdents64<F, B> {
    /// Entries that the last call found.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        Entries::new(self.filled())
    }
}

/// One name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// Number of the file within its file system; where another one is mounted,
    /// the number of the directory below it.
    pub ino: u64,
    /// Position of the next entry, for lseek(2) on the directory.
    pub next: i64,
    /// Type of the file; [`FileType::Unknown`] where the file system does not say without looking
    /// at it.
    pub kind: FileType,
    /// The name, without the directory's.
    pub name: &'a CStr,
}

/// The entries in the bytes that getdents64(2) wrote.
///
/// Ends early at bytes that are no entry; [`rest`](Self::rest) is then not
/// empty. The kernel writes none.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

/// Offsets in `struct linux_dirent64`, include/linux/dirent.h.
mod offset {
    pub(super) const INO: usize = 0;
    pub(super) const NEXT: usize = 8;
    pub(super) const LENGTH: usize = 16;
    pub(super) const KIND: usize = 18;
    pub(super) const NAME: usize = 19;
}

impl<'a> Entries<'a> {
    /// Entries in `bytes`, any bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Entries<'a> {
        Entries { rest: bytes }
    }

    /// The bytes not looked at yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = DirectoryEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<DirectoryEntry<'a>> {
        let length = u16::from_ne_bytes(field(self.rest, offset::LENGTH)?);
        let (entry, rest) = self.rest.split_at_checked(usize::from(length))?;
        let name = CStr::from_bytes_until_nul(entry.get(offset::NAME..)?).ok()?;
        let [kind] = field(entry, offset::KIND)?;
        self.rest = rest;
        Some(DirectoryEntry {
            ino: u64::from_ne_bytes(field(entry, offset::INO)?),
            next: i64::from_ne_bytes(field(entry, offset::NEXT)?),
            // The types of entries are those of modes, 12 bits lower (DT_TO_IF
            // of dirent.h).
            kind: FileType::from_raw_mode(u32::from(kind) << 12),
            name,
        })
    }
}

impl FusedIterator for Entries<'_> {}

#[inline]
fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An entry as the kernel writes it: padded to 8 bytes.
    fn written(ino: u64, next: i64, kind: u8, name: &[u8]) -> Vec<u8> {
        let length = (offset::NAME + name.len() + 1).next_multiple_of(8);
        let mut bytes = Vec::new();
        bytes.extend(ino.to_ne_bytes());
        bytes.extend(next.to_ne_bytes());
        bytes.extend((length as u16).to_ne_bytes());
        bytes.push(kind);
        bytes.extend(name);
        bytes.resize(length, 0);
        bytes
    }

    #[test]
    fn damaged_entries_end_the_list() {
        let good = written(7, 1, libc::DT_REG, b"name");
        let alone = Entries::new(&good).next().unwrap();
        assert_eq!((alone.ino, alone.next, alone.name), (7, 1, c"name"));
        assert_eq!(alone.kind, FileType::RegularFile);

        for damage in [
            &good[..good.len() - 1],                    // cut off
            &[&good[..16], &[0, 0]].concat(),           // no length
            &[&good[..16], &[18, 0, 8]].concat(),       // shorter than its fixed part
            &[&good[..16], &[20, 0, 8, b'n']].concat(), // a name without end
        ] {
            let bytes = [&good, damage].concat();
            let mut entries = Entries::new(&bytes);
            assert_eq!(entries.by_ref().count(), 1);
            assert_eq!(entries.rest(), damage);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            list in prop::collection::vec((any::<u64>(), any::<i64>(), "[^\0/]{1,60}"), 0..20),
        ) {
            let bytes: Vec<u8> = list
                .iter()
                .flat_map(|(ino, next, name)| written(*ino, *next, libc::DT_LNK, name.as_bytes()))
                .collect();
            let mut entries = Entries::new(&bytes);
            for (ino, next, name) in &list {
                let entry = entries.next().unwrap();
                prop_assert_eq!((entry.ino, entry.next), (*ino, *next));
                prop_assert_eq!(entry.name.to_bytes(), name.as_bytes());
                prop_assert_eq!(entry.kind, FileType::Symlink);
            }
            prop_assert_eq!(entries.next(), None);
            prop_assert_eq!(entries.rest(), b"");
        }

        #[test]
        fn any_bytes_end(bytes: Vec<u8>, length in 0u8..40) {
            // Lengths that fit, so that it goes on for a while.
            let mut bytes = bytes;
            for at in (offset::LENGTH..bytes.len().saturating_sub(1)).step_by(8) {
                bytes[at] = length;
                bytes[at + 1] = 0;
            }
            let entries = Entries::new(&bytes);
            prop_assert!(entries.count() <= bytes.len() / offset::NAME);
        }
    }
}
