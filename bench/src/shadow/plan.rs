//! Who is asked for what, and how often.

use anyhow::Result;

#[cfg(feature = "peers")]
use crate::pair::Pair;
use crate::run::{Phase, Plan};
use crate::shadow::copy::Arena;
#[cfg(feature = "peers")]
use crate::shadow::fork::openmp;
use crate::shadow::request::Request;

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
    "copy:nontemporal_2t",
    "copy:kumiki",
    "copy:kumiki/prefetch",
    "copy:kumiki/block256",
    "copy:kumiki/block1024",
    "copy:kumiki/block4096",
    "copy:kumiki/split",
];

const KI: usize = 1 << 10;
const MI: usize = 1 << 20;

/// The plan, with the memory in which all subjects copy.
pub(crate) struct Shadow {
    arena: Arena,
}

impl Shadow {
    /// Makes the memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Shadow { arena: Arena::new()? })
    }
}

impl Plan for Shadow {
    type Case = Request;

    const NAME: &'static str = "shadow";

    fn subjects(&self) -> Vec<&'static str> {
        [FORK, SEQUENTIAL, COPY].concat()
    }

    fn argument(&self) -> String {
        self.arena.path()
    }

    #[cfg(feature = "peers")]
    fn environment(&self, subject: &str, pair: Pair) -> Vec<(&'static str, String)> {
        match subject {
            "openmp_active" => openmp::environment(pair, "active"),
            "openmp_passive" => openmp::environment(pair, "passive"),
            _ => Vec::new(),
        }
    }

    fn phases(&self) -> Vec<Phase<Request>> {
        let fork = |case, rounds| Phase { case, rounds, base: None, turns_of_instance: None };
        let sum = |elements| Phase {
            case: Request::SumF32 { elements },
            rounds: 40,
            base: Some("sequential"),
            turns_of_instance: None,
        };
        let copy = |bytes| Phase {
            case: Request::CopyCold { bytes, offset: 0 },
            rounds: if bytes < 64 * MI { 30 } else { 10 },
            base: Some("copy:libc"),
            turns_of_instance: None,
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

    fn asks(&self, case: Request, subject: &str) -> bool {
        match case {
            Request::CopyCold { .. } => COPY.contains(&subject),
            Request::SumF32 { .. } => !COPY.contains(&subject) && subject != "park",
            Request::IdleBurn => FORK.contains(&subject) && !NEW_THREAD_EACH.contains(&subject),
            _ => FORK.contains(&subject),
        }
    }

    fn next(&mut self, phase: &Phase<Request>, _round: usize) -> Request {
        match phase.case {
            // Elsewhere than the last.
            Request::CopyCold { bytes, .. } => self.arena.reserve(bytes),
            case => case,
        }
    }

    fn shown(subject: &'static str) -> &'static str {
        subject.strip_prefix("copy:").unwrap_or(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_copies_is_shown_without_its_mark() {
        assert_eq!(Shadow::shown("copy:libc"), "libc");
        assert_eq!(Shadow::shown("copy:kumiki/split"), "kumiki/split");
        assert_eq!(Shadow::shown("kumiki"), "kumiki");
    }
}
