//! Names of one folder, as the kernel lists them: kept close together, and given back by their position.

use std::ffi::CStr;

use rustix::fs::FileType;

/// Bytes before a name: inode number, type.
const HEAD: usize = 9;
/// Bytes of one folder's names that are kept; names beyond are not asked ahead.
const MOST_BYTES: usize = 1 << 20;

/// Number that libfuse tells where it does not know a file's (`FUSE_UNKNOWN_INO`).
const UNKNOWN: u64 = 0xffff_ffff;

/// A listed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'names> {
    pub(crate) inode: u64,
    /// Kind by the listing, which may say nothing.
    pub(crate) kind: FileType,
    pub(crate) name: &'names CStr,
}

impl Name<'_> {
    /// True if the listing does not tell the file's number. With libfuse's `readdir_ino` it tells those of names that somebody has
    /// looked at before.
    pub(crate) fn is_unnumbered(&self) -> bool {
        self.inode == UNKNOWN
    }
}

/// The names, in the order of the folder.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// Begin of each name.
    starts: Vec<u32>,
}

impl Names {
    pub(crate) const fn new() -> Self {
        Names { bytes: Vec::new(), starts: Vec::new() }
    }

    /// Takes one more, unless there is no room for it.
    pub(crate) fn push(&mut self, name: Name<'_>) -> Result<(), Full> {
        let text = name.name.to_bytes_with_nul();
        let length = HEAD + text.len();
        let (start, end) = (self.bytes.len(), self.bytes.len() + length);
        if end > MOST_BYTES {
            return Err(Full);
        }
        grow(&mut self.bytes, length)?;
        grow(&mut self.starts, 1)?;
        self.starts.push(u32::try_from(start).map_err(|_| Full)?);
        self.bytes.extend_from_slice(&name.inode.to_ne_bytes());
        self.bytes.push(letter(name.kind));
        self.bytes.extend_from_slice(text);
        Ok(())
    }

    /// Has a name be of this kind, which the listing did not tell.
    pub(crate) fn set_kind(&mut self, position: u32, kind: FileType) {
        let start = self.starts.get(position as usize).copied().unwrap_or(u32::MAX) as usize;
        let place = start.checked_add(HEAD - 1).and_then(|at| self.bytes.get_mut(at));
        place.into_iter().for_each(|place| *place = letter(kind));
    }

    pub(crate) fn len(&self) -> u32 {
        // At most one a byte of a megabyte.
        self.starts.len() as u32
    }

    pub(crate) fn get(&self, position: u32) -> Option<Name<'_>> {
        let start = *self.starts.get(position as usize)? as usize;
        let (head, rest) = self.bytes.get(start..)?.split_at_checked(HEAD)?;
        let (inode, kind) = head.split_first_chunk::<8>()?;
        Some(Name {
            inode: u64::from_ne_bytes(*inode),
            kind: of_letter(*kind.first()?),
            name: CStr::from_bytes_until_nul(rest).ok()?,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// No room for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Makes room, by half as much again as there is.
fn grow<T>(vector: &mut Vec<T>, more: usize) -> Result<(), Full> {
    if vector.capacity() - vector.len() >= more {
        return Ok(());
    }
    vector.try_reserve(more).map_err(|_| Full)
}

fn letter(kind: FileType) -> u8 {
    match kind {
        FileType::RegularFile => b'f',
        FileType::Directory => b'd',
        FileType::Unknown => b'?',
        _ => b'o',
    }
}

fn of_letter(letter: u8) -> FileType {
    match letter {
        b'f' => FileType::RegularFile,
        b'd' => FileType::Directory,
        b'o' => FileType::Fifo,
        _ => FileType::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were_with_odd_bytes_too() {
        let mut names = Names::new();
        let texts = [c"a", c"b\xff\n\t", c"", c"name with spaces"];
        for (inode, name) in texts.iter().enumerate() {
            let kind = if inode == 1 { FileType::Directory } else { FileType::RegularFile };
            names.push(Name { inode: inode as u64, kind, name }).unwrap();
        }
        assert_eq!(names.len(), 4);
        for (position, name) in texts.iter().enumerate() {
            let found = names.get(position as u32).unwrap();
            assert_eq!((found.inode, found.name), (position as u64, *name));
        }
        assert_eq!(names.get(1).unwrap().kind, FileType::Directory);
        assert!(names.get(4).is_none() && names.get(u32::MAX).is_none());
        names.set_kind(2, FileType::Directory);
        names.set_kind(4, FileType::Directory);
        names.set_kind(u32::MAX, FileType::Directory);
        let kinds = [0, 1, 2, 3].map(|position| names.get(position).unwrap().kind);
        let (file, folder) = (FileType::RegularFile, FileType::Directory);
        assert_eq!(kinds, [file, folder, folder, file]);
        assert_eq!(names.get(2).unwrap().name, c"");
    }

    #[test]
    fn a_huge_folder_is_kept_in_part() {
        let mut names = Names::new();
        let name = Name { inode: 1, kind: FileType::Unknown, name: c"twenty-two letters long" };
        let kept = (0..200_000).take_while(|_| names.push(name).is_ok()).count();
        assert!(kept > 30_000 && kept < 40_000, "{kept}");
        assert_eq!(names.len() as usize, kept);
        assert!(names.bytes() <= MOST_BYTES);
    }
}
