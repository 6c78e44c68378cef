//! Parallel system calls inside the kernel beside other ways to make many, in a machine that
//! has the module loaded: all of them in one process, in turns.

use std::fs::File;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_measure::stopwatch::Stopwatch;
use kumiki_parasc::{Backend, Config, CpuSet, Engine, Request, Requester};

use crate::run::median_of;

/// Calls of a batch.
const CALLS: usize = 300;
/// Batches of a turn, after some that count for nothing: a thread may have to be woken.
const BATCHES: usize = 16;
const BEFORE: usize = 4;
/// Batches before the first turn, in which a way learns.
const WARM: usize = 400;

/// Makers of the calls.
struct LabWay {
    name: &'static str,
    /// `None`: a plain loop.
    requester: Option<Requester>,
    _engine: Option<Engine>,
}

impl LabWay {
    fn new(name: &'static str, config: Config) -> Result<Self> {
        let engine = Engine::new(&config).with_context(|| format!("an engine for {name}"))?;
        Ok(LabWay { name, requester: Some(engine.requester()?), _engine: Some(engine) })
    }

    fn make(&mut self, requests: &[Request], results: &mut [i64]) -> Result<()> {
        match &mut self.requester {
            // SAFETY: the cases' requests point to what lives in them.
            Some(requester) => unsafe { requester.run_raw(requests, results)? },
            None => {
                for (request, result) in requests.iter().zip(results) {
                    // SAFETY: as above.
                    *result = unsafe { made(request) };
                }
            }
        }
        Ok(())
    }
}

/// # Safety
/// As for [`kumiki_sys::syscall::raw`].
#[inline(always)]
unsafe fn made(request: &Request) -> i64 {
    // SAFETY: the caller vouches for the call.
    unsafe { kumiki_sys::syscall::raw(request.sysnum.into(), request.args) }
}

fn ways() -> Result<Vec<LabWay>> {
    let with = |backend, help| Config { backend, help, ..Config::default() };
    let alone = Config { cpus: Some(CpuSet::new()), threads: 0, ..with(Backend::Kernel, true) };
    Ok(vec![
        LabWay { name: "loop", requester: None, _engine: None },
        LabWay::new("kumiki/kernel", with(Backend::Kernel, false))?,
        LabWay::new("kumiki/kernel_helped", with(Backend::Kernel, true))?,
        LabWay::new("kumiki/kernel_alone", alone)?,
        LabWay::new("kumiki/user", with(Backend::User, false))?,
        LabWay::new("kumiki/user_helped", with(Backend::User, true))?,
    ])
}

/// Calls that are made again and again, and what they point to.
struct LabCase {
    name: &'static str,
    requests: Vec<Request>,
    /// Result of each.
    result: i64,
    _files: Vec<File>,
    _memory: Vec<[u8; 256]>,
}

fn cases() -> Result<Vec<LabCase>> {
    let parent = i64::from(std::os::unix::process::parent_id());
    let mut memory = vec![[0; 256]; CALLS];
    let file = || {
        let file = tempfile::tempfile()?;
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 256], 0)?;
        anyhow::Ok(file)
    };
    let files = (0..CALLS).map(|_| file()).collect::<Result<Vec<_>>>()?;
    let read = |(file, to): (&File, &mut [u8; 256])| {
        Request::new(libc::SYS_pread64, [file.as_raw_fd() as u64, to.as_mut_ptr() as u64, 64, 0])
    };
    let reads = files.iter().zip(&mut memory).map(read).collect();
    let mut stats = vec![[0; 256]; CALLS];
    let stat = |to: &mut [u8; 256]| {
        let (folder, path) = (libc::AT_FDCWD as u64, c"/etc/passwd".as_ptr() as u64);
        Request::new(libc::SYS_statx, [folder, path, 0, 0x7ff, to.as_mut_ptr() as u64])
    };
    let asked = stats.iter_mut().map(stat).collect();
    let case = |name, requests, result, files, memory| LabCase {
        name,
        requests,
        result,
        _files: files,
        _memory: memory,
    };
    Ok(vec![
        case("getppid", vec![Request::new(libc::SYS_getppid, []); CALLS], parent, vec![], vec![]),
        case("pread", reads, 64, files, memory),
        case("statx", asked, 0, vec![], stats),
    ])
}

/// Everything: `rounds` turns of each way.
pub(crate) fn rows(rounds: usize) -> Result<Vec<Row>> {
    let watch = Stopwatch::new();
    let mut ways = ways()?;
    let mut results = vec![0; CALLS];
    let mut rows = vec![entry(&watch, rounds)];
    for case in cases()? {
        for way in &mut ways {
            for _ in 0..WARM {
                way.make(&case.requests, &mut results)?;
            }
        }
        let mut samples: Vec<(&'static str, Vec<Vec<f64>>)> = Vec::new();
        for _ in 0..rounds {
            fastrand::shuffle(&mut ways);
            for way in &mut ways {
                let turn = turn(way, &case, &mut results, &watch)?;
                match samples.iter_mut().find(|(name, _)| *name == way.name) {
                    Some((_, turns)) => turns.push(turn),
                    None => samples.push((way.name, vec![turn])),
                }
            }
        }
        samples.sort_by_key(|(name, _)| *name);
        let base =
            samples.iter().find(|(name, _)| *name == "loop").map(|(_, turns)| median_of(turns));
        rows.extend(
            samples
                .iter()
                .map(|(name, turns)| Row::of((case.name, name), "ns", turns, base).of_size(CALLS)),
        );
    }
    Ok(rows)
}

/// Nanoseconds of each batch.
fn turn(
    way: &mut LabWay,
    case: &LabCase,
    results: &mut [i64],
    watch: &Stopwatch,
) -> Result<Vec<f64>> {
    let mut samples = Vec::with_capacity(BATCHES);
    for batch in 0..BEFORE + BATCHES {
        let start = watch.clock().start();
        way.make(&case.requests, results)?;
        let ns = watch.ns(start, watch.clock().end());
        let right = results.iter().all(|result| *result == case.result);
        ensure!(right, "{} by {}: wrong results", case.name, way.name);
        results.fill(-1);
        if batch >= BEFORE {
            samples.push(ns);
        }
    }
    Ok(samples)
}

/// The way into the kernel and out again: a call that there is not. What an emulator makes of
/// it differs from what a processor does, and the gain of all other rows depends on it.
fn entry(watch: &Stopwatch, rounds: usize) -> Row {
    let none = Request::new(9999, []);
    let turn = |_| {
        let batch = |_| {
            let start = watch.clock().start();
            for _ in 0..CALLS {
                // SAFETY: no call has this number.
                unsafe { made(&none) };
            }
            watch.ns(start, watch.clock().end())
        };
        (0..BATCHES).map(batch).collect()
    };
    let turns: Vec<Vec<f64>> = (0..rounds).map(turn).collect();
    Row::of(("entry", "loop"), "ns", &turns, None).of_size(CALLS)
}
