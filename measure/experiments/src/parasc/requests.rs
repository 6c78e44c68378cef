//! Figure 7: reads of 4096 bytes from /dev/zero, by number of requests and of
//! processing threads. Four ways: plain calls; the engine as it is by default, whose
//! requesting thread helps, and which may make plain calls where these are faster; the
//! mechanism alone, as the paper has it (`Batches::by_threads_alone`); bare threads, what there is to
//! be had (`bare.rs`).

use std::fs::File;
use std::path::Path;
use std::rc::Rc;

use kumiki_measure::case::{Case, Level, Place};
use kumiki_measure::{Error, Result};
use kumiki_parasc::Config;
use kumiki_parasc::op::Read;
use kumiki_sys::affinity;

use super::bare::{Bare, Part};
use super::batch::{Batches, Calls, Plain, make};
use super::files::{PAGE, page};
use super::running::{Running, cpus};
use super::unchecked::gettid;

const ABOUT: &str = "so many reads of 4096 bytes from /dev/zero, all together: plain calls (0 \
                     processing threads) or requests to 1 to 3 processing threads whose results \
                     are all awaited; each on an open file of its own, or all on one; by the \
                     engine as it is, by processing threads alone, or by bare threads";

const ZERO: &str = "/dev/zero";

/// The paper's numbers of requests with the shortest run that includes them.
pub(super) fn counts() -> impl Iterator<Item = (usize, Level)> {
    let all = [1].into_iter().chain((5..50).step_by(5)).chain((50..=300).step_by(25));
    all.map(|count| match count {
        10 | 50 | 300 => (count, Level::Quick),
        1 | 5 | 20 | 100 | 200 => (count, Level::Default),
        _ => (count, Level::Full),
    })
}

/// The paper's numbers of processing threads.
const THREADS: std::ops::RangeInclusive<usize> = 1..=3;
/// Numbers of calls for the mechanism alone.
const ALONE: std::ops::RangeInclusive<usize> = 1..=4;
/// Value of the parameter `by` where calls are not made by the engine as it is.
const MECHANISM: &str = "mechanism";
const BARE: &str = "bare threads";

pub(super) fn cases() -> Vec<Case> {
    let others = affinity::current().map_or(0, |cpus| cpus.len().saturating_sub(1));
    let mut cases = Vec::new();
    for own in [true, false] {
        for (count, level) in counts() {
            // One open file does not scale: that it doesn't is no quick result.
            let level = if own { level } else { level.max(Level::Default) };
            cases.push(plain(count, own).level(level));
            // Of what there is no cpu for, one case says so.
            let told = (count, own) == (300, true);
            let threads = THREADS.filter(|threads| *threads <= others || told);
            cases.extend(threads.map(|threads| parallel(count, own, threads).level(level)));
            let threads = ALONE.filter(|threads| *threads <= others || told && *threads == 1);
            cases.extend(threads.flat_map(|threads| {
                [mechanism, bare].map(|case| case(count, own, threads).level(level))
            }));
        }
    }
    cases
}

fn plain(count: usize, own: bool) -> Case {
    let setup = move |_: &Place| Ok(Plain(Reads::new(count, own)?));
    params(Case::new("parasc.requests", ABOUT, setup), count, own, 0)
}

fn parallel(count: usize, own: bool, threads: usize) -> Case {
    let allowed = affinity::current().unwrap_or_default();
    let setup = move |place: &Place| {
        let cpus = cpus(place, &allowed, threads)?;
        let config = Config { cpus: Some(cpus), policy: crate::chosen(), ..Config::default() };
        Batches::new(Reads::new(count, own)?, &config)
    };
    params(Case::new("parasc.requests", ABOUT, setup), count, own, threads).two_cpus()
}

fn mechanism(count: usize, own: bool, threads: usize) -> Case {
    let allowed = affinity::current().unwrap_or_default();
    let setup = move |place: &Place| {
        let cpus = cpus(place, &allowed, threads)?;
        Batches::by_threads_alone(Reads::new(count, own)?, &cpus, gettid())
    };
    params(Case::new("parasc.requests", ABOUT, setup), count, own, threads)
        .with("by", MECHANISM)
        .two_cpus()
}

