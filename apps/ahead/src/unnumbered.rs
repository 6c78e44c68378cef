//! Names of folders whose listings tell no numbers of files, as those of FUSE by libfuse's paths (sshfs): such a name is known by its
//! folder's key and its text. The program's calls tell both; to take them is another call of ours for each, and so it is done only
//! where such a folder was listed.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use rustix::fs::CWD;

use crate::clock::{now, sleeps};
use crate::folder;
use crate::shared::Shared;
use crate::table::{FOLDER, Key, Place};

/// A way that took longer and slept has been asked of who serves the file system.
const SLEPT_NS: u64 = 50_000;
/// Slow ways, less those that were not, from which on none is gone any more.
const MOST_SLOW: u8 = 4;

/// A path as a call of the program has it, and the folder where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At<'path> {
    begins: c_int,
    path: Option<&'path CStr>,
}

impl<'path> At<'path> {
    pub(crate) fn new(begins: c_int, path: &'path CStr) -> Self {
        At { begins, path: Some(path) }
    }

    /// A path that begins at the working folder.
    pub(crate) fn here(path: &'path CStr) -> Self {
        At::new(libc::AT_FDCWD, path)
    }

    /// A descriptor, which has no path.
    pub(crate) const NONE: At<'static> = At { begins: libc::AT_FDCWD, path: None };

    /// # Safety
    /// The path is null, or a text that ends with a zero and stays as it is.
    pub(crate) unsafe fn of_call(begins: c_int, path: *const c_char) -> Self {
        // SAFETY: as the caller says, where it is not null.
        let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
        At { begins, path }
    }
}

/// Finds a file that the program has come to by this path, and the key by which it stands in the table.
pub(crate) fn find<'shared>(
    shared: &'shared Shared,
    key: Key,
    at: At<'_>,
) -> Option<(Key, &'shared Place)> {
    if let Some(place) = shared.table.find(key) {
        return Some((key, place));
    }
    if !shared.unnumbered.are_some() {
        return None;
    }
    let named = named(shared, at)?;
    let place = shared.table.find(named)?;
    if place.flags() & FOLDER != 0 {
        shared.unnumbered.is_opened(key, named);
    }
    Some((named, place))
}

/// The key by which a folder stands in the table that the program is about to read: where that is by its name, it has just opened
/// it by that, or this is its path.
pub(crate) fn key_of_visited(shared: &Shared, key: Key, at: At<'_>) -> Key {
    match find(shared, key, at) {
        Some((found, _)) => found,
        None => shared.unnumbered.named(key).unwrap_or(key),
    }
}

fn named(shared: &Shared, at: At<'_>) -> Option<Key> {
    let mut path = at.path?.to_bytes();
    while let Some((b'/', rest)) = path.split_last() {
        path = rest;
    }
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (above, name) = path.split_at_checked(start)?;
    if matches!(name, b"" | b"." | b"..") {
        return None;
    }
    let folder = match above {
        b"" if at.begins >= 0 => {
            // SAFETY: the program's call has just begun at it; where another thread has closed it, one use is counted wrongly.
            let open = unsafe { BorrowedFd::borrow_raw(at.begins) };
            folder::identity(open).map(|(device, inode)| Key::of(device, inode))?
        }
        b"" => folder_of(shared, libc::AT_FDCWD, b".")?,
        _ => folder_of(shared, at.begins, above)?,
    };
    Some(Key::named(folder, name))
}

/// The key of a folder to which the program has just gone by this path. All of that way is in memory, but where the file system
/// asks its server about names each time: there the program would wait twice. One that asks again after a while does so now and
/// then.
pub(crate) fn folder_of(shared: &Shared, begins: c_int, path: &[u8]) -> Option<Key> {
    let slow = shared.slow_ways.load(Ordering::Relaxed);
    if slow >= MOST_SLOW {
        return None;
    }
    // An absolute path begins nowhere, and what the program has named for it may be no descriptor.
    let at = if begins < 0 {
        CWD
    } else {
        // SAFETY: the program's call has just begun at it.
        unsafe { BorrowedFd::borrow_raw(begins) }
    };
    let (began, before) = (now(), sleeps());
    let key = folder::key_of(at, path);
    let is_slow = now().saturating_sub(began) >= SLEPT_NS && sleeps() != before;
    if is_slow || slow > 0 {
        // Two threads that count at once count one.
        let slow = if is_slow { slow + 1 } else { slow - 1 };
        shared.slow_ways.store(slow, Ordering::Relaxed);
    }
    key
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::fd::{AsFd, AsRawFd};

    use super::*;
    use crate::table::Listed;

    #[test]
    fn a_name_is_found_by_its_folder_where_numbers_are_not_told() {
        let shared = Shared::boxed();
        let above = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::create_dir(above.path().join("below")).unwrap();
        fs::write(above.path().join("file"), "text").unwrap();
        let key = |path: &std::path::Path| {
            let open = fs::File::open(path).unwrap();
            let (device, inode) = folder::identity(open.as_fd()).unwrap();
            Key::of(device, inode)
        };
        let listed = |position| Listed { folder: 1, turn: 1, position };
        let folder = key(above.path());
        shared.table.put(Key::named(folder, b"file"), listed(0), 0);
        shared.table.put(Key::named(folder, b"below"), listed(1), FOLDER);
        let open = fs::File::open(above.path()).unwrap();
        let whole = |name| CString::new(format!("{}/{name}", above.path().display())).unwrap();
        let file = key(&above.path().join("file"));
        let (absolute, with_slashes) = (whole("file"), whole("below//"));
        let found = |at| find(&shared, file, at).map(|(_, place)| place.listed().position);
        // As long as no listing was without numbers, nobody looks.
        assert_eq!(found(At::new(open.as_raw_fd(), c"file")), None);
        shared.unnumbered.are_listed();
        assert_eq!(found(At::new(open.as_raw_fd(), c"file")), Some(0));
        assert_eq!(found(At::new(open.as_raw_fd(), c"below/../file")), Some(0));
        // What an absolute path is said to begin at may be no descriptor.
        assert_eq!(found(At::new(-1, &absolute)), Some(0));
        assert_eq!(found(At::here(&with_slashes)), Some(1));
        for none in [c"", c".", c"..", c"/", c"other", c"below/file"] {
            assert_eq!(found(At::new(open.as_raw_fd(), none)), None, "{none:?}");
        }
        assert_eq!(found(At::NONE), None);
    }

    #[test]
    fn a_folder_that_was_opened_by_its_name_is_known_when_it_is_read() {
        let shared = Shared::boxed();
        shared.unnumbered.are_listed();
        let above = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let open = fs::File::open(above.path()).unwrap();
        let (device, inode) = folder::identity(open.as_fd()).unwrap();
        let named = Key::named(Key::of(device, inode), b"below");
        shared.table.put(named, Listed { folder: 1, turn: 1, position: 1 }, FOLDER);
        let (below, other) = (Key::of(device, 77), Key::of(device, 78));
        assert_eq!(key_of_visited(&shared, below, At::NONE), below);
        assert!(find(&shared, below, At::new(open.as_raw_fd(), c"below")).is_some());
        assert_eq!(key_of_visited(&shared, below, At::NONE), named);
        assert_eq!(key_of_visited(&shared, other, At::NONE), other);
    }
}
