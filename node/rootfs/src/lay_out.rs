//! A tree's files, made in an empty folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat,
    lsetxattr, mknodat, utimensat,
};
use rustix::io::Errno;

use crate::pax::Time;
use crate::read::Root;
use crate::tree::{About, Id, ROOT, What};
use crate::{Error, Result};

impl Root {
    /// Makes all files in `folder`, which is empty and of the file system that the image was read
    /// to: contents are moved there. Owners need the right to give files away.
    pub fn lay_out(&self, folder: &Path) -> Result<()> {
        let mut made = BTreeMap::new();
        self.fill(ROOT, folder, &mut made)
    }

    /// `made`: where a file is that has several names.
    fn fill(&self, id: Id, at: &Path, made: &mut BTreeMap<Id, PathBuf>) -> Result<()> {
        let node = self.tree.node(id);
        let failed = |error: io::Error| Error::file(at, error);
        match &node.what {
            What::Folder(names) => {
                if id != ROOT {
                    fs::create_dir(at).map_err(failed)?;
                }
                for (name, entry) in names {
                    self.fill(entry.id, &at.join(OsStr::from_bytes(name)), made)?;
                }
            }
            _ if made.contains_key(&id) => {
                return fs::hard_link(&made[&id], at).map_err(failed);
            }
            What::File(number) => {
                fs::rename(self.store.place(*number), at).map_err(failed)?;
                made.insert(id, at.to_owned());
            }
            What::Link(target) => {
                std::os::unix::fs::symlink(OsStr::from_bytes(target), at).map_err(failed)?;
                made.insert(id, at.to_owned());
            }
            What::Fifo => {
                mknodat(CWD, at, FileType::Fifo, Mode::RUSR, 0)
                    .map_err(|error| failed(error.into()))?;
                made.insert(id, at.to_owned());
            }
        }
        dress(at, &node.about, matches!(node.what, What::Link(_))).map_err(failed)
    }
}

/// Owner first: giving a file away takes set-user-ID off it.
fn dress(at: &Path, about: &About, is_link: bool) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(about.user), Gid::from_raw(about.group));
    let itself = AtFlags::SYMLINK_NOFOLLOW;
    chownat(CWD, at, Some(user), Some(group), itself)?;
    if !is_link {
        chmodat(CWD, at, Mode::from_raw_mode(about.mode), AtFlags::empty())?;
    }
    for (name, value) in &about.attributes {
        let set = lsetxattr(at, OsStr::from_bytes(name), value, XattrFlags::empty());
        set.map_err(|error| {
            let name = String::from_utf8_lossy(name);
            let length = value.len();
            let hint = match error {
                // By its size, which the kernel takes, or as the file system has no attributes.
                Errno::NOSPC | Errno::TOOBIG | Errno::OPNOTSUPP | Errno::RANGE => {
                    "; TMPDIR names a folder of another file system"
                }
                _ => "",
            };
            io::Error::other(format!("its attribute {name} of {length} bytes: {error}{hint}"))
        })?;
    }
    let Time { seconds, nanoseconds } = about.modified;
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, at, &times, itself)?)
}
