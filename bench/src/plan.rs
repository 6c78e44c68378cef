//! Who is asked for what, and how often.

use crate::copy::Arena;
use crate::request::Request;

/// Subjects that fork and join.
const FORK: &[&str] = &[
    "kumiki",
    "pthread",
    "std_scope",
    "rayon_join",
    "rayon_scope",
    "crossbeam_scope",
    "tokio",
    "futex",
    "park",
    #[cfg(feature = "peers")]
    "openmp_active",
    #[cfg(feature = "peers")]
    "openmp_passive",
    #[cfg(feature = "peers")]
    "onetbb",
    #[cfg(feature = "peers")]
    "fork_union",
];

/// Subjects that have no helper when there is nothing to do.
const NEW_THREAD_EACH: &[&str] = &["pthread", "std_scope", "crossbeam_scope", "sequential"];

/// Alone.
const SEQUENTIAL: &[&str] = &["sequential"];

/// Subjects that copy, marked because some fork too, in another process.
const COPY: &[&str] = &[
    "copy:libc",
    "copy:nontemporal_1t",
    "copy:kumiki",
    "copy:kumiki/prefetch",
    "copy:kumiki/block256",
    "copy:kumiki/block1024",
    "copy:kumiki/block4096",
    "copy:kumiki/split",
];

/// A subject's name in the result.
pub(crate) fn shown(subject: &'static str) -> &'static str {
    subject.strip_prefix("copy:").unwrap_or(subject)
}

/// The limit of the others.
pub(crate) const RAW: &str = "raw";

/// Every subject of this build, without [`RAW`].
pub(crate) fn subjects() -> impl Iterator<Item = &'static str> {
    [FORK, SEQUENTIAL, COPY].into_iter().flatten().copied()
}

/// One case at one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    /// What is asked for.
    pub(crate) request: Request,
    /// Turns of each subject.
    pub(crate) rounds: usize,
    /// The subject whose figure is the plain way.
    pub(crate) base: Option<&'static str>,
}

impl Phase {
    /// Whether `subject` takes part.
    pub(crate) fn asks(&self, subject: &str) -> bool {
        match self.request {
            Request::CopyCold { .. } => COPY.contains(&subject),
            Request::SumF32 { .. } => !COPY.contains(&subject) && subject != "park",
            Request::IdleBurn => FORK.contains(&subject) && !NEW_THREAD_EACH.contains(&subject),
            _ => FORK.contains(&subject),
        }
    }

    /// The request for the next turn, which for a copy is elsewhere than the last.
    pub(crate) fn next(&self, arena: &mut Arena) -> Request {
        match self.request {
            Request::CopyCold { bytes, .. } => arena.reserve(bytes),
            request => request,
        }
    }
}

const KI: usize = 1 << 10;
const MI: usize = 1 << 20;

/// Everything, in the order in which it is measured.
pub(crate) fn phases() -> Vec<Phase> {
    let fork = |request, rounds| Phase { request, rounds, base: None };
    let sum = |elements| Phase {
        request: Request::SumF32 { elements },
        rounds: 40,
        base: Some("sequential"),
    };
    let copy = |bytes| Phase {
        request: Request::CopyCold { bytes, offset: 0 },
        rounds: if bytes < 64 * MI { 30 } else { 10 },
        base: Some("copy:libc"),
    };
    let mut phases = vec![fork(Request::ForkJoinNull, 200), fork(Request::ForkCall, 60)];
    phases.extend([10_000, 100_000, 1_000_000].map(|ns| fork(Request::ForkJoinGap { ns }, 25)));
    phases.extend([1, 4, 16, 64, 256, 1024].map(|k| sum(k * KI)));
    let sizes = [4 * KI, 16 * KI, 64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI, 256 * MI];
    phases.extend(sizes.map(copy));
    // A turn takes seconds and its figure hardly varies.
    phases.push(fork(Request::IdleBurn, 1));
    phases
}
