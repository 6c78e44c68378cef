//! Calls of several kinds as batches of requests, beside the same calls made
//! one after the other.

use std::ffi::CString;
use std::hint::black_box;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use kumiki_measure::case::{Case, Level, Place};
use kumiki_measure::{Error, Result};
use kumiki_parasc::Config;
use kumiki_parasc::op::{Close, Fsync, Getppid, Nanosleep, Openat, Pread, Statx};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::thread::NanosleepRelativeResult;
use rustix::time::Timespec;

use super::batch::{Batches, Calls, Plain, make};
use super::files::{Names, PAGE, open, page};
use super::running::{Running, cpus};
use super::unchecked::Mappings;
use super::unlinks::Unlinks;

const ABOUT: &str = "so many calls of one kind, all together: plain calls in a row, or requests \
                     whose results are all awaited (parallel); open_close and mmap make all of \
                     one call, then all of the other; unlink_one removes files of one directory, \
                     unlink_many those of a directory each";

/// Calls of a batch.
const SIZES: [usize; 6] = [1, 5, 10, 50, 100, 300];
/// Numbers of calls that are not for full runs only.
const CHEAP: &[usize] = &[1, 10, 50, 300];
/// Numbers of calls that sleep, where 300 plain ones take a good part of a second, or that need as
/// much time to be prepared.
const LONG: &[usize] = &[10, 50];

/// Time of sleep asked for; timer slack (usually 50 µs) comes on top.
const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000 };

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(both("getppid", CHEAP, |_, count| Ok(Parents::new(count))));
    cases.extend(both("pread", CHEAP, Preads::new));
    cases.extend(both("statx", CHEAP, Stats::new));
    cases.extend(both("open_close", CHEAP, Opens::new));
    cases.extend(both("fsync", LONG, Syncs::new));
    cases.extend(both("unlink_one", LONG, Unlinks::one));
    cases.extend(both("unlink_many", LONG, Unlinks::many));
    cases.extend(both("mmap", CHEAP, |_, count| Ok(Mappings::new(count))));
    cases.extend(both("nanosleep", LONG, |_, count| Ok(Sleeps::new(count))));
    cases
}

/// Each number of calls, both ways.
fn both<C: Calls + 'static>(
    call: &'static str,
    default: &'static [usize],
    make: fn(&Place, usize) -> Result<C>,
) -> impl Iterator<Item = Case> {
    let params = move |case: Case, way: &'static str, count: usize, level| {
        case.with("call", call).with("way", way).with("requests", count as u64).level(level)
    };
    SIZES.into_iter().flat_map(move |count| {
        let level = if default.contains(&count) { Level::Default } else { Level::Full };
        let plain = move |place: &Place| Ok(Plain(make(place, count)?));
        let parallel = move |place: &Place| {
            let cpus = cpus(place, &Default::default(), 1)?;
            let config = Config { cpus: Some(cpus), policy: crate::chosen(), ..Config::default() };
            Batches::new(make(place, count)?, &config)
        };
        let parallel = Case::new("parasc.calls", ABOUT, parallel).two_cpus();
        [
            params(Case::new("parasc.calls", ABOUT, plain), "plain", count, level),
            params(parallel, "parallel", count, level),
        ]
    })
}

pub(super) struct Parents(Vec<Getppid>);

impl Parents {
    pub(super) fn new(count: usize) -> Self {
        Parents((0..count).map(|_| Getppid::new()).collect())
    }
}

impl Calls for Parents {
    fn plain(&mut self) -> Result<()> {
        for _ in &self.0 {
            black_box(rustix::process::getppid());
        }
        Ok(())
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        make(running, &mut self.0, |parent: i32| {
            black_box(parent);
        })
    }
}

/// Reads of a page each, of one file, each through an open file of its own.
pub(super) struct Preads {
    plain: Vec<(Rc<OwnedFd>, Box<[u8; PAGE]>)>,
    requests: Vec<Pread<Rc<OwnedFd>, Box<[u8; PAGE]>>>,
    _files: Names,
}

impl Preads {
    pub(super) fn new(place: &Place, count: usize) -> Result<Self> {
        let files = Names::new(place, 1)?;
        let open = || open(files.folder.as_fd(), &files.names[0], OFlags::RDWR).map(Rc::new);
        let all = (0..count).map(|_| open()).collect::<Result<Vec<_>>>()?;
        all.iter().enumerate().try_for_each(|(i, file)| write(file, offset(i)))?;
        let plain = all.iter().map(|file| (Rc::clone(file), page())).collect();
        let requests = all.iter().enumerate();
        let requests = requests.map(|(i, file)| Pread::new(Rc::clone(file), offset(i), page()));
        Ok(Preads { plain, requests: requests.collect(), _files: files })
    }
}

fn offset(page: usize) -> u64 {
    (page * PAGE) as u64
}

fn write(file: &OwnedFd, offset: u64) -> Result<()> {
    let written = rustix::io::pwrite(file, &[0x5a; PAGE], offset);
    whole(written.map_err(|errno| Error::os("write a page", errno))?)
}

