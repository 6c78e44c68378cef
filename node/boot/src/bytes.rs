//! Little-endian numbers in byte strings, with a check instead of a panic.

/// `N` bytes at `offset`, if they are there.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u16_le(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

pub(crate) fn u32_le(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

pub(crate) fn u32_be(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_be_bytes)
}

pub(crate) fn u64_le(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

/// The bytes at `offset`; `None` where they leave `bytes`.
pub(crate) fn part(bytes: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let end = offset.checked_add(length)?;
    bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

/// True if `needle` stands anywhere in `bytes`.
pub(crate) fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    let Some((&first, rest)) = needle.split_first() else { return true };
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|&byte| byte == first) {
        at += found + 1;
        if bytes[at..].starts_with(rest) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_past_the_end_is_none() {
        assert_eq!(u16_le(&[1, 2, 3], 1), Some(0x0302));
        assert_eq!(u16_le(&[1, 2, 3], 2), None);
        assert_eq!(u32_be(&[1, 2, 3, 4], 0), Some(0x0102_0304));
        assert_eq!(u64_le(&[0; 8], usize::MAX), None);
        assert_eq!(part(&[1, 2, 3], u64::MAX, 2), None);
        assert_eq!(part(&[1, 2, 3], 1, 2), Some(&[2, 3][..]));
    }

    #[test]
    fn a_needle_is_found_after_a_false_start() {
        assert!(contains(b"aab", b"ab"));
        assert!(contains(b"xyz", b"z"));
        assert!(contains(b"", b""));
        assert!(!contains(b"ab", b"abc"));
        assert!(!contains(b"", b"a"));
    }
}
