//! Calls on names: open, create, rename, link.

use std::ffi::{CStr, CString};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::folder::{Folder, create, failed, make_folder, remove};
use kumiki_measure::case::{Case, Level};
use kumiki_measure::error::Result;

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![open_close(1), open_close(8).level(Level::Default)];
    cases.extend(pairs());
    cases.push(rename());
    cases
}

/// `depth` names from a descriptor to the file, all in the name cache.
fn open_close(depth: usize) -> Case {
    let case = Case::new("file.open_close", "open a file and close it", move |place| {
        let folder = Folder::new(place)?;
        let path = deep(&folder, depth)?;
        Ok(folder.each(move |folder| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::openat(folder, path.as_c_str(), flags, Mode::empty())
                .map(drop)
                .map_err(|e| failed("open", &path, e))
        }))
    });
    case.with("depth", depth)
}

/// Makes `d/d/…/f` of `depth` names.
fn deep(folder: &Folder, depth: usize) -> Result<CString> {
    let mut path = String::new();
    for _ in 1..depth {
        path.push('d');
        folder.make_folder(&c_string(&path))?;
        path.push('/');
    }
    path.push('f');
    let path = c_string(&path);
    folder.create(&path)?;
    Ok(path)
}

fn c_string(path: &str) -> CString {
    CString::new(path).expect("a path made here has no NUL")
}

/// Calls with the call that takes them back.
fn pairs() -> [Case; 4] {
    const FILE: &CStr = c"file";
    const OTHER: &CStr = c"other";
    let files = AtFlags::empty();
    [
        Case::new("file.create_unlink", "create a file, close it and remove it", move |place| {
            Ok(Folder::new(place)?.each(move |folder| {
                create(folder, FILE)?;
                remove(folder, FILE, files)
            }))
        }),
        Case::new("file.mkdir_rmdir", "make a folder and remove it", |place| {
            Ok(Folder::new(place)?.each(|folder| {
                make_folder(folder, OTHER)?;
                remove(folder, OTHER, AtFlags::REMOVEDIR)
            }))
        }),
        Case::new("file.link_unlink", "give a file a second name and remove that", move |place| {
            let folder = Folder::new(place)?;
            folder.create(FILE)?;
            Ok(folder.each(move |folder| {
                rustix::fs::linkat(folder, FILE, folder, OTHER, files)
                    .map_err(|e| failed("link", OTHER, e))?;
                remove(folder, OTHER, files)
            }))
        })
        .level(Level::Default),
        Case::new("file.symlink_unlink", "make a symbolic link and remove it", move |place| {
            Ok(Folder::new(place)?.each(move |folder| {
                rustix::fs::symlinkat(FILE, folder, OTHER)
                    .map_err(|e| failed("symlink", OTHER, e))?;
                remove(folder, OTHER, files)
            }))
        })
        .level(Level::Default),
    ]
}

fn rename() -> Case {
    Case::new("file.rename", "rename a file within a folder", |place| {
        let folder = Folder::new(place)?;
        let (mut from, mut to) = (c"here", c"there");
        folder.create(from)?;
        Ok(folder.each(move |folder| {
            rustix::fs::renameat(folder, from, folder, to)
                .map_err(|e| failed("rename", from, e))?;
            std::mem::swap(&mut from, &mut to);
            Ok(())
        }))
    })
}
