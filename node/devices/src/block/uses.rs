//! Lists of what uses block devices: to say how one is used that could not be claimed, and whether
//! it is written to.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::looped::Loops;
use super::{Block, Use, names};

const BTRFS: &str = "/sys/fs/btrfs";

/// The kernel's lists of uses, as they are now.
pub(super) struct Lists {
    /// Lines of each process' mount namespace, each once.
    mounts: Vec<String>,
    swaps: String,
    pub(super) loops: Loops,
}

impl Lists {
    pub(super) fn read() -> Self {
        let mut mounts = HashSet::new();
        let mut seen = HashSet::new();
        for process in names(Path::new("/proc")) {
            let folder = Path::new("/proc").join(process);
            let Ok(space) = fs::read_link(folder.join("ns/mnt")) else { continue };
            if seen.insert(space) {
                let text = fs::read_to_string(folder.join("mountinfo")).unwrap_or_default();
                mounts.extend(text.lines().map(str::to_owned));
            }
        }
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        Lists { mounts: mounts.into_iter().collect(), swaps, loops: Loops::read() }
    }

    /// Use of this one, by itself.
    pub(super) fn of(&self, block: &Block) -> Option<Use> {
        let rdev = |path: &str| fs::metadata(path).ok().map(|about| about.rdev());
        let mounted = self.mounts.iter().filter_map(|line| Mount::parse(line));
        let mounted = mounted.filter(|mount| mount.is_of(block.number, rdev));
        // One device has one superblock, whatever each of its mounts says.
        if let Some(mount) = mounted.min_by_key(|mount| mount.place.len()) {
            let how = format!("is mounted at {}", mount.place);
            return Some(Use { how, read_only: mount.read_only });
        }
        let used = |how: String| Some(Use { how, read_only: false });
        let swaps = self.swaps.lines().filter_map(|line| line.split_whitespace().next());
        if swaps.into_iter().any(|path| rdev(path) == Some(block.number)) {
            return used("is swapped to".to_owned());
        }
        if let Some(holder) = names(&block.folder().join("holders")).first() {
            return used(format!("is part of {holder}"));
        }
        let of_btrfs = names(Path::new(BTRFS))
            .into_iter()
            .any(|id| Path::new(BTRFS).join(id).join("devices").join(&block.name).exists());
        of_btrfs.then(|| "is part of a btrfs that is mounted".to_owned()).and_then(used)
    }

    /// Use of this file as swap.
    pub(super) fn swap(&self, about: &Metadata) -> Option<Use> {
        let mut paths = self.swaps.lines().filter_map(|line| line.split_whitespace().next());
        let is_it = |path: &str| {
            fs::metadata(path)
                .is_ok_and(|other| (other.dev(), other.ino()) == (about.dev(), about.ino()))
        };
        let used = Use { how: "is swapped to".to_owned(), read_only: false };
        paths.any(is_it).then_some(used)
    }
}

/// A line of mountinfo (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    number: u64,
    place: &'a str,
    kind: &'a str,
    source: &'a str,
    /// The superblock's word, which holds for all of its mounts.
    read_only: bool,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (mount, superblock) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(2);
        let (major, minor) = words.next()?.split_once(':')?;
        let number = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        let place = words.nth(1)?;
        let mut words = superblock.split(' ');
        let (kind, source, options) = (words.next()?, words.next()?, words.next()?);
        let read_only = options.split(',').any(|option| option == "ro");
        Some(Mount { number, place, kind, source, read_only })
    }

    /// btrfs has a number of its own, and names a device of its; of others a source may be any text.
    fn is_of(&self, number: u64, rdev: impl Fn(&str) -> Option<u64>) -> bool {
        self.number == number || self.kind == "btrfs" && rdev(self.source) == Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_known_by_its_superblock() {
        let line = "36 35 254:1 /sub /data\\040x rw,noatime shared:1 - ext4 /dev/root ro,errors=x";
        let mount = Mount::parse(line).unwrap();
        let number = rustix::fs::makedev(254, 1);
        assert_eq!((mount.number, mount.place), (number, "/data\\040x"));
        assert!(mount.read_only && mount.is_of(number, |_| None));
        // A mount that is read only of what is written elsewhere.
        let bound = Mount::parse("37 35 254:1 / /b ro,relatime - ext4 /dev/vda1 rw").unwrap();
        assert!(!bound.read_only);
        // Any text may stand for the source.
        let other = Mount::parse("38 35 0:40 / /t ro - tmpfs /dev/vda1 ro").unwrap();
        assert!(!other.is_of(number, |_| Some(number)));
        let btrfs = Mount::parse("39 35 0:41 / /t rw - btrfs /dev/vda1 ro,subvol=/").unwrap();
        assert!(btrfs.is_of(number, |_| Some(number)) && btrfs.read_only);
        for line in ["", "36 35 254:1 / /a rw - ext4", "36 35 254 / /a rw - ext4 /dev/a rw"] {
            assert_eq!(Mount::parse(line), None, "{line}");
        }
    }
}
