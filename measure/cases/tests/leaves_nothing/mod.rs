//! Every case of a catalogue runs, and leaves the process as it found it. The
//! catalogues of other crates are tested by this too.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_measure::case::{Case, Place};
use kumiki_measure::meter::Meter;
use kumiki_measure::{Error, Result};
use kumiki_sys::affinity;
use kumiki_sys::clock::Clock;
use rustix::process::WaitOptions;

/// What a workload that is gone must have put back.
#[derive(Debug, PartialEq)]
struct Traces {
    /// Lines of `/proc/self/maps`.
    mappings: usize,
    /// Open descriptors and what they are open on.
    descriptors: Vec<String>,
    /// Whether there is a child, running or waiting to be waited for.
    children: bool,
    /// Names left in the scratch folder.
    files: Vec<String>,
    /// Threads, signal mask and dispositions, affinity.
    status: Vec<String>,
}

impl Traces {
    fn now(scratch: &Path) -> Self {
        let names = |folder: &Path, say: fn(&Path) -> Option<String>| {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let mut names: Vec<_> = entries.filter_map(|path| say(&path)).collect();
            names.sort();
            names
        };
        // With the descriptor that reads the folder, the same each time.
        let open_on = |path: &Path| {
            let on = fs::read_link(path).ok()?;
            Some(format!("{} -> {}", path.display(), on.display()))
        };
        let kept = ["Threads:", "SigBlk:", "SigIgn:", "SigCgt:", "Cpus_allowed:"];
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let status = status.lines().filter(|line| kept.iter().any(|name| line.starts_with(name)));
        Traces {
            mappings: fs::read_to_string("/proc/self/maps").unwrap().lines().count(),
            descriptors: names(Path::new("/proc/self/fd"), open_on),
            children: rustix::process::wait(WaitOptions::NOHANG).is_ok(),
            // Program files are made once for all visits.
            files: names(scratch, |path| {
                (!path.ends_with("programs")).then(|| path.display().to_string())
            }),
            status: status.map(str::to_owned).collect(),
        }
    }
}

/// Times that a case may take until it maps no more; two at least.
const TURNS: usize = 8;

fn title(case: &Case) -> String {
    let params: Vec<_> =
        case.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {}", case.name, params.join(" "))
}

/// How long a thread that has been joined may still be counted. Who joins is woken
/// on the thread's way out, before it is taken off the count (`exit_mm`, then
/// `exit_notify`, kernel/exit.c). One that leaks stays longer.
const ON_ITS_WAY_OUT: Duration = Duration::from_secs(10);

/// Sets a case up and takes samples of these many operations.
fn run(case: &Case, place: &Place, meter: &Meter, batches: &[u64]) -> Result<()> {
    let mut workload = (case.setup)(place)?;
    for &batch in batches {
        let batch = batch.min(workload.max_batch().unwrap_or(batch));
        let sample = workload.sample(batch, meter)?;
        let (wall, cpu) = (sample.wall_ns, sample.cpu.total_ns());
        assert!(wall.is_finite() && wall > 0.0, "{}: {batch} took {wall} ns", title(case));
        assert!(cpu.is_finite() && cpu >= 0.0, "{}: {batch} took {cpu} cpu ns", title(case));
    }
    Ok(())
}

/// For a process without any other test, because traces are those of a
/// process. Files are made in `folder`.
pub(crate) fn every_case_runs_and_leaves_nothing(cases: &[Case], folder: &Path) {
    let allowed = affinity::current().unwrap();
    let mut cpus = allowed.iter();
    let (cpu, partner) = (cpus.next().unwrap(), cpus.next());
    let scratch = tempfile::tempdir_in(folder).unwrap();
    let place = Place { cpu, partner, scratch: scratch.path().to_owned() };
    let meter = Meter::new(Clock::calibrate(Duration::from_millis(10)));

    let mut failures = Vec::new();
    for case in cases {
        let title = title(case);
        let place = match case.cpus {
            None => place.clone(),
            Some([cpu, partner]) => Place { cpu, partner: Some(partner), ..place.clone() },
        };
        let _bound = affinity::bind(place.cpu).unwrap();
        let mut before = Traces::now(scratch.path());
        for turn in 0..TURNS {
            let batches = if turn == 0 { &[1, 2, 5][..] } else { &[3] };
            match run(case, &place, &meter, batches) {
                Ok(()) => {}
                Err(skip @ Error::Unsupported { .. }) => println!("skipped {title}: {skip}"),
                Err(error) => failures.push(format!("{title}: {error}")),
            }
            let mut after = Traces::now(scratch.path());
            let give_up = Instant::now() + ON_ITS_WAY_OUT;
            while before.status != after.status && Instant::now() < give_up {
                thread::yield_now();
                after = Traces::now(scratch.path());
            }
            let settled = before.mappings == after.mappings;
            if turn + 1 < TURNS {
                // A time may map for good: the allocator's memory, the stacks of
                // threads kept for the next ones, as many as happened to run at
                // once. What leaks maps more every time.
                before.mappings = after.mappings;
            }
            assert_eq!(before, after, "{title}, turn {turn}");
            if turn > 0 && settled {
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