impl Calls for Preads {
    fn plain(&mut self) -> Result<()> {
        self.plain.iter_mut().enumerate().try_for_each(|(i, (file, page))| {
            let read = rustix::io::pread(&*file, &mut page[..], offset(i));
            whole(read.map_err(|errno| Error::os("pread", errno))?)
        })
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        let mut bytes = 0;
        make(running, &mut self.requests, |count: usize| bytes += count)?;
        whole(bytes / self.requests.len())
    }
}

/// The pages are there: none is read or written in part.
#[inline]
fn whole(bytes: usize) -> Result<()> {
    let short = || Error::Invalid(format!("{bytes} bytes of a page instead of {PAGE}"));
    if bytes == PAGE { Ok(()) } else { Err(short()) }
}

/// Attributes of files of one folder.
pub(super) struct Stats {
    requests: Vec<Statx<Rc<OwnedFd>, CString>>,
    count: usize,
    files: Names,
}

/// Files that many calls share, each those next to it: making one takes longer
/// than measuring it.
const FILES: usize = 32;

const MASK: StatxFlags = StatxFlags::BASIC_STATS;

impl Stats {
    pub(super) fn new(place: &Place, count: usize) -> Result<Self> {
        let files = Names::new(place, count.min(FILES))?;
        let request = |name: &CString| {
            Statx::new(Rc::clone(&files.folder), name.clone(), AtFlags::empty(), MASK)
        };
        Ok(Stats { requests: files.spread(count).map(request).collect(), count, files })
    }
}

impl Calls for Stats {
    fn plain(&mut self) -> Result<()> {
        let folder = self.files.folder.as_fd();
        self.files.spread(self.count).try_for_each(|name| {
            let found = rustix::fs::statx(folder, name, AtFlags::empty(), MASK);
            black_box(found.map_err(|errno| Error::os("statx", errno))?);
            Ok(())
        })
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        make(running, &mut self.requests, |()| ())
    }
}

/// Files of one folder, all opened, then all closed.
struct Opens {
    requests: Vec<Openat<Rc<OwnedFd>, CString>>,
    opened: Vec<OwnedFd>,
    closes: Vec<Close>,
    count: usize,
    files: Names,
}

impl Opens {
    fn new(place: &Place, count: usize) -> Result<Self> {
        let files = Names::new(place, count.min(FILES))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let request = |name: &CString| {
            Openat::new(Rc::clone(&files.folder), name.clone(), flags, Mode::empty())
        };
        let requests = files.spread(count).map(request).collect();
        let (opened, closes) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Ok(Opens { requests, opened, closes, count, files })
    }
}

impl Calls for Opens {
    fn plain(&mut self) -> Result<()> {
        let Opens { opened, files, count, .. } = self;
        for name in files.spread(*count) {
            opened.push(open(files.folder.as_fd(), name, OFlags::RDONLY)?);
        }
        opened.clear();
        Ok(())
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        let Opens { requests, closes, .. } = self;
        closes.clear();
        make(running, requests, |file: OwnedFd| closes.push(Close::new(file)))?;
        make(running, closes, |()| ())
    }
}

/// Files of which a page has been written, brought to the disk.
struct Syncs {
    files: Vec<Rc<OwnedFd>>,
    requests: Vec<Fsync<Rc<OwnedFd>>>,
    _names: Names,
}

impl Syncs {
    fn new(place: &Place, count: usize) -> Result<Self> {
        let names = Names::new(place, count)?;
        let files = names.open(OFlags::WRONLY)?;
        let requests = files.iter().map(|file| Fsync::new(Rc::clone(file))).collect();
        Ok(Syncs { files, requests, _names: names })
    }
}

impl Calls for Syncs {
    const PREPARED: bool = true;

    fn prepare(&mut self) -> Result<()> {
        self.files.iter().try_for_each(|file| write(file, 0))
    }

    fn plain(&mut self) -> Result<()> {
        let sync = |file: &Rc<OwnedFd>| rustix::fs::fsync(file);
        let mut files = self.files.iter();
        files.try_for_each(sync).map_err(|errno| Error::os("fsync", errno))
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        make(running, &mut self.requests, |()| ())
    }
}

struct Sleeps(Vec<Nanosleep>);

impl Sleeps {
    fn new(count: usize) -> Self {
        Sleeps((0..count).map(|_| Nanosleep::new(SLEEP)).collect())
    }
}

impl Calls for Sleeps {
    fn plain(&mut self) -> Result<()> {
        self.0.iter().try_for_each(|_| match rustix::thread::nanosleep(&SLEEP) {
            NanosleepRelativeResult::Ok => Ok(()),
            NanosleepRelativeResult::Interrupted(_) => {
                Err(Error::Invalid("a signal interrupted nanosleep".to_owned()))
            }
            NanosleepRelativeResult::Err(errno) => Err(Error::os("nanosleep", errno)),
        })
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        make(running, &mut self.0, |()| ())
    }
}
