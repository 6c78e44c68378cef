//! Each function beside the one of std's that it stands for: with each kind of file, and where
//! the process may do less than usual.
//!
//! A condition holds for a whole process, so each has one of its own: this program once more.

mod calls;
mod functions;
mod things;

use std::borrow::Borrow;
use std::env;
use std::process::{Command, Stdio};

use super::filter::{REFUSE, filter};
use functions::{Function, OF_FILES, OF_PATHS};
use things::{FILES, PATHS};

/// Which of the conditions a process of this program is to hold.
const VARIABLE: &str = "KUMIKI_TOKIO_EDGE";
/// Calls that these functions make and std's need not.
const REFUSED: &[(&str, libc::c_long)] = &[
    ("openat2", libc::SYS_openat2),
    ("statx", libc::SYS_statx),
    ("preadv2", libc::SYS_preadv2),
    ("pwritev2", libc::SYS_pwritev2),
    ("fadvise64", libc::SYS_fadvise64),
    ("fstatfs", libc::SYS_fstatfs),
    ("fstat", libc::SYS_fstat),
    ("fcntl", libc::SYS_fcntl),
    ("readlinkat", libc::SYS_readlinkat),
    // Of the engine, whoever asks it for what.
    ("membarrier", libc::SYS_membarrier),
    ("sched_setaffinity", libc::SYS_sched_setaffinity),
    ("sched_yield", libc::SYS_sched_yield),
];
/// What is otherwise and not tried, and why: function, thing and condition, each "" for all.
const OTHERWISE: &[(&str, &str, &str, &str)] = &[
    ("read", "huge", "statx EPERM", "std is not told how long it is, and reads until memory ends"),
    ("open", "fifo", "", "it waits for nobody, and says so"),
    ("write", "fifo", "", "it waits for nobody, and says so"),
    ("create", "fifo", "", "it waits for nobody, and says so"),
];

fn conditions() -> Vec<String> {
    let mut all: Vec<String> =
        ["usual", "nobody", "descriptors", "memory"].map(str::to_owned).into();
    for (at, (name, _)) in REFUSED.iter().enumerate() {
        // Both for those that are known to be refused, as by old kernels and filters.
        let errors = if at < 2 { &["ENOSYS", "EPERM"][..] } else { &["EPERM"] };
        all.extend(errors.iter().map(|error| format!("{name} {error}")));
    }
    all
}

/// Errors that a filter here gives.
const REFUSALS: [&str; 2] = ["PermissionDenied Some(1)", "Unsupported Some(38)"];

/// Errors of a path, whoever asks.
const OF_PATH: [&str; 4] = [
    "NotFound Some(2)",
    "NotADirectory Some(20)",
    "InvalidFilename Some(36)",
    "FilesystemLoop Some(40)",
];

/// What an outcome is told by: errors by their kind and the kernel's number.
type Outcome = Result<String, String>;

