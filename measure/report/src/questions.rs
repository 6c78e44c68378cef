//! The page's questions, in the reader's order, and what answers each.

use kumiki_measure::schema::Results;

use crate::answers::{self, Sentence};
use crate::headline::mostly_disturbed;
use crate::rows;
use crate::steps::{self, Step};

/// A question: its charts, its answer, and what to do.
pub(crate) struct Question {
    /// Anchor.
    pub(crate) id: &'static str,
    /// A word or two for the contents.
    pub(crate) short: &'static str,
    /// The question.
    pub(crate) title: &'static str,
    /// First words of the cases whose rows lie below it.
    pub(crate) parts: &'static [&'static str],
    /// Figures, in order; those that were made for its parts unasked follow.
    pub(crate) figures: &'static [&'static str],
    /// The answer's sentences, each where the result has its rows.
    pub(crate) answers: &'static [fn(&Results) -> Option<Sentence>],
    /// Conclusions from the answer, each step where the figures say so.
    pub(crate) to_do: &'static [Step],
}

impl Question {
    /// The answer that a result gives.
    pub(crate) fn answer(&self, results: &Results) -> Vec<Sentence> {
        self.answers.iter().filter_map(|answer| answer(results)).collect()
    }

    /// The steps that every result with rows of this question's says; one that says nothing
    /// of it has no voice. Where others disturbed most of one, nothing in it is graded, and no
    /// step stands on it.
    pub(crate) fn to_do(&self, results: &[Results]) -> Vec<&'static str> {
        let has =
            |r: &&Results| r.rows.iter().any(|row| self.parts.contains(&rows::part_of(&row.case)));
        let asked: Vec<&Results> = results.iter().filter(has).collect();
        if asked.is_empty() || asked.iter().any(|r| mostly_disturbed(r)) {
            return Vec::new();
        }
        let held = |step: &&Step| asked.iter().all(|r| (step.holds)(r));
        self.to_do.iter().filter(held).map(|step| step.text).collect()
    }
}

