//! The paper's experiments 5.1 and 5.2 inside the kernel, where its processing threads ran: by
//! the module alone, whatever is faster. Threads serve there, and never leave; the requesting
//! thread looks for the end, or sleeps there, too. Its gettid answers for the thread that makes
//! it, as the paper's did.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_measure::case::{Case, Each, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_parasc::backend::{Await, Direct};
use kumiki_parasc::{CpuSet, Request};
use kumiki_sys::affinity;

use super::alone::open;
use super::errors::failed;
use super::files::PAGE;
use super::requests::counts;
use super::running::{ThreadsGone, cpus};
use super::steps::{ASLEEP, Slot};
use crate::{partner, timed};

const ABOUT: &str = "so many calls of one kind, all together: plain calls in a row (0 processing \
                     threads), or by processing threads inside the kernel alone, for which the \
                     requesting thread looks or sleeps; or by one entry of its own";
const STEPS: &str = "a step of one gettid made by a processing thread inside the kernel (for \
                     which it answers): init until the thread has made its first call, struct, \
                     gettid asleep and awake, end until it is joined; and the plain call (normal)";

/// The paper's numbers of processing threads, and one more.
const THREADS: std::ops::RangeInclusive<usize> = 1..=4;
const FOREVER: Duration = Duration::MAX;

pub(super) fn cases() -> Vec<Case> {
    let is_there = Direct::open().is_ok();
    let others = affinity::current().map_or(0, |cpus| cpus.len().saturating_sub(1));
    let mut cases = steps();
    // Without the module one case of each says so.
    cases.truncate(if is_there { usize::MAX } else { 1 });
    for call in [Call::ReadZero, Call::Gettid] {
        for (count, level) in counts() {
            let told = (call, count) == (Call::ReadZero, 300);
            if !is_there && !told {
                continue;
            }
            cases.push(plain(call, count).level(level));
            if is_there {
                cases.push(one_entry(call, count).level(level));
            }
            for threads in THREADS.filter(|threads| *threads <= others || told && *threads == 1) {
                for how in [Await::Looking, Await::Asleep] {
                    cases.push(by_threads(call, count, threads, how).level(level));
                }
            }
        }
    }
    cases
}

/// The paper's calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    ReadZero,
    Gettid,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::ReadZero => "read",
            Call::Gettid => "gettid",
        }
    }
}

fn case(call: Call, way: &str, count: usize, threads: usize, case: Case) -> Case {
    let case = case.with("call", call.name()).with("way", way);
    case.with("requests", count as u64).with("processing_threads", threads as u64)
}

fn plain(call: Call, count: usize) -> Case {
    let setup = move |_: &Place| {
        // Without the module nothing of this is measured: plain reads are a case of their own.
        open()?;
        let mut calls = PreparedCalls::new(call, count)?;
        Ok(Each(move || calls.plain()))
    };
    case(call, "plain", count, 0, Case::new("parasc.kernel", ABOUT, setup))
}

fn one_entry(call: Call, count: usize) -> Case {
    let setup = move |_: &Place| {
        let (mut calls, direct) = (PreparedCalls::new(call, count)?, open()?);
        Ok(Each(move || calls.by_one_entry(&direct)))
    };
    case(call, "one_entry", count, 0, Case::new("parasc.kernel", ABOUT, setup))
}

fn by_threads(call: Call, count: usize, threads: usize, how: Await) -> Case {
    let allowed = affinity::current().unwrap_or_default();
    let setup = move |place: &Place| {
        let cpus = cpus(place, &allowed, threads)?;
        let (mut calls, served) = (PreparedCalls::new(call, count)?, Served::new(&cpus, FOREVER)?);
        Ok(Each(move || calls.by_threads(&served.direct, how)))
    };
    let way = if how == Await::Looking { "kernel" } else { "kernel_sleeps" };
    case(call, way, count, threads, Case::new("parasc.kernel", ABOUT, setup)).two_cpus()
}

/// Some of the calls, with the files and memory that they are for.
struct PreparedCalls {
    requests: Vec<Request>,
    results: Vec<i64>,
    /// Range that each result lies in.
    wanted: std::ops::RangeInclusive<i64>,
    _files: Vec<std::fs::File>,
    _pages: Vec<Box<[u8; PAGE]>>,
}

impl PreparedCalls {
    fn new(call: Call, count: usize) -> Result<Self> {
        let (mut files, mut pages, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            requests.push(match call {
                Call::Gettid => Request::new(libc::SYS_gettid, []),
                Call::ReadZero => {
                    let file = super::requests::open()?;
                    let mut page = super::files::page();
                    let fd = std::os::fd::AsRawFd::as_raw_fd(&file) as u64;
                    let to = page.as_mut_ptr().expose_provenance() as u64;
                    files.push(file);
                    pages.push(page);
                    Request::new(libc::SYS_read, [fd, to, PAGE as u64])
                }
            });
        }
        let wanted = match call {
            Call::ReadZero => PAGE as i64..=PAGE as i64,
            Call::Gettid => 1..=i64::from(i32::MAX),
        };
        Ok(PreparedCalls {
            requests,
            results: vec![0; count],
            wanted,
            _files: files,
            _pages: pages,
        })
    }

