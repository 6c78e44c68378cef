//! Who is asked for what, and how often.

use anyhow::Result;

#[cfg(feature = "peers")]
use crate::pair::Pair;
use crate::run::{Phase, Plan};
use crate::shadow::copy::{Arena, SAMPLE};
#[cfg(feature = "peers")]
use crate::shadow::fork::openmp;
use crate::shadow::request::{Request, State};

/// Subjects that fork and join.
const FORK: &[&str] = &[
    "kumiki",
    "kumiki/bound",
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
    "forkunion",
    #[cfg(highway)]
    "highway",
];

/// Subjects that have no helper when there is nothing to do.
const NEW_THREAD_EACH: &[&str] = &["pthread", "std_scope", "crossbeam_scope", "sequential"];

/// Subjects that only sum: one by the library's own division of the work, one
/// alone.
const SUM: &[&str] = &["kumiki/team", "sequential"];

/// Subjects that divide loops, marked as they are none of those that fork.
const NBODY: &[&str] = &[
    "nbody:kumiki",
    "nbody:kumiki/for_each",
    "nbody:kumiki/barrier",
    "nbody:rayon",
    "nbody:rayon/halves",
    "nbody:sequential",
    #[cfg(feature = "peers")]
    "nbody:forkunion/static",
    #[cfg(feature = "peers")]
    "nbody:forkunion/dynamic",
    #[cfg(feature = "peers")]
    "nbody:openmp/static",
    #[cfg(feature = "peers")]
    "nbody:openmp/dynamic",
    #[cfg(feature = "peers")]
    "nbody:openmp/barrier",
];

/// Those of them that are measured beside any number of busy processes: some of the others
/// take seconds there.
const NBODY_BUSY: &[&str] =
    &["nbody:kumiki", "nbody:kumiki/for_each", "nbody:kumiki/barrier", "nbody:sequential"];

/// Subjects that copy, marked because some fork too, in another process.
const COPY: &[&str] = &[
    "copy:libc",
    "copy:nontemporal_1t",
    "copy:nontemporal_2t",
    "copy:kumiki",
    "copy:kumiki/awake",
    "copy:kumiki/memcpy",
    "copy:kumiki/prefetch",
    "copy:kumiki/block256",
    "copy:kumiki/block1024",
    "copy:kumiki/block4096",
    "copy:kumiki/split",
    "copy:kumiki/cold",
];

/// Subjects of which the first is never to be slower than the second.
const NEVER_SLOWER: &[&str] = &["copy:kumiki", "copy:libc", "copy:nontemporal_2t"];

/// Subjects that have not copied before.
const FIRST: &[&str] = &["first:kumiki", "first:libc"];

const KI: usize = 1 << 10;
const MI: usize = 1 << 20;

/// Copies: 64 bytes to begin with where a sample can be many of them.
const COPIES: &[(State, &[usize])] = &[
    (State::Cold, &[4 * KI, 16 * KI, 64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI, 256 * MI]),
    (State::Unaligned, &[4 * KI, 64 * KI, MI, 4 * MI, 16 * MI]),
    (State::Warm, &[64, KI, 4 * KI, 64 * KI, 512 * KI, MI, 2 * MI, 4 * MI, 16 * MI]),
    (State::StaleStart, &[256 * KI, MI, 2 * MI, 4 * MI, 16 * MI]),
    (State::StaleHalf, &[256 * KI, MI, 2 * MI, 4 * MI, 16 * MI]),
    (State::StaleEnds, &[MI, 3 * MI / 2, 2 * MI, 4 * MI, 16 * MI]),
    (State::Fresh, &[64 * KI, MI, 2 * MI, 4 * MI, 8 * MI, 16 * MI]),
    (State::First, &[MI, 16 * MI]),
];

/// So many that a case takes some ten seconds: in one or two the machine may be slow for
/// one of the subjects. Cold, there are ten of these, and lines to be evicted.
fn copy_rounds(state: State, bytes: usize) -> usize {
    match bytes {
        _ if state == State::First => 40,
        bytes if bytes >= 64 * MI => 10,
        bytes if bytes > 4 * MI => 30,
        bytes if bytes >= 256 * KI && state == State::Cold => 60,
        _ => 150,
    }
}

/// The plan, with the memory in which all subjects copy.
#[derive(Debug)]
pub struct Shadow {
    arena: Arena,
}

impl Shadow {
    /// Makes the memory.
    pub fn new() -> Result<Self> {
        Ok(Shadow { arena: Arena::new()? })
    }
}