/// All of them.
pub(crate) const QUESTIONS: [Question; 10] = [
    Question {
        id: "starting",
        short: "Starting programs",
        title: "What does starting a program cost from a large process?",
        parts: &["process"],
        figures: &["spawn", "ways-process", "fork-anon", "fork-copy", "exec-env"],
        answers: &[
            answers::spawn,
            answers::fork_slope,
            answers::fork_huge,
            answers::fork_base,
            answers::exec_base,
            answers::exec_data,
        ],
        to_do: &[
            Step {
                text: "Use posix_spawn, or what your language builds on it, and avoid hooks \
                       between fork and exec: they force a copy of all page tables.",
                holds: steps::spawn_beats_fork,
            },
            Step {
                text: "Where fork cannot be avoided, keep large heaps in huge pages, or fork \
                       from a small helper that was started early.",
                holds: steps::huge_pages_fork_cheaper,
            },
        ],
    },
    Question {
        id: "waking",
        short: "Waking threads",
        title: "What does waking a thread cost?",
        parts: &["thread"],
        figures: &["round-trips", "context-switch"],
        answers: &[answers::wake, answers::switch, answers::thread],
        to_do: &[
            Step {
                text: "Hand work to a thread on the same cpu, or to one that still spins.",
                holds: steps::same_cpu_wakes_cheaper,
            },
            Step {
                text: "Spin for about as long as a wake-up takes before you sleep, and batch \
                       what is handed over, so that one wake-up serves many items.",
                holds: steps::a_wake_is_long,
            },
        ],
    },
    Question {
        id: "handing-over",
        short: "Shadow threads",
        title: "What does handing work to a shadow thread cost?",
        parts: &["shadow"],
        figures: &["shadow-ways", "shadow-idle", "shadow-copy"],
        answers: &[answers::shadow, answers::idle_helper, answers::shadow_copy],
        to_do: &[
            Step {
                text: "Where a request can be split in two halves of a microsecond or more, \
                       give one to a shadow thread on the nearest cpu.",
                holds: steps::a_shadow_answers_soon,
            },
            Step {
                text: "Let it copy its half of what is large and in no cache.",
                holds: steps::a_shadow_copies_faster,
            },
            Step {
                text: "Its threshold decides between a quick answer and an idle cpu: the \
                       adaptive one keeps both.",
                holds: steps::an_adaptive_wait_idles,
            },
        ],
    },
    Question {
        id: "parallel-calls",
        short: "Parallel system calls",
        title: "When do parallel system calls pay here?",
        parts: &["parasc"],
        figures: &["parasc-requests-own", "parasc-requests-one"],
        answers: &[answers::requests, answers::handed_over],
        to_do: &[
            Step {
                text: "Collect calls into batches beyond the point where the lines cross; below \
                       it make them plainly.",
                holds: steps::batches_pay,
            },
            Step { text: "Make these calls plainly here.", holds: steps::batches_do_not_pay },
            Step {
                text: "Give each processing thread open files of its own: calls on one open \
                       file wait for each other.",
                holds: steps::own_files_are_faster,
            },
        ],
    },
    Question {
        id: "owned",
        short: "Owned per core",
        title: "What does owning resources per core save?",
        parts: &["resource"],
        figures: &["resource-spawn-lines"],
        answers: &[answers::core_call, answers::owned_memory],
        to_do: &[
            Step {
                text: "Where threads of several cores change one table under a lock, give each \
                       core a part of its own, and call the owner for the rest.",
                holds: steps::owning_is_cheaper,
            },
            Step {
                text: "Make one request at a time where the answer decides what comes next, \
                       else keep several under way.",
                holds: steps::several_calls_are_cheaper,
            },
        ],
    },
    Question {
        id: "memory",
        short: "Memory",
        title: "What does fresh memory cost?",
        parts: &["memory"],
        figures: &["ways-memory"],
        answers: &[answers::page_fault],
        to_do: &[
            Step {
                text: "Fault memory in before it is needed (MAP_POPULATE, or write to it at the \
                       start), and keep what was given instead of giving it back.",
                holds: steps::faults_cost,
            },
            Step {
                text: "Let large heaps use huge pages: one fault serves 512 ordinary pages.",
                holds: steps::huge_faults_are_cheaper,
            },
        ],
    },
    Question {
        id: "files",
        short: "Files",
        title: "What do files cost?",
        parts: &["file"],
        figures: &["ways-file"],
        answers: &[answers::file, answers::on_disk],
        to_do: &[
            Step { text: "Keep files open.", holds: steps::opening_costs },
            Step {
                text: "Read in pieces of 64 KiB or more.",
                holds: steps::large_reads_are_cheaper,
            },
            Step {
                text: "What must be on disk costs what fsync costs: gather writes before it.",
                holds: steps::fsync_costs,
            },
        ],
    },
    Question {
        id: "talking",
        short: "Talking between processes",
        title: "Which way should two processes talk?",
        parts: &["ipc"],
        figures: &["latency-same", "latency-other", "bandwidth-same", "bandwidth-other"],
        answers: &[answers::quickest_on_one_cpu, answers::quickest_between_cpus],
        to_do: &[Step {
            text: "For short messages the wake-up decides, not the way: stay on one cpu, or \
                       spin on shared memory.",
            holds: steps::one_cpu_talks_quicker,
        }],
    },
    Question {
        id: "signals",
        short: "Signals",
        title: "What does a signal cost?",
        parts: &["signal"],
        figures: &["ways-signal"],
        answers: &[answers::signal],
        to_do: &[Step {
            text: "Use signals for what is rare: an eventfd is cheaper, and so is a flag in \
                       shared memory.",
            holds: steps::signals_cost_more,
        }],
    },
    Question {
        id: "entering",
        short: "Entering the kernel",
        title: "What does entering the kernel cost?",
        parts: &["entry"],
        figures: &["ways-entry"],
        answers: &[answers::system_call, answers::through_libc, answers::clock],
        to_do: &[
            Step {
                text: "Read the clock through the C library, which does not enter the kernel.",
                holds: steps::the_vdso_is_cheaper,
            },
            Step { text: "Make fewer, larger calls.", holds: steps::large_calls_are_cheaper },
        ],
    },
];
