//! Many files that are written.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{BorrowedFd, OwnedFd};

use kumiki_parasc::op::{Close, Fsync, Openat, Pwrite, Write};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::engine::run;
use super::named::{directory, names, room};
use super::{KUMIKI_FILES_APPEND, KUMIKI_FILES_NEW, KUMIKI_FILES_SYNC};
use crate::failure::{Failure, answer_all};

/// Files that are open at the same time.
const AT_ONCE: usize = 256;

/// `struct kumiki_files_data`: what a file is to hold.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct Data {
    pub bytes: *const u8,
    pub size: usize,
}

/// A file and what is to be in it.
#[derive(Clone, Copy)]
struct Job<'a> {
    name: &'a CStr,
    data: &'a [u8],
}

/// Options that hold for all of them.
struct How<'a> {
    dir: BorrowedFd<'a>,
    flags: OFlags,
    mode: Mode,
    syncs: bool,
}

impl How<'_> {
    /// Writes each; the error of each.
    fn write(&self, jobs: &[Job<'_>], errors: &mut [c_int]) {
        let mut opens: Vec<_> = jobs.iter().copied().map(|job| self.open(job)).collect();
        let mut files: Vec<Option<OwnedFd>> = Vec::with_capacity(jobs.len());
        for (opened, error) in run(&mut opens).into_iter().zip(&mut *errors) {
            keep(error, &opened);
            files.push(opened.ok());
        }
        let mut writes = Vec::new();
        let mut whose = Vec::new();
        for (at, (file, job)) in files.iter().zip(jobs).enumerate() {
            if let Some(file) = file.as_ref().filter(|_| !job.data.is_empty()) {
                writes.push(Write::new(file, job.data));
                whose.push(at);
            }
        }
        for (written, at) in run(&mut writes).into_iter().zip(whose) {
            let (Some(Some(file)), Some(job), Some(error)) =
                (files.get(at), jobs.get(at), errors.get_mut(at))
            else {
                continue;
            };
            keep(error, &written.and_then(|count| self.rest(file, job.data, count)));
        }
        if self.syncs {
            let is_fine = |(_, error): &(&Option<OwnedFd>, &mut c_int)| **error == 0;
            let fine = files.iter().zip(&mut *errors).filter(is_fine);
            let (mut syncs, mut places) = (Vec::new(), Vec::new());
            for (file, error) in fine {
                if let Some(file) = file {
                    syncs.push(Fsync::new(file));
                    places.push(error);
                }
            }
            for (synced, error) in run(&mut syncs).into_iter().zip(places) {
                keep(error, &synced);
            }
        }
        let (mut closes, mut places) = (Vec::new(), Vec::new());
        for (file, error) in files.into_iter().zip(errors) {
            if let Some(file) = file {
                closes.push(Close::new(file));
                places.push(error);
            }
        }
        // Made once each: a descriptor is closed also where that is interrupted, which `run` makes again, of none.
        for (closed, error) in run(&mut closes).into_iter().zip(places) {
            if !matches!(closed, Err(Errno::BADF)) {
                keep(error, &closed);
            }
        }
    }

    fn open<'a>(&'a self, job: Job<'a>) -> Openat<BorrowedFd<'a>, &'a CStr> {
        Openat::new(self.dir, job.name, self.flags, self.mode)
    }

    /// Writes what a first write has left, if it has.
    fn rest(&self, file: &OwnedFd, data: &[u8], mut done: usize) -> Result<(), Errno> {
        use kumiki_parasc::Operation as _;

        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            // Where it is appended to, the kernel looks at no offset.
            match Pwrite::new(file, rest, done as u64).call() {
                // A file takes no more, and nobody says why.
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => (),
                // A FIFO or a terminal has no offsets.
                Err(Errno::SPIPE) => match Write::new(file, rest).call() {
                    Ok(count) => done += count,
                    Err(Errno::INTR) => (),
                    Err(errno) => return Err(errno),
                },
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Keeps an error, if there was none before.
fn keep<T>(error: &mut c_int, output: &Result<T, Errno>) {
    if let (0, Err(errno)) = (*error, output) {
        *error = errno.raw_os_error();
    }
}

/// See the header.
///
/// # Safety
/// `list` has `size` bytes; `data` has `n` elements, whose bytes are there; `errors` has room for `n`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_write(
    dir_fd: c_int,
    list: *const c_char,
    size: usize,
    n: usize,
    data: *const Data,
    mode: u32,
    flags: u32,
    errors: *mut c_int,
) -> c_int {
    answer_all(|| {
        let known = KUMIKI_FILES_SYNC | KUMIKI_FILES_NEW | KUMIKI_FILES_APPEND;
        if flags & !known != 0 || mode & !0o7777 != 0 {
            return Err(Failure::invalid(format!(
                "flags {flags:#x} and mode {mode:#o}: KUMIKI_FILES_SYNC, KUMIKI_FILES_NEW and KUMIKI_FILES_APPEND are \
                 known, and modes up to 0o7777"
            )));
        }
        if data.is_null() && n > 0 {
            return Err(Failure::invalid("the place of the data is a null pointer"));
        }
        // SAFETY: the caller's promise.
        let names = unsafe { names(list, size, n) }?;
        // SAFETY: the same.
        let errors = unsafe { room("errors", errors, n) }?;
        let mut jobs = Vec::with_capacity(names.len());
        for (at, name) in names.into_iter().enumerate() {
            // SAFETY: below `n`.
            let place = unsafe { data.add(at) };
            // SAFETY: the caller's promise.
            let Data { bytes, size } = unsafe { place.read() };
            if bytes.is_null() && size > 0 {
                return Err(Failure::invalid(format!("the data of name {at} is a null pointer")));
            }
            let data = match size {
                0 => &[][..],
                // SAFETY: not null, and so many, the caller says.
                _ => unsafe { std::slice::from_raw_parts(bytes, size) },
            };
            jobs.push(Job { name, data });
        }
        let mut oflags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        oflags |= match flags & KUMIKI_FILES_APPEND {
            0 => OFlags::TRUNC,
            _ => OFlags::APPEND,
        };
        oflags.set(OFlags::EXCL, flags & KUMIKI_FILES_NEW != 0);
        let how = How {
            dir: directory(dir_fd)?,
            flags: oflags,
            mode: Mode::from_raw_mode(mode),
            syncs: flags & KUMIKI_FILES_SYNC != 0,
        };
        errors.fill(0);
        for (jobs, errors) in jobs.chunks(AT_ONCE).zip(errors.chunks_mut(AT_ONCE)) {
            how.write(jobs, errors);
            // So many at once were too many: one after the other they need one descriptor.
            for (job, error) in jobs.iter().zip(errors) {
                if *error == libc::EMFILE {
                    *error = 0;
                    how.write(std::slice::from_ref(job), std::slice::from_mut(error));
                }
            }
        }
        let failed = errors.iter().filter(|error| **error != 0).count();
        Ok(c_int::try_from(failed).unwrap_or(c_int::MAX))
    })
}
