//! Several calls as one request.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use kumiki_parasc::op::{CWD, Errno, Fadvise, FileAdvice, Pread};
use kumiki_parasc::tries::{OpenRead, OpenReadError, Step};
use kumiki_parasc::{AllowList, Config, Engine, Error, Sequence, Then};
use rustix::fs::{OFlags, ResolveFlags};

use super::{engine, file, make_cold};

fn name(path: &std::path::Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// By an attempt, and submitted as a whole.
fn both<P: AsRef<std::ffi::CStr> + Send + 'static>(
    engine: &Engine,
    job: impl Fn() -> OpenRead<rustix::fd::BorrowedFd<'static>, P>,
) -> [Result<kumiki_parasc::tries::Opened, OpenReadError>; 2] {
    [engine.attempt(job()).wait().unwrap().output, engine.submit(job()).wait().unwrap().output]
}

#[test]
fn a_file_is_read_whole_in_one_request_warm_and_cold() {
    let engine = engine();
    for size in [0, 1, 4095, 4096, 4097, 1_000_000] {
        let content: Vec<u8> = (0..size).map(|at| (at % 241) as u8).collect();
        let temporary = file(&content);
        let path = name(temporary.path());
        for cold in [false, true] {
            if cold {
                make_cold(temporary.as_file());
            }
            for opened in both(&engine, || OpenRead::new(CWD, path.clone())) {
                let opened = opened.unwrap();
                assert!(opened.data == content && opened.file.is_none());
                assert_eq!(opened.attributes.size(), size as u64);
            }
        }
    }
}

#[test]
fn a_part_is_read_and_the_file_is_kept_open() {
    let engine = engine();
    let content: Vec<u8> = (0..100_000).map(|at| (at % 241) as u8).collect();
    let temporary = file(&content);
    let path = name(temporary.path());
    for (offset, limit) in [(0, 10), (99_990, 100), (50_000, 65_536), (200_000, 10), (7, 0)] {
        let job = || OpenRead::new(CWD, path.clone()).range(offset, limit).keep();
        for opened in both(&engine, job) {
            let opened = opened.unwrap();
            let start = content.len().min(offset as usize);
            let end = content.len().min(start + limit);
            assert!(opened.data == content[start..end], "{offset} {limit}");
            assert_eq!(File::from(opened.file.unwrap()).metadata().unwrap().len(), 100_000);
        }
    }
    let behind = OpenRead::new(CWD, path).range(0, 3).into(b"head".to_vec());
    let opened = engine.attempt(behind).wait().unwrap().output.unwrap();
    assert_eq!(opened.data, [b"head", &content[..3]].concat());
}

#[test]
fn files_of_proc_which_tell_no_length_are_read_to_their_end() {
    let engine = engine();
    // Longer than the first room for it.
    let whole = std::fs::read("/proc/kallsyms").unwrap().len();
    for opened in both(&engine, || OpenRead::new(CWD, c"/proc/kallsyms")) {
        assert_eq!(opened.unwrap().data.len(), whole);
    }
}

#[test]
fn what_is_no_file_is_opened_and_not_read() {
    let engine = engine();
    for path in [c"/dev", c"/dev/zero"] {
        for opened in both(&engine, || OpenRead::new(CWD, path)) {
            assert!(opened.unwrap().data.is_empty());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let path = name(&fifo);
    for opened in both(&engine, || OpenRead::new(CWD, path.clone())) {
        assert!(opened.unwrap().data.is_empty());
    }
}

#[test]
fn what_is_looked_at_first_is_opened_if_it_is_a_file_or_a_folder() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "content").unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let dir = Arc::new(File::open(folder.path()).unwrap());
    let look = |path: &std::ffi::CStr, resolve| {
        let job = || {
            let open = OpenRead::new(Arc::clone(&dir), path.to_owned()).resolve(resolve);
            open.look_first().keep()
        };
        [engine.attempt(job()).wait(), engine.submit(job()).wait()].map(|it| it.unwrap().output)
    };
    for resolve in [ResolveFlags::empty(), ResolveFlags::BENEATH] {
        for opened in look(c"file", resolve) {
            let opened = opened.unwrap();
            assert_eq!(opened.data, b"content");
            let read = std::io::read_to_string(File::from(opened.file.unwrap()));
            assert_eq!(read.unwrap(), "content");
        }
        for opened in look(c".", resolve) {
            let opened = opened.unwrap();
            assert!(opened.data.is_empty());
            let entries = rustix::fs::Dir::new(opened.file.unwrap()).unwrap().count();
            assert!(entries >= 2, "{entries}");
        }
        for opened in look(c"fifo", resolve) {
            let opened = opened.unwrap();
            assert!(opened.attributes.file_type() == rustix::fs::FileType::Fifo);
            // It is no reader, which a writer that does not wait would find.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK;
            let writer = rustix::fs::open(&fifo, flags, rustix::fs::Mode::empty());
            assert_eq!(writer.err(), Some(Errno::NXIO));
            drop(opened);
        }
        for opened in look(c"none", resolve) {
            let error = opened.unwrap_err();
            assert_eq!((error.step, error.errno), (Step::Open, Errno::NOENT));
        }
    }
}

