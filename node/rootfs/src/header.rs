//! The block of 512 bytes that begins a member of a tar archive (POSIX `pax`, "ustar Interchange
//! Format"; GNU tar's manual, "Basic Tar Format").

use std::ops::Range;

use crate::error::Fault;

/// Length of the blocks that an archive is made of.
pub(crate) const BLOCK: usize = 512;

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const USER: Range<usize> = 108..116;
const GROUP: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MODIFIED: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const KIND: usize = 156;
const LINKED: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..263;
const PREFIX: Range<usize> = 345..500;
/// Four parts of a sparse file, in GNU's own format.
const PARTS: Range<usize> = 386..482;
const PARTS_GO_ON: usize = 482;
const REAL_SIZE: Range<usize> = 483..495;
/// Offset and length of a part.
const PART_BYTES: usize = 24;
/// Parts in a block with more of them.
const MORE_PARTS: Range<usize> = 0..504;
const MORE_GO_ON: usize = 504;

/// A header: such a block.
#[derive(Clone, Copy)]
pub(crate) struct Header<'a>(pub(crate) &'a [u8; BLOCK]);

impl<'a> Header<'a> {
    fn field(&self, at: Range<usize>) -> &'a [u8] {
        &self.0[at]
    }

    /// True if it is one of the blocks that end an archive.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    /// True if its checksum is right, of bytes or, as some early programs took it, of bytes with
    /// signs.
    pub(crate) fn is_whole(&self) -> bool {
        let rest = || {
            let at = |&(at, _): &(usize, &u8)| !CHECKSUM.contains(&at);
            self.0.iter().enumerate().filter(at).map(|(_, &byte)| byte)
        };
        let blanks = 8 * i64::from(b' ');
        let plain: i64 = rest().map(i64::from).sum::<i64>() + blanks;
        let with_signs: i64 = rest().map(|byte| i64::from(byte as i8)).sum::<i64>() + blanks;
        number(self.field(CHECKSUM)).is_ok_and(|said| said == plain || said == with_signs)
    }

    /// Its name, put together of both parts where it has two.
    pub(crate) fn path(&self) -> Vec<u8> {
        let name = text(self.field(NAME));
        match text(self.field(PREFIX)) {
            prefix if self.is_ustar() && !prefix.is_empty() => [prefix, b"/", name].concat(),
            _ => name.to_vec(),
        }
    }

    pub(crate) fn linked(&self) -> Vec<u8> {
        text(self.field(LINKED)).to_vec()
    }

    pub(crate) fn kind(&self) -> u8 {
        self.0[KIND]
    }

    fn is_ustar(&self) -> bool {
        self.field(MAGIC) == b"ustar\0"
    }

    /// True if it is of GNU tar's own format.
    pub(crate) fn is_gnu(&self) -> bool {
        self.field(MAGIC) == b"ustar "
    }

    pub(crate) fn mode(&self) -> Result<i64, Fault> {
        number(self.field(MODE))
    }

    pub(crate) fn user(&self) -> Result<i64, Fault> {
        number(self.field(USER))
    }

    pub(crate) fn group(&self) -> Result<i64, Fault> {
        number(self.field(GROUP))
    }

    pub(crate) fn modified(&self) -> Result<i64, Fault> {
        number(self.field(MODIFIED))
    }

    /// Bytes that follow.
    pub(crate) fn size(&self) -> Result<u64, Fault> {
        unsigned(self.field(SIZE))
    }

    /// Size with its holes of a sparse file of GNU's own format.
    pub(crate) fn real_size(&self) -> Result<u64, Fault> {
        unsigned(self.field(REAL_SIZE))
    }

    /// Parts of such a file, each with its offset and length, and whether a block with more
    /// follows.
    pub(crate) fn parts(&self) -> (&'a [u8], bool) {
        (self.field(PARTS), self.0[PARTS_GO_ON] != 0)
    }

    /// Parts of a block with more of them, and whether yet another one follows.
    pub(crate) fn more_parts(&self) -> (&'a [u8], bool) {
        (self.field(MORE_PARTS), self.0[MORE_GO_ON] != 0)
    }
}

/// Offsets and lengths in such fields, up to the first that is not used.
pub(crate) fn parts(fields: &[u8]) -> impl Iterator<Item = Result<(u64, u64), Fault>> {
    let used = |part: &&[u8]| part[PART_BYTES / 2] != 0;
    fields.chunks_exact(PART_BYTES).take_while(used).map(|part| {
        let (offset, length) = part.split_at(PART_BYTES / 2);
        Ok((unsigned(offset)?, unsigned(length)?))
    })
}

/// A field's text, which ends at a zero or with the field.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn unsigned(field: &[u8]) -> Result<u64, Fault> {
    let have = number(field)?;
    u64::try_from(have).map_err(|_| format!("{have}, a number of at least 0 is expected"))
}

/// A field's number: octal digits, between blanks and a blank or zero; or, as GNU has it, binary
/// after a byte whose first bit is set.
fn number(field: &[u8]) -> Result<i64, Fault> {
    let shown = || format!("{:?}, no number", String::from_utf8_lossy(field));
    let Some((&first, rest)) = field.split_first() else { return Err(shown()) };
    if first & 0x80 != 0 {
        // Six bits, of which the first is the sign.
        let first = i128::from(first & 0x3f) - i128::from(first & 0x40);
        let value = rest.iter().fold(first, |value, &byte| value << 8 | i128::from(byte));
        return i64::try_from(value).map_err(|_| format!("{value}, which is too large"));
    }
    let begin = field.iter().position(|&byte| byte != b' ').ok_or_else(shown)?;
    let digits = &field[begin..];
    let end = digits.iter().position(|byte| !matches!(byte, b'0'..=b'7')).unwrap_or(digits.len());
    let ends = digits.get(end).is_none_or(|byte| matches!(byte, 0 | b' '));
    if end == 0 || !ends {
        return Err(shown());
    }
    // 36 bits at the most, as a field has 12 bytes.
    Ok(digits[..end].iter().fold(0, |value, &digit| value << 3 | i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_octal_or_binary_and_nothing_else_is_one() {
        let long = b"\x80\0\0\0\0\0\0\0\0\x01\0\0";
        for (field, value) in [
            (&b"0000644\0"[..], 0o644),
            (b"  644 \0\0", 0o644),
            (b"77777777", 0o7777_7777),
            (long, 1 << 16),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
            (b"\x80\0\0\0\xff\xff\xff\xff", 0xffff_ffff),
        ] {
            assert_eq!(number(field), Ok(value), "{field:?}");
        }
        for field in [
            &b""[..],
            b"\0\0\0\0",
            b"        ",
            b"-1\0",
            b"+7\0",
            b"8\0",
            b"7x\0",
            b"\x80\x01\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert!(number(field).is_err(), "{field:?}");
        }
        assert!(unsigned(b"\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    }
}
