//! Files that are to be synced begin to be written all at once.
//!
//! fsync(2) begins to write a file's data, waits for them, has the file system commit
//! its journal and the disk empty its cache. In a batch, sync_file_range(2) goes
//! before: it begins to write the data of every file and waits for nothing. Then the
//! data of all come together, and so do their changes in the journal: those that are
//! there in time share one commit, and calls that wait for the disk's cache at the
//! same time share that. It changes nothing else: the kernel may begin to write at
//! any time of its own accord.
//!
//! These are calls that nobody has asked for. A seccomp filter that does not expect
//! them might end the process, and an allow-list says which calls there may be: they
//! are not made where one forbids them, or a filter may look at them.
//!
//! That is asked as the batch begins. In one of more than [`FILES`] a thread that
//! another requesting thread starts in that very moment, the engine's first one under a
//! filter, may come upon such a call all the same.

use std::mem;
use std::sync::atomic::Ordering::Acquire;

use super::Requester;
use super::meanwhile::Meanwhile;
use crate::execute::plain;
use kumiki_calls::Request;

/// Files for each thread that begins to write them: it has to tell the disk of each,
/// which takes some microseconds, and waking a thread for it as long.
const FILES: usize = 64;

/// Files of a batch whose writing was begun.
#[derive(Debug, Default)]
pub(super) struct Writebacks {
    requests: Vec<Request>,
    /// One for each, or none if nothing was begun.
    results: Vec<i64>,
}

impl Requester {
    /// Begins to write the files of `requests` if all of them are to be synced, as
    /// `sysnum` says, and it may be done.
    pub(super) fn begin_writeback(&mut self, sysnum: Option<u16>, requests: &[Request]) {
        self.begun.results.clear();
        let is_sync = sysnum.is_some_and(|sysnum| {
            [libc::SYS_fsync, libc::SYS_fdatasync].contains(&i64::from(sysnum))
        });
        if !is_sync
            || !self.rules.is_free(&write(&requests[0]))
            || self.core.filtered.load(Acquire)
            || kumiki_sys::seccomp::is_filtered() != Some(false)
        {
            return;
        }
        let mut begun = mem::take(&mut self.begun);
        begun.requests.clear();
        begun.requests.extend(requests.iter().map(write));
        begun.results.resize(requests.len(), 0);
        let threads = requests.len().div_ceil(FILES);
        if threads == 1 {
            // SAFETY: these calls have descriptors and numbers, and no pointers.
            unsafe { plain(&begun.requests, &mut begun.results) };
        } else {
            let meanwhile = &mut Meanwhile::default();
            // SAFETY: as above.
            let made = unsafe {
                self.share_with_pool(&begun.requests, &mut begun.results, threads, meanwhile)
            };
            debug_assert!(made.is_ok(), "nothing is done meanwhile");
        }
        self.begun = begun;
    }

    /// Tells in `results` of data that could not be written before, in case the call
    /// itself has found nothing left to write.
    pub(super) fn end_writeback(&mut self, results: &mut [i64]) {
        for (result, begun) in results.iter_mut().zip(&self.begun.results) {
            if *result == 0 && is_loss(*begun) {
                *result = *begun;
            }
        }
        self.begun.results.clear();
    }
}

fn write(sync: &Request) -> Request {
    // From the start to the end of the file.
    let args = [sync.args[0], 0, 0, u64::from(libc::SYNC_FILE_RANGE_WRITE)];
    Request::new(kumiki_sys::syscall::SYNC_FILE_RANGE, args)
}

/// True if this is an error with which data are lost, as fsync(2) has them. Others say that such a
/// file cannot be begun to be written.
fn is_loss(result: i64) -> bool {
    [libc::EIO, libc::ENOSPC, libc::EDQUOT].iter().any(|errno| result == -i64::from(*errno))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::{AllowList, Config, Engine};

    const FSYNC: Option<u16> = Some(libc::SYS_fsync as u16);

    fn requester(config: &Config) -> Requester {
        Engine::new(config).unwrap().requester().unwrap()
    }

    fn dirty() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 5000]).unwrap();
        file
    }

    fn fsync(file: &impl AsRawFd) -> Request {
        Request::new(libc::SYS_fsync, [file.as_raw_fd() as u64])
    }

    fn error(errno: i32) -> i64 {
        -i64::from(errno)
    }

    #[test]
    fn files_begin_to_be_written_by_one_thread_or_several() {
        let mut requester = requester(&Config::default());
        for count in [1, FILES, FILES + 1, 200] {
            let files: Vec<File> = (0..count).map(|_| dirty()).collect();
            let requests: Vec<Request> = files.iter().map(fsync).collect();
            requester.begin_writeback(FSYNC, &requests);
            assert_eq!(requester.begun.results, vec![0; count]);
            let mut results = vec![0; count];
            // SAFETY: as in `begin_writeback`.
            unsafe { requester.run_raw(&requests, &mut results) }.unwrap();
            assert_eq!(results, vec![0; count]);
        }
    }

    #[test]
    fn what_cannot_be_written_is_left_to_the_call() {
        let mut requester = requester(&Config::default());
        let (pipe, _end) = kumiki_sys::descriptors::pipe().unwrap();
        let none = Request::new(libc::SYS_fsync, [u64::MAX]);
        let requests = [fsync(&pipe), none, fsync(&dirty())];
        requester.begin_writeback(FSYNC, &requests);
        assert_eq!(requester.begun.results[..2], [error(libc::ESPIPE), error(libc::EBADF)]);
        let mut results = [error(libc::EINVAL), error(libc::EBADF), 0];
        let expected = results;
        requester.end_writeback(&mut results);
        assert_eq!(results, expected);
    }

    #[test]
    fn nothing_begins_for_other_calls_or_where_it_is_not_allowed() {
        let file = dirty();
        let calls = |names: [&str; 2]| {
            let allow = Some(AllowList::none().allow_each(names).unwrap());
            Config { allow, ..Config::default() }
        };
        let with = calls(["fsync", "sync_file_range"]);
        let without = calls(["fsync", "fdatasync"]);
        let fstat = Some(libc::SYS_fstat as u16);
        for (config, sysnum, begins) in [
            (&with, FSYNC, true),
            (&without, FSYNC, false),
            (&with, fstat, false),
            // Of several kinds.
            (&with, None, false),
        ] {
            let mut requester = requester(config);
            requester.begin_writeback(sysnum, &[fsync(&file)]);
            assert_eq!(!requester.begun.results.is_empty(), begins, "{sysnum:?} {config:?}");
        }
    }

    #[test]
    fn data_that_were_lost_before_are_an_error_of_the_call() {
        let mut requester = requester(&Config::default());
        requester.begun.results =
            vec![0, error(libc::EIO), error(libc::ENOSPC), error(libc::ESPIPE), 0];
        let mut results = [0, 0, error(libc::EROFS), 0, error(libc::EBADF)];
        requester.end_writeback(&mut results);
        let expected = [0, error(libc::EIO), error(libc::EROFS), 0, error(libc::EBADF)];
        assert_eq!(results, expected);
        requester.end_writeback(&mut results[..1]);
        assert_eq!(results, expected, "told twice");
    }
}