#[test]
fn a_file_that_tells_no_length_is_read_from_its_start_whatever_the_range() {
    let engine = engine();
    let whole = std::fs::read("/proc/version").unwrap();
    for (offset, limit) in [(0, 0), (5, 3), (1 << 40, 100)] {
        for most in [10, 1 << 16] {
            let job =
                || OpenRead::new(CWD, c"/proc/version").range(offset, limit).unknown_length(most);
            for opened in both(&engine, job) {
                assert_eq!(opened.unwrap().data, whole[..whole.len().min(most)]);
            }
        }
    }
}

#[test]
fn the_call_that_fails_is_named_and_nothing_stays_open() {
    let engine = engine();
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    for _ in 0..100 {
        for opened in both(&engine, || OpenRead::new(CWD, c"/no/such/file")) {
            let error = opened.unwrap_err();
            assert_eq!((error.step, error.errno), (Step::Open, Errno::NOENT));
            assert!(error.to_string().starts_with("open: "));
        }
        let beneath = || OpenRead::new(CWD, c"/etc/passwd").resolve(ResolveFlags::BENEATH);
        for opened in both(&engine, beneath) {
            assert_eq!(opened.unwrap_err().errno, Errno::XDEV);
        }
        let directory = || OpenRead::new(CWD, c"/etc/passwd").flags(OFlags::DIRECTORY);
        for opened in both(&engine, directory) {
            assert_eq!(opened.unwrap_err().errno, Errno::NOTDIR);
        }
        // Given up at any point.
        drop(engine.submit(OpenRead::new(CWD, c"/etc/passwd").keep()));
    }
    assert!(engine.shut_down_timeout(Duration::from_secs(20)));
    // Others of this program come and go.
    let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after < before + 50, "{before} {after}");
}

#[test]
fn each_call_of_a_job_is_held_against_the_allow_list() {
    let allowed = [(&["openat"][..], Step::Attributes), (&["openat", "statx"], Step::Read)];
    for (names, step) in allowed {
        let allow = Some(AllowList::none().allow_each(names.iter().copied()).unwrap());
        let engine = Engine::new(&Config { allow, ..Config::default() }).unwrap();
        for opened in both(&engine, || OpenRead::new(CWD, c"/etc/passwd")) {
            let error = opened.unwrap_err();
            assert_eq!((error.step, error.errno), (step, Errno::PERM));
        }
    }
}

#[test]
fn many_jobs_are_under_way_at_once() {
    let engine = engine();
    let content = vec![7; 50_000];
    let files: Vec<_> = (0..40).map(|_| file(&content)).collect();
    let dir = Arc::new(File::open("/").unwrap());
    files.iter().for_each(|file| make_cold(file.as_file()));
    let jobs = files.iter().map(|file| OpenRead::new(Arc::clone(&dir), name(file.path())));
    for attempt in engine.attempt_all(jobs) {
        assert!(attempt.wait().unwrap().output.unwrap().data == content);
    }
}

#[test]
fn a_sequence_gives_each_operations_own_result() {
    let engine = engine();
    let temporary = file(b"0123456789");
    let shared = Arc::new(temporary.as_file().try_clone().unwrap());
    let read = |at, room| Pread::new(Arc::clone(&shared), at, Vec::with_capacity(room));
    for cold in [true, false] {
        if cold {
            make_cold(temporary.as_file());
        }
        // The offset of the second one is none.
        let reads = || Sequence::new(vec![read(2, 3), read(u64::MAX, 3), read(8, 100)]);
        for made in [engine.attempt(reads()).wait(), engine.submit(reads()).wait()] {
            let made = made.unwrap();
            assert_eq!(made.output, [Ok(3), Err(Errno::INVAL), Ok(2)]);
            let bytes: Vec<_> =
                made.operation.into_operations().into_iter().map(Pread::into_buffer).collect();
            assert_eq!(bytes, [&b"234"[..], b"", b"89"]);
        }
    }
}

#[test]
fn two_jobs_as_one_give_what_each_gives() {
    let temporary = file(b"0123456789");
    let shared = Arc::new(temporary.as_file().try_clone().unwrap());
    let job = || {
        let advise = |at| Fadvise::new(Arc::clone(&shared), at, 4, FileAdvice::WillNeed);
        let read = |at| Pread::new(Arc::clone(&shared), at, Vec::with_capacity(4));
        let advice = Sequence::new(vec![advise(0), advise(4)]);
        Then::new(advice, Sequence::new(vec![read(0), read(u64::MAX), read(8)]))
    };
    let all = engine();
    for cold in [true, false] {
        if cold {
            make_cold(temporary.as_file());
        }
        for made in [all.attempt(job()).wait(), all.submit(job()).wait()] {
            let made = made.unwrap();
            assert_eq!(made.output.0, [Ok(()); 2]);
            assert_eq!(made.output.1, [Ok(4), Err(Errno::INVAL), Ok(2)]);
            let reads = made.operation.into_jobs().1.into_operations();
            let bytes: Vec<_> = reads.into_iter().map(Pread::into_buffer).collect();
            assert_eq!(bytes, [&b"0123"[..], b"", b"89"]);
        }
    }
    // It ends where a call is not allowed, and has what was made.
    let engine = |name| {
        let allow = Some(AllowList::none().allow_each([name]).unwrap());
        Engine::new(&Config { allow, ..Config::default() }).unwrap()
    };
    let made = engine("fadvise64").submit(job()).wait().unwrap();
    assert_eq!(made.output, (vec![Ok(()); 2], vec![Err(Errno::PERM)]));
    let refused = engine("pread64").submit(job()).wait().unwrap_err();
    assert!(matches!(refused.error, Error::NotAllowed { .. }));
}