fn bare(count: usize, own: bool, threads: usize) -> Case {
    let allowed = affinity::current().unwrap_or_default();
    let setup = move |place: &Place| {
        let cpus = cpus(place, &allowed, threads)?;
        let one = open()?;
        let file = || if own { open() } else { one.try_clone().map_err(failed) };
        let part = |count: usize| -> Result<Part> {
            let reads = (0..count).map(|_| Ok((file()?, page()))).collect::<Result<Vec<_>>>();
            let mut reads: Vec<(File, Box<[u8; PAGE]>)> = reads?;
            Ok(Box::new(move || reads.iter_mut().try_for_each(|(file, page)| read(file, page))))
        };
        // The calling thread's is the largest, as it need not be asked.
        let part_of = |i: usize| part((count + threads - i) / (threads + 1));
        Bare::new((0..=threads).map(part_of).collect::<Result<_>>()?, &cpus)
    };
    params(Case::new("parasc.requests", ABOUT, setup), count, own, threads)
        .with("by", BARE)
        .two_cpus()
}

fn params(case: Case, count: usize, own: bool, threads: usize) -> Case {
    let files = if own { "own" } else { "one" };
    let case = case.with("requests", count as u64).with("files", files);
    // Buffers of both ways.
    case.with("processing_threads", threads as u64).asks(2 * (count * PAGE) as u64)
}

struct Reads {
    plain: Vec<(Rc<File>, Box<[u8; PAGE]>)>,
    requests: Vec<Read<Rc<File>, Box<[u8; PAGE]>>>,
}

impl Reads {
    fn new(count: usize, own: bool) -> Result<Self> {
        let one = Rc::new(open()?);
        let file = |_| if own { open().map(Rc::new) } else { Ok(Rc::clone(&one)) };
        let files = (0..count).map(file).collect::<Result<Vec<_>>>()?;
        Ok(Reads {
            plain: files.iter().map(|file| (Rc::clone(file), page())).collect(),
            requests: files.iter().map(|file| Read::new(Rc::clone(file), page())).collect(),
        })
    }
}

impl Calls for Reads {
    fn plain(&mut self) -> Result<()> {
        self.plain.iter_mut().try_for_each(|(file, page)| read(file, page))
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        let mut bytes = 0;
        make(running, &mut self.requests, |count: usize| bytes += count)?;
        whole(bytes / self.requests.len())
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::File { path: Path::new(ZERO).to_owned(), source }
}

pub(super) fn open() -> Result<File> {
    File::open(ZERO).map_err(failed)
}

#[inline]
fn read(file: &File, page: &mut [u8; PAGE]) -> Result<()> {
    whole(rustix::io::read(file, &mut page[..]).map_err(|e| Error::os(ZERO, e))?)
}

/// An endless file gives what it is asked for.
#[inline]
fn whole(bytes: usize) -> Result<()> {
    let short = || Error::Invalid(format!("{ZERO}: read gave {bytes} bytes instead of {PAGE}"));
    if bytes == PAGE { Ok(()) } else { Err(short()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_numbers_of_requests() {
        let counts: Vec<usize> = counts().map(|(count, _)| count).collect();
        let paper = [
            1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 75, 100, 125, 150, 175, 200, 225, 250, 275,
            300,
        ];
        assert_eq!(counts, paper);
    }

    #[test]
    fn what_lacks_cpus_is_told_once_with_what_it_takes() {
        let place = Place { cpu: 0, partner: Some(1), scratch: std::env::temp_dir() };
        let two = "0-1".parse().unwrap();
        assert_eq!(cpus(&place, &two, 1).unwrap().to_string(), "1");
        let error = cpus(&place, &two, 3).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }));
        assert!(error.to_string().contains("at least 4 cpus"), "{error}");
        let lacking: Vec<Case> = cases()
            .into_iter()
            .filter(|case| case.params["processing_threads"] == 3_u64.into())
            .filter(|case| !case.params.contains_key("by"))
            .collect();
        if affinity::current().unwrap().len() < 4 {
            assert_eq!(lacking.len(), 1);
        } else {
            assert_eq!(lacking.len(), 2 * counts().count());
        }
    }
}