    #[inline]
    fn check(&mut self) -> Result<()> {
        let is_wrong = |result: &&i64| !self.wanted.contains(*result);
        let wrong = self.results.iter().find(is_wrong).copied();
        self.results.fill(0);
        let failed = |result| Error::Invalid(format!("a call inside the kernel gave {result}"));
        wrong.map_or(Ok(()), |result| Err(failed(result)))
    }

    fn plain(&mut self) -> Result<()> {
        for (request, result) in self.requests.iter().zip(&mut self.results) {
            let Request { sysnum, args, .. } = *request;
            // SAFETY: gettid, or a read into a page of these calls.
            *result = unsafe { kumiki_sys::syscall::raw(usize::from(sysnum), args) };
        }
        self.check()
    }

    fn by_threads(&mut self, direct: &Direct, how: Await) -> Result<()> {
        // SAFETY: as above; both vectors are in place until the process ends or `direct` does.
        unsafe { direct.run(&self.requests, &mut self.results, how) }.map_err(failed)?;
        self.check()
    }

    /// Makes the calls by one entry, gettid too, which the module hands back here: its thread is
    /// the one that enters.
    fn by_one_entry(&mut self, direct: &Direct) -> Result<()> {
        // SAFETY: as above.
        unsafe { direct.by_one_entry(&self.requests, &mut self.results) }.map_err(failed)?;
        self.check()
    }
}

/// Processing threads, a cpu each, which end with this.
struct Served {
    direct: Arc<Direct>,
    threads: Vec<JoinHandle<()>>,
    _gone: ThreadsGone,
}

impl Served {
    fn new(cpus: &CpuSet, spin: Duration) -> Result<Self> {
        let gone = ThreadsGone::then();
        let mut served = Served { direct: Arc::new(open()?), threads: Vec::new(), _gone: gone };
        for cpu in cpus.iter() {
            let direct = Arc::clone(&served.direct);
            let serve = move || {
                // Refused: then wherever it is.
                let _bound = affinity::bind(cpu);
                direct.process(spin);
            };
            let thread = Builder::new().name("processing".to_owned()).spawn(serve);
            let failed = |error| Error::Invalid(format!("no thread that processes: {error}"));
            served.threads.push(thread.map_err(failed)?);
        }
        Ok(served)
    }

    fn end(&mut self) {
        self.direct.end();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

/// A gettid by a thread on the other cpu, which has made one.
fn gettid(place: &Place, spin: Duration) -> Result<(PreparedCalls, Served)> {
    let mut calls = PreparedCalls::new(Call::Gettid, 1)?;
    let served = Served::new(&CpuSet::from_iter([partner(place)?]), spin)?;
    calls.by_threads(&served.direct, Await::Looking)?;
    Ok((calls, served))
}

fn steps() -> Vec<Case> {
    let init = |place: &Place| {
        partner(place)?;
        open()?;
        let place = place.clone();
        Ok(OneByOne(move |meter: &Meter| {
            let mut made = None;
            // Ended after the clock has been read.
            meter.time(|| {
                made = Some(gettid(&place, FOREVER)?);
                Ok(())
            })
        }))
    };
    let asleep = |place: &Place| {
        let (mut calls, served) = gettid(place, Duration::ZERO)?;
        Ok(OneByOne(move |meter: &Meter| {
            let asleep = Instant::now() + ASLEEP;
            while Instant::now() < asleep {
                std::hint::spin_loop();
            }
            meter.time(|| calls.by_threads(&served.direct, Await::Looking))
        }))
    };
    let awake = |place: &Place| {
        let (mut calls, served) = gettid(place, FOREVER)?;
        Ok(Each(move || calls.by_threads(&served.direct, Await::Looking)))
    };
    let end = |place: &Place| {
        partner(place)?;
        open()?;
        let place = place.clone();
        Ok(OneByOne(move |meter: &Meter| {
            let (_, mut served) = gettid(&place, FOREVER)?;
            meter.time(|| {
                served.end();
                Ok(())
            })
        }))
    };
    let build = |_: &Place| {
        Ok(Each(|| {
            black_box(&Slot(Request::new(libc::SYS_gettid, [])));
            Ok(())
        }))
    };
    let normal = |_: &Place| {
        Ok(Each(|| {
            black_box(rustix::thread::gettid());
            Ok(())
        }))
    };
    vec![
        step("init", init).two_cpus(),
        step("struct", build),
        step("gettid_asleep", asleep).two_cpus(),
        step("gettid_awake", awake).two_cpus(),
        step("end", end).two_cpus(),
        step("normal", normal),
    ]
}

fn step<W: Workload + 'static>(name: &str, setup: impl Fn(&Place) -> Result<W> + 'static) -> Case {
    let case = Case::new("parasc.kernel_steps", STEPS, setup).with("step", name);
    case.level(Level::Default)
}

/// Workload that has to be prepared each time, which is not timed.
struct OneByOne<F>(F);

impl<F: FnMut(&Meter) -> Result<Sample>> Workload for OneByOne<F> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::one_by_one(iterations, || (self.0)(meter))
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::nothing(iterations, meter)
    }
}
