//! A request, before it is written where the server reads it.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;

use kumiki_sys::cpuset::CpuSet;

use crate::wire::{BYTES, CPU_WORDS, DATA};

/// What the server is asked for.
#[derive(Debug)]
pub(crate) struct Request {
    /// To be tried in order.
    pub(crate) programs: Vec<CString>,
    pub(crate) args: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) folder: Option<CString>,
    /// The process group, if one was asked for.
    pub(crate) group: Option<i32>,
    pub(crate) cpus: CpuSet,
}

impl Request {
    /// All strings, one after the other.
    ///
    /// # Errors
    /// `E2BIG`.
    pub(crate) fn strings(&self) -> io::Result<Vec<u8>> {
        let all = self.programs.iter().chain(&self.args).chain(&self.env).chain(&self.folder);
        let mut bytes = Vec::new();
        all.for_each(|string| bytes.extend_from_slice(string.as_bytes_with_nul()));
        if bytes.len() > BYTES - DATA || self.cpus.words().len() > CPU_WORDS {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        Ok(bytes)
    }
}

/// A string for the kernel.
///
/// # Errors
/// It has a zero byte.
pub(crate) fn string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| {
        let why = format!("{text:?} has a zero byte, which no argument of a program can have");
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}
