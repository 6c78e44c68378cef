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

/// Subjects that stay on their core.
const LOCAL: &[&str] = &["local:kumiki", "local:kumiki/shared", "local:mutex_map", DIRECT];
/// The handler itself.
const DIRECT: &str = "local:direct";

/// The paper's two types, and what an engineer would write today.
const PAIRED: &[&str] = &[
    "paired:kumiki",
    "paired:kumiki/shared",
    #[cfg(feature = "peers")]
    "paired:concurrent_map",
];

/// The same in the paper's own experiments, and the operating system alone.
const PAPER: &[&str] = &[
    "paper:kumiki",
    "paper:kumiki/shared",
    MAPPED_ONCE,
    PROCESSES,
    "paper:plain_threads",
    #[cfg(feature = "peers")]
    "paper:concurrent_map",
];
/// The paper's memory in a space that is mapped once.
const MAPPED_ONCE: &str = "paper:kumiki/mapped_once";
/// Subjects that tell what Linux itself lets a further core do.
const PROCESSES: &str = "paper:plain_processes";

/// Another kernel's place, as far as one kernel has it.
const LINES: &[&str] = &["lines:kumiki"];

/// One interface over all places, and a core's alone.
const CONTROL: &[&str] = &["control:kumiki", INTERFACE];
/// The interface of a core's resources alone.
const INTERFACE: &str = "control:interface";

/// Other machines.
#[cfg(feature = "peers")]
const PLACES: &[&str] = &["places:kumiki", "places:kumiki/own", "places:kumiki/control", NATS];
#[cfg(not(feature = "peers"))]
const PLACES: &[&str] = &[];
/// NATS' own request and reply.
#[cfg(feature = "peers")]
const NATS: &str = "places:nats";

/// Busy processes beside.
const BUSY: [u64; 4] = [1, 2, 4, 8];

pub(crate) struct Resource;

impl Plan for Resource {
    type Case = Request;

    const NAME: &'static str = "resource";

    fn subjects(&self) -> Vec<&'static str> {
        [PAGES, CALLS, LOCAL, PAIRED, PAPER, LINES, CONTROL, PLACES].concat()
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
        phases.extend([1, 16, 32, 256].map(|batch| phase(Request::CoreEach { batch }, None)));
        phases.push(phase(Request::Lookup, None));
        phases.push(phase(Request::LineCall, None));
        phases.push(phase(Request::ControlHome, Some(INTERFACE)));
        phases.push(phase(Request::ControlCore, Some(INTERFACE)));
        phases.push(phase(Request::ControlProcess, None));
        phases.extend([1, 2].map(|cores| phase(Request::MemoryPair { cores }, None)));
        // A turn takes a while.
        let paper = |case| Phase { rounds: 12, ..phase(case, Some(PROCESSES)) };
        phases.extend([1, 2].map(|cores| paper(Request::MemoryPaper { cores })));
        phases.extend([1, 2].map(|cores| paper(Request::ProcessPaper { cores })));
        phases.push(Phase { rounds: 8, ..phase(Request::Kept, Some("pages:glibc")) });
        #[cfg(feature = "peers")]
        phases
            .extend([Request::PlaceCall, Request::PlaceBatch].map(|case| phase(case, Some(NATS))));
        for busy in BUSY {
            let beside = |case, base| Phase { rounds: 16, ..phase(case, Some(base)) };
            phases.push(beside(Request::AllocBusy { busy }, "pages:glibc"));
            phases.push(beside(Request::MemoryBusy { busy }, "paired:kumiki/shared"));
            phases.push(beside(Request::CallBusy { busy }, "calls:mutex_map"));
        }
        phases
    }

    fn asks(&self, case: Request, subject: &str) -> bool {
        let group = match case {
            // It lists what a thread had that has gone, and is unmapped at once.
            Request::Kept => return PAGES.contains(&subject) && subject != "pages:mmap",
            Request::AllocBusy { .. } => &PAGES[..2],
            Request::CallBusy { .. } => &CALLS[..3],
            Request::MemoryBusy { .. } => &PAIRED[..2],
            // It has no memory of this kind.
            Request::ProcessPaper { .. } if subject == MAPPED_ONCE => return false,
            Request::MemoryPaper { .. } | Request::ProcessPaper { .. } => PAPER,
            Request::Alloc { .. } | Request::AllocBatch | Request::FreeRemote => PAGES,
            Request::CoreCall { .. } | Request::CoreEach { .. } => CALLS,
            #[cfg(feature = "peers")]
            Request::PlaceCall | Request::PlaceBatch => PLACES,
            Request::LocalCall => LOCAL,
            Request::Lookup => &LOCAL[..3],
            Request::LineCall => LINES,
            Request::ControlHome | Request::ControlCore => CONTROL,
            Request::ControlProcess => &CONTROL[..1],
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
            Request::MemoryPaper { cores: 2 } => Some(Request::MemoryPaper { cores: 1 }),
            Request::ProcessPaper { cores: 2 } => Some(Request::ProcessPaper { cores: 1 }),
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
