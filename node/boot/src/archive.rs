//! A look at an archive that somebody else made, before a kernel unpacks it.
//!
//! The kernel (`linux/init/initramfs.c`) gives up at what it does not know and loses all that
//! follows, the archives behind it included; a file that is cut off swallows them. So
//! what can be seen without decompressing is looked at here.

use crate::bytes::{array, part};
use crate::{Compression, Error, Result};

/// Magic number and thirteen numbers of eight hexadecimal digits.
const HEADER_BYTES: u64 = 110;
/// Magic numbers without and with check sums.
const NEWC: [&[u8]; 2] = [b"070701", b"070702"];
/// Beginnings of older forms of cpio: in letters, and as a number of either byte order.
const OLDER: [&[u8]; 3] = [b"070707", b"\xc7\x71", b"\x71\xc7"];
/// Names and entries end at multiples of this, counted from the archive's beginning.
const ALIGNMENT: u64 = 4;
/// A file in memory takes whole pages.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Ratio to which distributions' initrds unpack, and some more.
const GUESSED_RATIO: u64 = 4;
/// PATH_MAX: an entry of a longer name is left out.
const NAME_BYTES_MAX: u64 = 4096;

/// Compression of an initrd, or of a part of one; `None` if it is not packed. Distributions put an
/// archive that is not packed before the one that is. An error where a kernel would lose something:
/// at bytes that are no archive, and where a file goes on behind the end.
pub fn packing(archive: &[u8]) -> Result<Option<Compression>> {
    Ok(walk(archive)?.1.map(|(compression, _)| compression))
}

/// Memory that the files of an initrd take once a kernel has unpacked them, a whole number
/// of pages each. Of one that cannot be unpacked here this is a guess by its length.
pub(crate) fn unpacked_bytes(archive: &[u8]) -> Result<u64> {
    let (bytes, packed) = walk(archive)?;
    let Some((compression, at)) = packed else { return Ok(bytes) };
    let rest = &archive[at..];
    let unpacked = compression.decompress(rest).and_then(|rest| Ok(walk(&rest)?.0));
    Ok(bytes + unpacked.unwrap_or(GUESSED_RATIO * rest.len() as u64))
}

/// Bytes of the files that are not packed, in pages; and how the rest is packed that
/// begins at an offset, if there is one.
fn walk(archive: &[u8]) -> Result<(u64, Option<(Compression, usize)>)> {
    let (mut at, mut bytes) = (0, 0_u64);
    loop {
        let rest = &archive[at..];
        at += rest.iter().take_while(|&&byte| byte == 0).count();
        let rest = &archive[at..];
        if rest.is_empty() {
            return Ok((bytes, None));
        }
        let aligned = (at as u64).is_multiple_of(ALIGNMENT);
        if aligned && NEWC.iter().any(|magic| rest.starts_with(magic)) {
            let (end, file_bytes) = end_of_entry(archive, at as u64)?;
            at = end as usize;
            bytes += file_bytes.next_multiple_of(PAGE_BYTES);
            continue;
        }
        if aligned && OLDER.iter().any(|magic| rest.starts_with(magic)) {
            return Err(wrong(at as u64, "an older form of cpio, which no kernel unpacks"));
        }
        return match Compression::of(rest) {
            Ok(Compression::None) | Err(_) => Err(wrong(
                at as u64,
                "neither a cpio archive nor packed in a way that kernels know",
            )),
            Ok(compression) => Ok((bytes, Some((compression, at)))),
        };
    }
}

/// End of the entry that begins at `at`, with its padding; and its file's bytes.
fn end_of_entry(archive: &[u8], at: u64) -> Result<(u64, u64)> {
    let number = |n: u64| {
        let digits: [u8; 8] = array(archive, (at + 6 + 8 * n) as usize)
            .ok_or_else(|| wrong(at, "the beginning of an entry, which is cut off"))?;
        let text = std::str::from_utf8(&digits).ok().filter(|text| !text.starts_with('+'));
        text.and_then(|text| u64::from_str_radix(text, 16).ok())
            .ok_or_else(|| wrong(at, "an entry whose numbers are not hexadecimal"))
    };
    let (file_bytes, name_bytes) = (number(6)?, number(11)?);
    if !(1..=NAME_BYTES_MAX).contains(&name_bytes) {
        return Err(wrong(at, "an entry whose name is empty, or longer than 4096 bytes"));
    }
    let name_at = at + HEADER_BYTES;
    let file_at = (name_at + name_bytes).next_multiple_of(ALIGNMENT);
    let is_whole = |at, bytes| bytes == 0 || part(archive, at, bytes).is_some();
    if !is_whole(name_at, name_bytes) || !is_whole(file_at, file_bytes) {
        return Err(wrong(at, "an entry that is longer than the rest of the file"));
    }
    // The last one need not be filled up.
    let end = (file_at + file_bytes).next_multiple_of(ALIGNMENT).min(archive.len() as u64);
    Ok((end, file_bytes))
}

