//! Block devices, and whether anything has them: the kernel's own word, by an exclusive open. That
//! is refused for a mount in any namespace, for swap, and for a part of dm, md, btrfs, bcache or
//! ZFS; tables of mounts know of one namespace alone. What an exclusive open does not see, a loop
//! device over it, is asked of the loop devices.

mod looped;
mod uses;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::{Error, Result};
use uses::Lists;

const BLOCKS: &str = "/sys/class/block";

/// A disk or a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub name: String,
    /// Device number, as stat(2) has it.
    number: u64,
}

/// The kernel's answer.
#[derive(Debug)]
pub enum Asked {
    /// Free: nobody's; the claim lasts as long as this file is open. There is none of a disk
    /// without a medium.
    Free(Option<File>),
    Used(Use),
}

/// A use of a block device or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Use in words, such as `is mounted at /data`.
    pub how: String,
    /// Nothing is written by it.
    pub read_only: bool,
}

impl Block {
    fn named(name: String) -> Option<Block> {
        let text = fs::read_to_string(Path::new(BLOCKS).join(&name).join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        let number = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        Some(Block { name, number })
    }

    /// Disks whose names are `wanted`, without their partitions.
    pub fn disks(wanted: impl Fn(&str) -> bool) -> Vec<Block> {
        let names = names(Path::new(BLOCKS)).into_iter().filter(|name| wanted(name));
        names.filter_map(Block::named).filter(|block| !block.is_partition()).collect()
    }

    /// Disks below a device of the host's, by its folder in /sys.
    pub fn below(place: &Path) -> Vec<Block> {
        let heads: Vec<String> = names(Path::new(BLOCKS))
            .into_iter()
            .filter(|name| {
                fs::canonicalize(Path::new(BLOCKS).join(name))
                    .is_ok_and(|path| path.starts_with(place))
            })
            .map(|name| head_of(&name).unwrap_or(name))
            .collect();
        Block::disks(|name| heads.iter().any(|head| head == name))
    }

    fn folder(&self) -> PathBuf {
        Path::new(BLOCKS).join(&self.name)
    }

    fn is_partition(&self) -> bool {
        self.folder().join("partition").exists()
    }

    /// True if its driver writes nothing to it, whoever asks.
    pub fn is_read_only(&self) -> bool {
        fs::read_to_string(self.folder().join("ro")).is_ok_and(|text| text.trim() == "1")
    }

    /// Its partitions; they are folders in its own.
    fn partitions(&self) -> Vec<Block> {
        let there = names(&self.folder()).into_iter().filter_map(Block::named);
        there.filter(Block::is_partition).collect()
    }

    /// Claims it; of a disk, with all of its partitions.
    pub fn ask(&self) -> Result<Asked> {
        self.ask_with(&Lists::read())
    }

    fn ask_with(&self, lists: &Lists) -> Result<Asked> {
        let partitions = self.partitions();
        let parts = [std::slice::from_ref(self), &*partitions].concat();
        if let Some(used) = parts.iter().find_map(|part| lists.loops.over_block(part.number)) {
            return Ok(Asked::Used(used));
        }
        match self.claim() {
            Ok(file) => Ok(Asked::Free(file)),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                Ok(Asked::Used(self.used(&partitions, lists)))
            }
            Err(error) => Err(Error::file(Path::new("/dev").join(self.device()), error)),
        }
    }

    /// Use of a disk or partition that could not be claimed. A disk is not free when a partition of
    /// it is not, nor a partition of a disk that is not.
    fn used(&self, partitions: &[Block], lists: &Lists) -> Use {
        if let Some(used) = lists.of(self) {
            return used;
        }
        let is_used = |part: &&Block| {
            part.claim().is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
        };
        let mut of_parts: Vec<Use> = Vec::new();
        for part in partitions.iter().filter(is_used) {
            let used = lists.of(part).unwrap_or_else(Use::unseen);
            of_parts.push(Use { how: format!("has {}, which {}", part.name, used.how), ..used });
        }
        // What is written to counts first.
        of_parts.sort_by_key(|used| used.read_only);
        of_parts.into_iter().next().unwrap_or_else(Use::unseen)
    }

    fn device(&self) -> String {
        self.name.replace('!', "/")
    }

    fn claim(&self) -> io::Result<Option<File>> {
        let [named, numbered] = [
            Path::new("/dev").join(self.device()),
            Path::new("/dev/block").join(format!(
                "{}:{}",
                rustix::fs::major(self.number),
                rustix::fs::minor(self.number)
            )),
        ];
        let is_it = |path: &&PathBuf| {
            fs::metadata(path).is_ok_and(|about| {
                about.file_type().is_block_device() && about.rdev() == self.number
            })
        };
        let path = [&named, &numbered].into_iter().find(is_it).unwrap_or(&named);
        claimed(path, OpenOptions::new().read(true))
    }
}

impl Use {
    fn unseen() -> Use {
        Use {
            how:
                "is in use by what no list here names: a mount in another mount namespace, a part \
                  of another device, or a program that keeps it to itself"
                    .to_owned(),
            read_only: false,
        }
    }
}

/// Opens a block device and claims it; there is nothing to claim in one without a medium.
fn claimed(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
    let flags = (OFlags::EXCL | OFlags::NONBLOCK).bits().cast_signed();
    match options.custom_flags(flags).open(path) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENOMEDIUM)) => {
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

/// Asks what of this machine has a file that is to be a disk: of a block device itself and its
/// partitions, of a file the loop devices over it, and swap.
pub fn of_file(path: &Path) -> Result<Option<Use>> {
    let about = fs::metadata(path).map_err(|error| Error::file(path, error))?;
    let lists = Lists::read();
    if !about.file_type().is_block_device() {
        return Ok(lists.loops.over_file(about.dev(), about.ino()).or_else(|| lists.swap(&about)));
    }
    let link = format!(
        "/sys/dev/block/{}:{}",
        rustix::fs::major(about.rdev()),
        rustix::fs::minor(about.rdev())
    );
    let place = fs::canonicalize(&link).map_err(|error| Error::file(&link, error))?;
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match (Block { name, number: about.rdev() }).ask_with(&lists)? {
        Asked::Free(_) => Ok(None),
        Asked::Used(used) => Ok(Some(used)),
    }
}

/// The disk that programs use of a path to it: an NVMe with several paths has one disk above them.
fn head_of(name: &str) -> Option<String> {
    let (controller, rest) = name.strip_prefix("nvme")?.split_once('c')?;
    let (path, space) = rest.split_once('n')?;
    let numbers = [controller, path];
    let are =
        numbers.iter().all(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
    are.then(|| format!("nvme{controller}n{space}"))
}

/// Names in a folder, if there is one.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_to_an_nvme_leads_to_the_disk_above() {
        assert_eq!(head_of("nvme0c1n2").as_deref(), Some("nvme0n2"));
        assert_eq!(head_of("nvme12c3n4p5").as_deref(), Some("nvme12n4p5"));
        for name in ["nvme0n1", "nvme0n1p2", "sda", "vda", "nvmecn1", "nvme0cn1", "nvme0c1"] {
            assert_eq!(head_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_that_nothing_has_is_free_and_one_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        let said = of_file(&file).unwrap_err().to_string();
        assert!(said.contains("disk"), "{said}");
        fs::write(&file, [0; 4096]).unwrap();
        assert_eq!(of_file(&file).unwrap(), None);
    }
}