impl Plan for Shadow {
    type Case = Request;

    const NAME: &'static str = "shadow";

    fn subjects(&self) -> Vec<&'static str> {
        [FORK, SUM, NBODY, COPY, FIRST].concat()
    }

    fn argument(&self) -> String {
        self.arena.path()
    }

    #[cfg(feature = "peers")]
    fn environment(&self, subject: &str, pair: Pair) -> Vec<(&'static str, String)> {
        match subject {
            "openmp_passive" => openmp::environment(pair, "passive"),
            _ if subject.contains("openmp") => openmp::environment(pair, "active"),
            _ => Vec::new(),
        }
    }

    fn phases(&self) -> Vec<Phase<Request>> {
        let fork = |case, rounds| Phase { case, rounds, base: None, turns_of_instance: None };
        // One instance is one line, and lines differ by a third in how far they are: the
        // median of fifty was off by one or two percent.
        let null = Phase { turns_of_instance: Some(4), ..fork(Request::ForkJoinNull, 400) };
        let sum = |elements| Phase {
            case: Request::SumF32 { elements },
            rounds: 40,
            base: Some("sequential"),
            // The shortest take nanoseconds, and all but one subject's code is the same.
            turns_of_instance: Some(5),
        };
        let nbody = |bodies, busy| Phase {
            case: Request::NBody { bodies, busy },
            rounds: if busy > 0 { 15 } else { 40 },
            base: Some("nbody:sequential"),
            // As the shortest sums.
            turns_of_instance: (busy == 0).then_some(5),
        };
        let copy = |(state, bytes)| Phase {
            case: Request::Copy { state, bytes, offset: 0 },
            rounds: copy_rounds(state, bytes),
            base: Some(if state == State::First { "first:libc" } else { "copy:libc" }),
            turns_of_instance: match state {
                State::First => Some(1),
                // As the shortest sums: where a process has its code makes a twentieth.
                State::Warm if bytes < SAMPLE => Some(10),
                _ => None,
            },
        };
        let mut phases = vec![null, fork(Request::ForkCall, 60)];
        phases.extend([10_000, 100_000, 1_000_000].map(|ns| fork(Request::ForkJoinGap { ns }, 25)));
        phases.extend([1, 4, 16, 64, 256, 1024].map(|k| sum(k * KI)));
        phases.extend([2, 32, 128, 512].map(|bodies| nbody(bodies, 0)));
        phases.extend([1, 2, 4, 8].map(|busy| nbody(128, busy)));
        for (state, sizes) in COPIES {
            phases.extend(sizes.iter().map(|&bytes| copy((*state, bytes))));
        }
        // A turn takes seconds and its figure hardly varies.
        phases.push(fork(Request::IdleBurn, 1));
        phases
    }

    fn asks(&self, case: Request, subject: &str) -> bool {
        match case {
            Request::Copy { state: State::Cold, .. } => COPY.contains(&subject),
            Request::Copy { state: State::First, .. } => FIRST.contains(&subject),
            Request::Copy { .. } => NEVER_SLOWER.contains(&subject),
            Request::NBody { busy: 0 | 2, .. } => NBODY.contains(&subject),
            Request::NBody { .. } => NBODY_BUSY.contains(&subject),
            Request::SumF32 { .. } => {
                (FORK.contains(&subject) && subject != "park") || SUM.contains(&subject)
            }
            Request::IdleBurn => FORK.contains(&subject) && !NEW_THREAD_EACH.contains(&subject),
            _ => FORK.contains(&subject),
        }
    }

    fn next(&mut self, phase: &Phase<Request>, _round: usize) -> Request {
        match phase.case {
            // Elsewhere than the last.
            Request::Copy { state, bytes, .. } => self.arena.reserve(state, bytes),
            case => case,
        }
    }

    fn shown(subject: &'static str) -> &'static str {
        let unmarked =
            ["copy:", "first:", "nbody:"].into_iter().find_map(|mark| subject.strip_prefix(mark));
        unmarked.unwrap_or(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_shown_without_its_mark() {
        assert_eq!(Shadow::shown("copy:libc"), "libc");
        assert_eq!(Shadow::shown("copy:kumiki/split"), "kumiki/split");
        assert_eq!(Shadow::shown("first:kumiki"), "kumiki");
        assert_eq!(Shadow::shown("nbody:forkunion/static"), "forkunion/static");
        assert_eq!(Shadow::shown("kumiki"), "kumiki");
    }
}