fn wrong(at: u64, what: &'static str) -> Error {
    Error::Archive { at, what }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Initramfs;
    use crate::decompress::tests::{ALL, compress};
    use crate::initramfs::tests::unpack;

    fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut initramfs = Initramfs::new();
        for (path, content) in files {
            initramfs.file(path, 0o644, content).unwrap();
        }
        initramfs.finish().unwrap()
    }

    fn says(bytes: &[u8]) -> String {
        packing(bytes).unwrap_err().to_string()
    }

    #[test]
    fn an_initrd_may_begin_with_what_is_not_packed() {
        let early = archive(&[("kernel/x86/microcode/a.bin".into(), vec![7; 99])]);
        assert_eq!(packing(&early).unwrap(), None);
        assert_eq!(packing(&[]).unwrap(), None);
        for compression in ALL.into_iter().filter(|&one| one != Compression::None) {
            let whole = [&early, &[0; 512][..], &compress(compression, &early)].concat();
            assert_eq!(packing(&whole).unwrap(), Some(compression));
        }
    }

    #[test]
    fn the_memory_of_an_initrds_files_is_known_packed_or_not() {
        let plain = archive(&[("a/b".into(), vec![7; 5000]), ("c".into(), vec![1; 1])]);
        assert_eq!(unpacked_bytes(&plain).unwrap(), 3 * 4096);
        for compression in ALL.into_iter().filter(|&one| one != Compression::None) {
            let whole = [&plain, &[0; 512][..], &compress(compression, &plain)].concat();
            assert_eq!(unpacked_bytes(&whole).unwrap(), 6 * 4096, "{compression}");
        }
        // Cut off: what it would be is guessed.
        let packed = compress(Compression::Gzip, &plain);
        let cut = &packed[..packed.len() / 2];
        assert_eq!(unpacked_bytes(cut).unwrap(), 4 * cut.len() as u64);
        assert!(unpacked_bytes(b"text").is_err());
    }

    #[test]
    fn what_a_kernel_would_stop_at_is_said_with_its_place_and_the_way_out() {
        let good = archive(&[("a".into(), vec![1; 50])]);
        let error = says(b"[node.a]\n");
        assert!(error.contains("byte 0") && error.contains("neither a cpio"), "{error}");
        assert!(error.contains("cpio -o -H newc"), "{error}");
        assert!(says(b"\x7fELF").contains("neither a cpio"));
        assert!(says(b"070707000").contains("older form"));
        assert!(says(b"\xc7\x71\0\0").contains("older form"));
        assert!(says(&good[..60]).contains("cut off"));
        assert!(says(&good[..112]).contains("longer than the rest"));
        assert!(says(&good[..150]).contains("longer than the rest"));
        // Not at a multiple of four bytes.
        let moved = [&good, &[0][..], &good].concat();
        assert!(says(&moved).contains(&format!("byte {}", good.len() + 1)));
        let odd = [&good[..6], b"+", &good[7..]].concat();
        assert_eq!(packing(&odd).unwrap(), None, "the inode's number says nothing");
        let odd = [&good[..54], b"+", &good[55..]].concat();
        assert!(says(&odd).contains("not hexadecimal"));
    }

    proptest! {
        #[test]
        fn what_we_write_is_accepted_and_no_cut_loses_a_file_unseen(
            files in prop::collection::btree_map(
                "[a-z]{1,30}(/[a-z]{1,9}){0,2}\\.x", prop::collection::vec(any::<u8>(), 1..70), 1..6
            ),
            cut in any::<prop::sample::Index>(),
        ) {
            let files: Vec<_> = files.into_iter().collect();
            let whole = archive(&files);
            prop_assert_eq!(packing(&whole).unwrap(), None);
            let part = &whole[..cut.index(whole.len())];
            if packing(part).is_ok() {
                let mut part = part.to_vec();
                // As an initramfs of ours has it.
                part.resize(part.len().next_multiple_of(4), 0);
                let there = unpack(&part);
                prop_assert!(unpack(&whole).starts_with(&there));
            }
        }

        #[test]
        fn any_bytes_are_an_archive_or_an_error(
            start in prop::sample::select(vec![&b""[..], b"070701", b"\0\0\0\x00070701", b"\x1f\x8b"]),
            digits in "[0-9a-f+]{0,120}",
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = packing(&[start, digits.as_bytes(), &bytes].concat());
        }
    }
}
