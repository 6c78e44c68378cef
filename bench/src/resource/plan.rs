//! The plan: which subject does what, and how often.

use crate::run::{Phase, Plan};

use super::request::Request;

/// Allocators.
const PAGES: &[&str] = &[
    "pages:kumiki",
    "pages:glibc",
    "pages:mmap",
    #[cfg(feature = "peers")]
    "pages:jemalloc",
    #[cfg(feature = "peers")]
    "pages:mimalloc",
    #[cfg(feature = "peers")]
    "pages:snmalloc",
    #[cfg(feature = "peers")]
    "pages:tcmalloc",
];

/// Ways to have something done that belongs to another thread, or to both.
const CALLS: &[&str] = &[
    "calls:kumiki",
    "calls:kumiki/shared",
    "calls:mutex_map",
    "calls:tokio_oneshot",
    "calls:bare",
    #[cfg(feature = "peers")]
    "calls:crossbeam_channel",
];

/// What stays on its core.
const LOCAL: &[&str] = &["local:kumiki", "local:kumiki/shared", "local:mutex_map", DIRECT];
/// The handler itself.
const DIRECT: &str = "local:direct";

/// The paper's two types.
const PAIRED: &[&str] = &["paired:kumiki", "paired:kumiki/shared"];

pub(crate) struct Resource;

impl Plan for Resource {
    type Case = Request;

    const NAME: &'static str = "resource";

    fn subjects(&self) -> Vec<&'static str> {
        [PAGES, CALLS, LOCAL, PAIRED].concat()
    }

    fn argument(&self) -> String {
        String::new()
    }

    fn phases(&self) -> Vec<Phase<Request>> {
        let phase = |case, base| Phase {
            case,
            rounds: 40,
            base,
            // Where a process has its code and its tables makes some tenths of a
            // nanosecond, and most of these take a few.
            turns_of_instance: Some(4),
        };
        let mut phases = Vec::new();
        phases.extend([1, 2].map(|threads| phase(Request::Alloc { threads }, Some("pages:glibc"))));
        phases.push(phase(Request::AllocBatch, Some("pages:glibc")));
        phases.push(phase(Request::FreeRemote, Some("pages:glibc")));
        // The handler is measured beside, where it runs alone.
        phases.push(phase(Request::LocalCall, Some(DIRECT)));
        phases.extend([1, 2, 8, 32].map(|in_flight| phase(Request::CoreCall { in_flight }, None)));
        phases.push(phase(Request::Lookup, None));
        phases.extend([1, 2].map(|cores| phase(Request::MemoryPair { cores }, None)));
        phases
    }

    fn asks(&self, case: Request, subject: &str) -> bool {
        let group = match case {
            Request::Alloc { .. } | Request::AllocBatch | Request::FreeRemote => PAGES,
            Request::CoreCall { .. } => CALLS,
            Request::LocalCall => LOCAL,
            Request::Lookup => &LOCAL[..3],
            Request::MemoryPair { .. } => PAIRED,
        };
        group.contains(&subject)
    }

    /// One alone, beside both: what the second core gains is told by the same process at
    /// the same moment.
    fn beside(&self, case: Request, _: &str) -> Option<Request> {
        match case {
            Request::Alloc { threads: 2 } => Some(Request::Alloc { threads: 1 }),
            Request::MemoryPair { cores: 2 } => Some(Request::MemoryPair { cores: 1 }),
            _ => None,
        }
    }

    fn next(&mut self, phase: &Phase<Request>, _: usize) -> Request {
        phase.case
    }

    fn shown(subject: &'static str) -> &'static str {
        subject.split_once(':').map_or(subject, |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    #[test]
    fn each_case_has_subjects_and_each_subject_a_case() {
        let (plan, phases) = (Resource, Resource.phases());
        for phase in &phases {
            let kumiki = plan.subjects().into_iter().filter(|s| plan.asks(phase.case, s));
            let kumiki = kumiki.filter(|subject| Resource::shown(subject) == "kumiki").count();
            assert_eq!(kumiki, 1, "{}", phase.case.name());
        }
        for subject in plan.subjects() {
            assert!(phases.iter().any(|phase| plan.asks(phase.case, subject)), "{subject}");
        }
    }
}
