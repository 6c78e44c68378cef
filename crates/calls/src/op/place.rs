//! What the calls contend on: see [`Place`].

use std::os::fd::{AsFd, AsRawFd, RawFd};

use crate::request::Place;

/// The memory map of the process, which `mmap`, `munmap` and their like lock
/// (`mmap_lock`, mm/mmap.c).
pub const ADDRESS_SPACE: Place = Place(u64::MAX);

/// Tells places that are directories from those that are open files.
const DIRECTORY: u64 = 1 << 63;

/// An open file: its position (`f_pos_lock`, fs/file.c) or its pages.
///
/// Known by descriptor only: duplicates of one are taken for different places.
#[inline]
pub fn open_file(file: impl AsFd) -> Place {
    Place(u64::from(file.as_fd().as_raw_fd() as u32) + 1)
}

/// The directory in which `path`, relative to `dir`, stands: a change in it
/// takes its lock (`i_rwsem`, Documentation/filesystems/directory-locking.rst).
///
/// Goes by the text: two names of one directory are taken for two places.
#[inline]
pub fn directory(dir: impl AsFd, path: &[u8]) -> Place {
    directory_of(dir.as_fd().as_raw_fd(), path)
}

/// Not inline, so that an open that makes no file has no part of it.
#[inline(never)]
fn directory_of(dir: RawFd, path: &[u8]) -> Place {
    // The kernel does not look at `dir` if the path starts at the root.
    let start = match path.first() {
        Some(b'/') => DIRECTORY,
        _ => u64::from(dir as u32),
    };
    Place(fold(start, parent(path)) | DIRECTORY)
}

/// The path up to its last component, without slashes at the end.
#[inline]
fn parent(path: &[u8]) -> &[u8] {
    let path = without_slashes(path);
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => without_slashes(&path[..slash]),
        None => &[],
    }
}

#[inline]
fn without_slashes(mut path: &[u8]) -> &[u8] {
    while let [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}

/// Mixes the bytes into one number, eight at a time, as FxHash of rustc does:
/// cheap, good enough for a hint.
#[inline]
fn fold(start: u64, bytes: &[u8]) -> u64 {
    let mix =
        |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let (words, tail) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(mix(0, start), |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    // The length tells a tail that ends in zeros from a shorter one.
    let hash = mix(mix(hash, u64::from_le_bytes(last)), bytes.len() as u64);
    // The low bits of a product know little of the high bits of its factors.
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::fs::CWD;
    use std::io;

    #[test]
    fn siblings_share_a_place() {
        let place = |path: &str| directory(CWD, path.as_bytes());
        for (one, other) in [
            ("a", "b"),
            ("a", "./"), // "." stands in "", as "a" does
            ("dir/a", "dir/b"),
            ("dir/a", "dir//b"),
            ("dir/a/", "dir/b"),
            ("/a", "/b"),
            ("/a", "//b"),
            ("/", "//"),
            ("/usr/lib/a", "/usr/lib/b"),
        ] {
            assert_eq!(place(one), place(other), "{one} {other}");
        }
        for (one, other) in
            [("a", "/a"), ("dir/a", "/dir/a"), ("dir/a", "dir/a/b"), ("", "/"), ("a/b", "b/a")]
        {
            assert_ne!(place(one), place(other), "{one} {other}");
        }
    }

    #[test]
    fn the_root_has_one_place_whatever_the_descriptor() {
        assert_eq!(directory(CWD, b"/etc/a"), directory(io::stdin(), b"/etc/b"));
        assert_ne!(directory(CWD, b"etc/a"), directory(io::stdin(), b"etc/a"));
    }

    proptest! {
        #[test]
        fn a_place_is_its_parent(parent in "[a-c/]{0,20}", one in "[a-z]{1,9}", other in "[a-z]{1,9}") {
            let path = |name: &str| format!("{parent}/{name}").into_bytes();
            prop_assert_eq!(directory(CWD, &path(&one)), directory(CWD, &path(&other)));
        }

        #[test]
        fn different_parents_differ(one in "[a-z]{0,40}", other in "[a-z]{0,40}") {
            let place = |parent: &str| directory(CWD, format!("{parent}/x").as_bytes());
            // A leading slash would make the path start at the root.
            prop_assume!(one != other && !one.is_empty() && !other.is_empty());
            prop_assert_ne!(place(&one), place(&other));
        }

        #[test]
        fn any_bytes_have_a_place_that_is_no_open_file(path: Vec<u8>) {
            prop_assert_ne!(directory(CWD, &path), Place::NONE);
            prop_assert_ne!(directory(CWD, &path), open_file(io::stdin()));
        }
    }

    #[test]
    fn no_open_file_is_no_place() {
        assert_eq!(open_file(io::stdin()), Place(1));
        assert_ne!(open_file(CWD), Place::NONE);
    }
}
