//! A path's links, one by one: where no descriptor is to be had, by which the kernel would tell.

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use kumiki_parasc::op::path::terminated;
use kumiki_parasc::op::{CWD, Errno, Readlinkat};

use crate::engine::{hand_over, invalid};
use crate::memory;

/// Links that the kernel follows at most.
const LINKS: u32 = 40;
/// Length of a path at most, with the zero at its end (PATH_MAX).
const LONGEST: usize = 4096;

/// The absolute path without links, as realpath(3) finds it.
pub(crate) async fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT.into());
    }
    let mut at = if path.is_absolute() { PathBuf::from("/") } else { std::env::current_dir()? };
    let (mut left, mut links) = (VecDeque::from(parts(path.as_os_str())), 0);
    while let Some(part) = left.pop_front() {
        match part.as_bytes() {
            b"" | b"." => is_folder(&at).await?,
            b".." => {
                is_folder(&at).await?;
                at.pop();
            }
            _ => {
                let next = at.join(&part);
                let Some(target) = link(&next).await? else {
                    at = next;
                    continue;
                };
                links += 1;
                if links > LINKS {
                    return Err(Errno::LOOP.into());
                }
                if target.as_bytes().starts_with(b"/") {
                    at = PathBuf::from("/");
                }
                parts(&target).into_iter().rev().for_each(|part| left.push_front(part));
            }
        }
    }
    Ok(at)
}

/// A path's parts. One that is empty at the end, behind a slash, says that it is a folder; others
/// say nothing.
fn parts(path: &OsStr) -> Vec<OsString> {
    let mut parts: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
    let last = parts.pop().unwrap_or_default();
    parts.retain(|part| !part.is_empty());
    parts.push(last);
    parts.into_iter().map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

/// Target of a link; `None` if it is none.
async fn link(path: &Path) -> io::Result<Option<OsString>> {
    let path = terminated(path).map_err(invalid)?;
    let read = hand_over(Readlinkat::new(CWD, path, memory::room(LONGEST)?)).await?;
    match read.output {
        Ok(count) => {
            let mut target = read.operation.into_buffer();
            target.truncate(count);
            Ok(Some(OsString::from_vec(target)))
        }
        Err(Errno::INVAL) => Ok(None),
        // A filter; the C library, and so std, asks by the older call. It may sleep here: that is better
        // than no answer, where each such call is refused.
        Err(Errno::NOSYS | Errno::PERM) => older(read.operation.into_parts().1.as_c_str()),
        Err(errno) => Err(errno.into()),
    }
}

/// Target of a link by readlink(2).
fn older(path: &CStr) -> io::Result<Option<OsString>> {
    match std::fs::read_link(OsStr::from_bytes(path.to_bytes())) {
        Ok(target) => Ok(Some(target.into_os_string())),
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn is_folder(path: &Path) -> io::Result<()> {
    // No link has this name: it is the folder itself, or an error.
    link(&path.join(".")).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use futures_lite::future::block_on;

    use super::*;

    #[test]
    fn each_path_is_that_of_std() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/file"), "").unwrap();
        for (target, name) in [
            ("a", "to-folder"),
            ("a/file", "to-file"),
            ("../to-folder/b/..", "a/around"),
            ("nowhere", "broken"),
            ("one", "two"),
            ("two", "one"),
            ("/", "to-root"),
            ("a/file/", "to-file-as-folder"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        for path in [
            "",
            "a",
            "a/",
            "a/.",
            "a/./b//",
            "a/b/..",
            "a/b/../..",
            "a/file",
            "a/file/",
            "a/file/.",
            "a/file/..",
            "a/file/x",
            "to-folder",
            "to-folder/",
            "to-folder/b",
            "to-folder/..",
            "to-file",
            "to-file/",
            "a/around",
            "a/around/file",
            "broken",
            "broken/..",
            "one",
            "two/x",
            "to-root",
            "to-root/etc/passwd",
            "to-root/proc/self/exe",
            "to-file-as-folder",
            "none",
            "none/..",
            "a//b",
            "../..",
            ".",
        ] {
            let path = at(path);
            let told = |it: io::Result<PathBuf>| it.map_err(|error| error.raw_os_error());
            assert_eq!(
                told(block_on(canonicalize(&path))),
                told(std::fs::canonicalize(&path)),
                "{}",
                path.display()
            );
        }
        for path in ["", ".", "..", "/", "//", "/..", "src", "src/../Cargo.toml", "no", "\u{e4}"] {
            let told = |it: io::Result<PathBuf>| it.map_err(|error| error.raw_os_error());
            let path = Path::new(path);
            assert_eq!(told(block_on(canonicalize(path))), told(std::fs::canonicalize(path)));
        }
    }
}
