//! The papers whose figures are measured here, and where on the page they are.

use kumiki_measure::schema::Results;
use maud::{Markup, html};

use crate::{nodes, parasc, resource, shadow};

/// A paper.
pub(crate) struct Paper {
    pub(crate) id: &'static str,
    pub(crate) authors: &'static str,
    pub(crate) title: &'static str,
    pub(crate) year: u16,
    /// Subject that was measured then and is measured here.
    pub(crate) about: &'static str,
    /// Figures that stand here.
    pub(crate) figures: &'static [&'static str],
    /// Figures that answer a question above: what the paper calls them.
    pub(crate) above: &'static [(&'static str, &'static str)],
    /// Tables of one result.
    pub(crate) tables: fn(&Results) -> Option<Markup>,
}

/// Papers in the order of the project's parts.
pub(crate) const PAPERS: [Paper; 5] = [
    Paper {
        id: "paper-calls",
        authors: "Katsumi Nakamura, Tamotsu Noji",
        title: "Performance Evaluation of the UNIX System Calls",
        year: 1991,
        about: "fork and exec against the sizes that decide their cost, on System V, SunOS and \
                HP-UX then, on this machine here.",
        figures: &[
            "fork-data",
            "fork-bss",
            "fork-stack",
            "exec-data",
            "exec-bss",
            "exec-args",
            "text",
        ],
        above: &[],
        tables: |_| None,
    },
    Paper {
        id: "paper-shadow",
        authors: "Atsushi Hori, Keiji Yamamoto, Yoshiyuki Ohno and others",
        title: "A Ultra-light Thread Library Using Hardware Synchronization",
        year: 2011,
        about: "A helper thread that waits by the processor’s own means, on an Intel Xeon X5560.",
        figures: &[],
        above: &[("shadow-idle", "Figure 8"), ("shadow-copy", "Figure 13")],
        tables: shadow::tables,
    },
    Paper {
        id: "paper-nodes",
        authors: "Suetake, Yoshinari Nomura, Hideo Taniguchi",
        title: "Faster Starts of OS Nodes by Kernel Images Resident in Memory, on Mint",
        year: 2017,
        about: "A Linux started on cores of its own from bzImage and initrd on a disk, and from \
                memory that keeps them, on an Intel Core i7-4770.",
        figures: &[],
        above: &[],
        tables: |_| Some(nodes::published()),
    },
    Paper {
        id: "paper-parasc",
        authors: "Nakamura",
        title: "Parallelising System Calls by Shared Memory",
        year: 2018,
        about: "System calls made by processing threads, on an Intel Core i5-4690.",
        figures: &[],
        above: &[
            ("parasc-requests-own", "Figure 7, own files"),
            ("parasc-requests-one", "Figure 7, one file"),
        ],
        tables: parasc::tables,
    },
    Paper {
        id: "paper-resource",
        authors: "Motofumi Horii, Toshihiro Yamauchi, Hideo Taniguchi",
        title: "Evaluation of Tender, Which Manages OS Resources on Each Core",
        year: 2014,
        about: "Memory allocated and processes created by 1 to 16 cores, with tables for each \
                core and with shared ones, on two Intel Xeon E5-2665.",
        figures: &[
            "resource-memory-throughput",
            "resource-memory-gain",
            "resource-process-throughput",
            "resource-process-gain",
        ],
        above: &[],
        tables: resource::tables,
    },
];

impl Paper {
    /// Links to its figures that answer a question.
    pub(crate) fn links(&self, figures: &[String]) -> Option<Markup> {
        let there: Vec<_> =
            self.above.iter().filter(|(id, _)| figures.iter().any(|figure| figure == id)).collect();
        (!there.is_empty()).then(|| {
            html! {
                p.quiet {
                    "Above: "
                    @for (at, (id, name)) in there.iter().enumerate() {
                        @if at > 0 { ", " }
                        a href={ "#" (id) } { (name) }
                    }
                    "."
                }
            }
        })
    }
}