#[test]
fn functions_are_as_std_s_at_their_edges() {
    if let Ok(condition) = env::var(VARIABLE) {
        return under(&condition);
    }
    let name = "edges::functions_are_as_std_s_at_their_edges";
    let begun = conditions().into_iter().map(|condition| {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args([name, "--exact", "--nocapture"]).env(VARIABLE, &condition);
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        (condition, child)
    });
    let mut faults = String::new();
    // All at once: mostly they wait for the disk.
    for (condition, child) in begun.collect::<Vec<_>>() {
        let output = child.wait_with_output().unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout);
            let lines = said.lines().filter(|line| line.starts_with("  "));
            faults += &format!("{condition}: {}\n", output.status);
            lines.for_each(|line| faults += &format!("{line}\n"));
            faults += &String::from_utf8_lossy(&output.stderr).lines().take(3).collect::<String>();
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

/// The whole table, in a process of its own.
fn under(condition: &str) {
    // What waits for ever is ended.
    // SAFETY: asks for a signal, later.
    unsafe { libc::alarm(100) };
    // A machine that hands out more memory than it has is no matter.
    limit(libc::RLIMIT_AS, 4 << 30);
    let made = things::Folder::new();
    let mut word = condition.split(' ');
    match (word.next(), word.next()) {
        (Some("nobody"), _) if !made.become_nobody() => {
            return println!(
                "skipped: only root can become nobody, and only where others may look"
            );
        }
        (Some("descriptors"), _) => limit(libc::RLIMIT_NOFILE, 200),
        (Some("memory"), _) => limit(libc::RLIMIT_AS, mapped() + (256 << 20)),
        (Some(name), Some(error)) => {
            let (_, call) = REFUSED.iter().find(|(of, _)| *of == name).unwrap();
            let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
            filter(&[*call], if error == "EPERM" { REFUSE } else { unknown });
        }
        _ => (),
    }
    let sides = Sides {
        std: condition != calls::OURS,
        ours: condition != calls::STD,
        // Of descriptors there are few.
        is_full: condition == "descriptors",
        is_filtered: REFUSED.iter().any(|(name, _)| condition.starts_with(name)),
    };
    let mut faults = 0;
    for (name, make) in PATHS {
        for function in OF_PATHS.iter().filter(|it| !is_otherwise(it.name, name, condition)) {
            faults += function.differs(name, &sides, || {
                let thing = make(&made);
                (thing.path.clone(), thing)
            });
        }
    }
    for (name, make) in FILES {
        for function in OF_FILES.iter().filter(|it| !is_otherwise(it.name, name, condition)) {
            faults += function.differs(name, &sides, || (make(&made), ()));
        }
    }
    assert_eq!(faults, 0, "differences under {condition:?}");
}

fn is_otherwise(function: &str, thing: &str, condition: &str) -> bool {
    let fits = |word: &str, it: &str| word.is_empty() || word == it;
    OTHERWISE.iter().any(|(of_function, of_thing, of_condition, _)| {
        fits(of_function, function) && fits(of_thing, thing) && fits(of_condition, condition)
    })
}

/// Calls that are made: both, or one alone for who looks what it asks of the kernel.
struct Sides {
    std: bool,
    ours: bool,
    is_full: bool,
    is_filtered: bool,
}

impl<T: ?Sized> Function<T> {
    /// Makes both calls, each of a thing of its own; how many differ, which is said.
    fn differs<B: Borrow<T>, K>(
        &self,
        name: &str,
        sides: &Sides,
        make: impl Fn() -> (B, K),
    ) -> u32 {
        let of = |is_asked: bool, function: fn(&T) -> Outcome| {
            let (thing, _kept) = make();
            let _full = sides.is_full.then(full);
            is_asked.then(|| function(thing.borrow()))
        };
        let (Some(theirs), Some(ours)) = (of(sides.std, self.std), of(sides.ours, self.ours))
        else {
            return 0;
        };
        // Where the filter's answer is the end for std, this may do better: with the file, or with what
        // is wrong with its path.
        let is_refused = theirs.as_ref().is_err_and(|it| REFUSALS.contains(&&**it));
        let is_better = ours.as_ref().map_or_else(|it| OF_PATH.contains(&&**it), |_| true);
        if theirs == ours || sides.is_filtered && is_refused && is_better {
            return 0;
        }
        println!("  {} of {name}: std {theirs:?}, here {ours:?}", self.name);
        1
    }
}

/// No descriptor is to be had while this lives.
fn full() -> Vec<std::fs::File> {
    let mut all = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        all.push(file);
    }
    all
}

fn limit(which: libc::__rlimit_resource_t, most: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one limit.
    assert_eq!(unsafe { libc::getrlimit(which, &raw mut limit) }, 0);
    limit.rlim_cur = most.min(limit.rlim_max);
    // SAFETY: reads one limit.
    assert_eq!(unsafe { libc::setrlimit(which, &raw const limit) }, 0);
}

/// Bytes of address space that are taken.
fn mapped() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').next().unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}
