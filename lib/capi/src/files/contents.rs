//! The contents of many files.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{IntoRawFd, OwnedFd};

use kumiki_parasc::tries::{OpenRead, OpenReadError, Opened};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::engine::engine;
use super::named::{directory, names};
use super::{KUMIKI_FILES_ASK, KUMIKI_FILES_OPEN};
use crate::failure::{Failure, answer_all};

/// Files of which some are read while others wait: each has its content in memory, and may have a descriptor.
const AT_ONCE: usize = 256;

/// `struct kumiki_files_content`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct Content {
    pub data: *const u8,
    pub size: usize,
    pub error: i64,
}

/// `struct kumiki_files_contents`
pub struct Contents {
    /// Memory that the table points to.
    _data: Vec<Vec<u8>>,
    table: Vec<Content>,
}

/// Outcome of a file: its content, or an error's number and perhaps a descriptor.
fn content(opened: Result<Opened, OpenReadError>) -> Result<Vec<u8>, (i64, Option<OwnedFd>)> {
    match opened {
        Ok(opened) => match opened.attributes.file_type() {
            FileType::RegularFile => Ok(opened.data),
            FileType::Directory => Err((Errno::ISDIR.raw_os_error().into(), None)),
            // To wait for what comes out of it is for who has asked: its other end knows of this descriptor.
            _ => Err((KUMIKI_FILES_OPEN.into(), opened.file)),
        },
        // Somebody has a lease of it, it has no positions, or descriptors are short while many are open.
        Err(OpenReadError { errno: Errno::AGAIN | Errno::SPIPE | Errno::MFILE, .. }) => {
            Err((KUMIKI_FILES_ASK.into(), None))
        }
        Err(error) => Err((error.errno.raw_os_error().into(), None)),
    }
}

/// See the header.
///
/// # Safety
/// `list` has `size` bytes; `contents` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_read(
    dir_fd: c_int,
    list: *const c_char,
    size: usize,
    n: usize,
    contents: *mut *mut Contents,
) -> c_int {
    answer_all(|| {
        if contents.is_null() {
            return Err(Failure::invalid("the place for the contents is a null pointer"));
        }
        let dir = directory(dir_fd)?;
        // SAFETY: the caller's promise.
        let names = unsafe { names(list, size, n) }?;
        let engine = engine()?;
        let (mut data, mut table) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for names in names.chunks(AT_ONCE) {
            let read = |name: &&CStr| {
                let name: CString = (**name).into();
                engine.attempt(OpenRead::<_, CString>::new(dir, name).keep_unread())
            };
            let begun: Vec<_> = names.iter().map(read).collect();
            for read in begun {
                let output = read.wait().map_err(|failed| Failure::from(failed.error))?.output;
                let (bytes, size, error) = match content(output) {
                    Ok(bytes) => {
                        let size = bytes.len();
                        (bytes, size, 0)
                    }
                    // A descriptor is the caller's from here on.
                    Err((error, Some(file))) => (Vec::new(), file.into_raw_fd() as usize, error),
                    Err((error, None)) => (Vec::new(), 0, error),
                };
                table.push(Content { data: bytes.as_ptr(), size, error });
                data.push(bytes);
            }
        }
        let failed = table.iter().filter(|content| content.error != 0).count();
        let made = Box::into_raw(Box::new(Contents { _data: data, table }));
        // SAFETY: not null, so valid, the caller says.
        unsafe { contents.write(made) };
        Ok(c_int::try_from(failed).unwrap_or(c_int::MAX))
    })
}

/// See the header.
///
/// # Safety
/// `contents` is from [`kumiki_files_read`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_contents_list(contents: *const Contents) -> *const Content {
    // SAFETY: the caller's promise.
    unsafe { contents.as_ref() }.map_or(std::ptr::null(), |contents| contents.table.as_ptr())
}

/// See the header.
///
/// # Safety
/// `contents` is null, or from [`kumiki_files_read`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_contents_destroy(contents: *mut Contents) {
    if !contents.is_null() {
        // SAFETY: it was made from a box, and this is its end.
        drop(unsafe { Box::from_raw(contents) });
    }
}
