//! Second tries: opens that were refused for how they were asked, not for what is there.
//!
//! ```text
//!  EXDEV   a link that is absolute, also within the folder ─▶ where does it lead (O_PATH)?
//!          ─▶ the path from the folder on, if it is there ─▶ opened beneath the folder as ever
//!  EAGAIN  somebody has a lease of the file (fcntl(2)) ─▶ held by O_PATH, seen to be a file ─▶
//!          opened by a thread that may sleep until the lease is given back
//! ```
//!
//! Of a path that is not there as a whole the longest part is looked at that is: whether something
//! is there outside of the folder makes no difference to the answer.
//!
//! The first step reads nothing and opens nothing: `O_PATH` is a name. What it has found is not
//! believed: the path goes beneath the folder again, and a lease's file is opened by its own
//! descriptor.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use kumiki_parasc::op::Errno;
use kumiki_parasc::tries::OpenRead;
use rustix::fs::{FileType, OFlags, ResolveFlags};

use crate::beneath::BENEATH;
use crate::held::Held;
use crate::response::Status;
use crate::work::Opened;

/// Reason for a second try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    AbsoluteLink,
    Lease,
}

/// Stage of the opening of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    First,
    /// The server looks where the path leads, or what it is: so many bytes of it.
    Looking(Why, usize),
    /// The second try: there is no third.
    Second,
}

/// Outcome of a look.
#[derive(Debug)]
pub(crate) enum Found {
    /// Path below the folder, of what was looked at.
    Path(CString),
    /// Itself, by a descriptor and the name of that.
    File(Arc<Held>, CString),
    /// A file of a kind that is not served so.
    Other,
}

impl Why {
    /// Reason for a second try after this error, if it is one.
    pub(crate) fn of(errno: Errno) -> Option<Self> {
        match errno {
            Errno::XDEV => Some(Why::AbsoluteLink),
            Errno::AGAIN => Some(Why::Lease),
            _ => None,
        }
    }

    /// The answer where that is no help.
    pub(crate) fn status(self) -> Status {
        match self {
            Why::AbsoluteLink => Status::FORBIDDEN,
            Why::Lease => Status::UNAVAILABLE,
        }
    }

    /// The look.
    pub(crate) fn look(self, folder: &Arc<Held>, path: CString) -> OpenRead<Arc<Held>, CString> {
        let resolve = match self {
            Why::AbsoluteLink => ResolveFlags::NO_MAGICLINKS,
            Why::Lease => BENEATH,
        };
        let flags = OFlags::PATH;
        OpenRead::new(Arc::clone(folder), path).flags(flags).resolve(resolve).range(0, 0).keep()
    }

    /// Reads what it has found.
    pub(crate) fn found(self, folder: &Held, opened: Opened) -> Found {
        let file = opened.file;
        match self {
            Why::AbsoluteLink => below(folder, &file).map_or(Found::Other, Found::Path),
            Why::Lease if opened.attributes.file_type() == FileType::RegularFile => {
                let name = CString::new(own_name(&*file)).unwrap_or_default();
                Found::File(file, name)
            }
            Why::Lease => Found::Other,
        }
    }
}

/// The part of a path before the last name of its first `length` bytes.
pub(crate) fn shorter(path: &CStr, length: usize) -> Option<(CString, usize)> {
    let part = path.to_bytes().get(..length)?;
    let end = part.iter().rposition(|byte| *byte == b'/')?;
    Some((CString::new(part.get(..end)?).ok()?, end))
}

/// A path with what was not looked at behind it.
pub(crate) fn longer(found: CString, path: &CStr, length: usize) -> CString {
    let rest = path.to_bytes().get(length..).unwrap_or_default();
    CString::new([found.to_bytes(), rest].concat()).unwrap_or_default()
}

fn own_name(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// The path from the folder to the file, if it is below it.
fn below(folder: &Held, file: &Held) -> Option<CString> {
    // Of the kernel's memory: it does not sleep.
    let name = |of: String| rustix::fs::readlink(of, Vec::new()).ok();
    path_below(&name(own_name(folder))?, &name(own_name(file))?)
}

fn path_below(folder: &CStr, file: &CStr) -> Option<CString> {
    let folder = folder.to_bytes();
    let rest = file.to_bytes().strip_prefix(folder.strip_suffix(b"/").unwrap_or(folder))?;
    match rest {
        b"" | b"/" => Some(c".".to_owned()),
        rest => CString::new(rest.strip_prefix(b"/")?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_looked_at_from_its_end() {
        let path = c"a/b/c";
        let (part, length) = shorter(path, 5).unwrap();
        assert_eq!((&*part, length), (c"a/b", 3));
        assert_eq!(longer(c"x/y".to_owned(), path, length).as_c_str(), c"x/y/c");
        let (part, length) = shorter(path, length).unwrap();
        assert_eq!((&*part, length), (c"a", 1));
        assert_eq!(longer(c".".to_owned(), path, length).as_c_str(), c"./b/c");
        assert!(shorter(path, length).is_none());
    }

    #[test]
    fn a_path_is_below_a_folder_by_whole_names() {
        let below = |folder: &CStr, file: &CStr| path_below(folder, file);
        assert_eq!(below(c"/srv/www", c"/srv/www/a/b").as_deref(), Some(c"a/b"));
        assert_eq!(below(c"/srv/www", c"/srv/www").as_deref(), Some(c"."));
        assert_eq!(below(c"/", c"/a/b").as_deref(), Some(c"a/b"));
        assert_eq!(below(c"/", c"/").as_deref(), Some(c"."));
        for outside in [c"/srv/wwwx/a", c"/srv", c"/etc/passwd", c"pipe:[7]", c""] {
            assert_eq!(below(c"/srv/www", outside), None, "{outside:?}");
        }
    }
}
