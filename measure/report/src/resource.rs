//! Figures 5 to 8 of Horii et al.'s paper on resources owned per core, programs started by
//! parents of some sizes, and the calls between cores that it left open.

use std::collections::BTreeMap;

use kumiki_measure::schema::{Results, Row};
use kumiki_measure::stats::scaling::{Law, fit};
use maud::{Markup, html};

use crate::format::{self, interval, number, times};
use crate::paper::{Table, mark};
use crate::rows::{self, find};

mod spawn;

/// Cores for which a model is shown, as far as there are not so many: the paper's machine
/// has 16.
const MODELLED: [u64; 3] = [8, 16, 64];
/// Factor within which a model must agree to be shown.
const WITHIN: f64 = 2.0;

/// A result's tables of them.
pub(crate) fn tables(results: &Results) -> Option<Markup> {
    let calls = Table {
        case: "resource.call",
        param: "in_flight",
        paper: "paper, 2014",
        published: &[],
        ticks: false,
        marked: &[],
        title: "a call to another core",
        caption: "A counter of the other core counted up through interface control, with so many \
                  calls under way: the time from one answer to the next. The paper has calls \
                  between cores designed and evaluated later.",
    };
    let by_cores = BY_CORES.iter().map(|one| by_cores(one, results));
    let all = by_cores.chain([spawn::table(results), calls.of(results)]);
    let all: Vec<Markup> = all.flatten().collect();
    (!all.is_empty()).then(|| html! { div.figures.small-tables { @for one in &all { (one) } } })
}

/// Types: a value of the parameter `type`, and its name.
pub(crate) const TYPES: [(&str, &str); 5] = [
    ("per_core", "per core"),
    ("shared", "shared"),
    ("mapped_once", "per core, mapped once"),
    ("plain_threads", "Linux, threads"),
    ("plain_processes", "Linux, processes"),
];

/// One type's rows by cores.
pub(crate) struct Type<'a> {
    pub(crate) name: &'static str,
    pub(crate) rows: BTreeMap<u64, &'a Row>,
    /// The law of the medians, and those of the ends of their intervals.
    laws: Option<[Law; 3]>,
}

impl<'a> Type<'a> {
    pub(crate) fn of(
        results: &'a Results,
        case: &str,
        (value, name): (&str, &'static str),
    ) -> Self {
        let rows: BTreeMap<u64, &Row> = find(results, case, &[("type", value.into())])
            .filter_map(|row| Some((rows::number(&row.params, "cores")?, row)))
            .collect();
        // One core at one end and all others at the other end: the steepest and the flattest.
        let law = |one: usize, more: usize| {
            let points = rows.iter().map(|(&cores, row)| {
                let ns = [row.median, row.ci[0], row.ci[1]][if cores == 1 { one } else { more }];
                (cores, per_ms(cores, ns))
            });
            fit(&points.collect::<Vec<_>>())
        };
        let laws = (|| Some([law(0, 0)?, law(1, 2)?, law(2, 1)?]))();
        Type { name, laws, rows }
    }

    /// Gain of each core: throughput ÷ cores ÷ throughput of one.
    pub(crate) fn gain(&self, cores: u64) -> Option<f64> {
        let (one, row) = (self.rows.get(&1)?, self.rows.get(&cores)?);
        Some(one.median / row.median)
    }

    /// Value by the fitted law, if that agrees within [`WITHIN`].
    fn model(&self, cores: u64) -> Option<f64> {
        let [law, ends @ ..] = self.laws.as_ref()?.map(|law| law.capacity(cores));
        let (least, most) = (ends[0].min(ends[1]).min(law), ends[0].max(ends[1]).max(law));
        (most <= WITHIN * least).then_some(law / cores as f64)
    }
}

/// The paper's throughput: allocations and frees of all cores in a millisecond, each of which
/// takes so long for one.
pub(crate) fn per_ms(cores: u64, ns: f64) -> f64 {
    cores as f64 * 1e6 / ns
}

/// Rate of objects made and deleted, by number of cores.
struct ByCores {
    case: &'static str,
    id: &'static str,
    title: &'static str,
    caption: &'static str,
}

const BY_CORES: [ByCores; 4] = [
    ByCores {
        case: "resource.memory_paper",
        id: "resource-memory-paper",
        title: "4 KiB allocated and freed as in the paper, by cores",
        caption: "Figures 5 and 6 of Horii et al., whose machine has two Intel Xeon E5-2665 of 8 \
                  cores: how often all cores together allocate and free 4 KiB in a millisecond, \
                  and of what one core alone does, how much each does. A region is made, attached \
                  as a user space and written to, and both are deleted, 3,000 times; the middle \
                  third counts. Per core each core has tables and a tree of names of its own; \
                  shared they have one, with a lock a resource and one a kind for names. All \
                  threads of a process have one address space, whose lock is Linux’s; a space that \
                  is mapped once over its core’s frames does without it. mmap and munmap alone, by as many threads and by as many processes, stand beside. The \
                  paper draws its values and does not print them.",
    },
    ByCores {
        case: "resource.process_paper",
        id: "resource-process-paper",
        title: "a process created and deleted as in the paper, by cores",
        caption: "Figures 7 and 8: how often all cores together create a process under a name, \
                  wait for it and delete it in a millisecond, and of what one core alone does, \
                  how much each does. Its program (1,000 bytes of text, 220 of data, 8 of bss) is \
                  resident; of 300 times the middle third counts. In the paper each core’s gain \
                  stays near 1 up to 11 cores; Linux makes and ends all processes under locks of \
                  its own (its list of tasks, the parent’s children), which posix_spawn and \
                  waitpid alone show beside.",
    },
    ByCores {
        case: "resource.memory",
        id: "resource-memory",
        title: "a frame with a name made and deleted, by cores",
        caption: "4 KiB without an address of its own choice: a frame of a pool, as a resource \
                  with a name, made and deleted, without a system call.",
    },
    ByCores {
        case: "resource.process",
        id: "resource-process",
        title: "a process of the smallest program created and deleted, by cores",
        caption: "As above, but the program is started from its file, and has no data.",
    },
];

fn by_cores(what: &ByCores, results: &Results) -> Option<Markup> {
    let mut types: Vec<Type> =
        TYPES.into_iter().map(|one| Type::of(results, what.case, one)).collect();
    types.retain(|of| !of.rows.is_empty());
    let [own, shared, ..] = &types[..] else { return None };
    let measured: Vec<u64> = own.rows.keys().copied().collect();
    let most = *measured.last()?;
    let is_said = |cores: &u64| {
        *cores > most && own.model(*cores).is_some() && shared.model(*cores).is_some()
    };
    let modelled: Vec<u64> = MODELLED.into_iter().filter(is_said).collect();
    let title = what.title;
    Some(html! {
        figure data-figure=(what.id) {
            h4 { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.matrix.wraps {
                    thead {
                        tr {
                            th scope="col" { "cores" }
                            @for of in &types {
                                th.n scope="col" { (of.name) ", 1/ms" }
                                th.n scope="col" { "gain a core" }
                            }
                            th.n scope="col" { "per core ÷ shared" }
                        }
                    }
                    tbody {
                        @for &cores in &measured {
                            tr {
                                th scope="row" { (cores) (reach(own, cores)) }
                                @for of in &types { (cells(of, cores)) }
                                td.n { (ratio(own, shared, cores).map(times).unwrap_or_default()) }
                            }
                        }
                        @for &cores in &modelled {
                            tr.quiet {
                                th scope="row" { (cores) ", model" }
                                @for of in &types { (modelled_cells(of, cores)) }
                                td {}
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    (what.caption)
                    @if !modelled.is_empty() {
                        " Model: not measured, but the universal scalability law fitted to the \
                         rows above (" (laws(&types)) "), as far as their intervals leave it \
                         within a factor of two."
                    }
                }
            }
        }
    })
}

/// Relation of the last of so many cpus, if not a core of the first socket.
pub(crate) fn reach(of: &Type, cores: u64) -> String {
    let value = of.rows.get(&cores).and_then(|row| row.params.get("cpus"));
    value.map_or_else(String::new, |value| format!(", {}", format::value("cpus", value)))
}

fn cells(of: &Type, cores: u64) -> Markup {
    html! {
        @match of.rows.get(&cores) {
            Some(row) => {
                td.n title={ "95 % CI of the time of one " (interval(row.ci, row.unit)) } {
                    b { (number(per_ms(cores, row.median))) } (mark(row))
                }
                td.n { (of.gain(cores).map(times).unwrap_or_default()) }
            }
            None => { td.n.quiet { "–" } td {} }
        }
    }
}

fn modelled_cells(of: &Type, cores: u64) -> Markup {
    let one = of.rows.get(&1).map(|row| per_ms(1, row.median));
    html! {
        @match (of.model(cores), one) {
            (Some(gain), Some(one)) => {
                td.n { i { (number(gain * cores as f64 * one)) } }
                td.n { i { (times(gain)) } }
            }
            _ => { td.n.quiet { "–" } td {} }
        }
    }
}

fn ratio(own: &Type, shared: &Type, cores: u64) -> Option<f64> {
    Some(shared.rows.get(&cores)?.median / own.rows.get(&cores)?.median)
}

/// Fitted laws, in words.
fn laws(types: &[Type]) -> String {
    let one = |of: &Type| {
        let [law, ..] = of.laws.as_ref()?;
        Some(format!("{}: σ {:.4}, κ {:.4}", of.name, law.contention, law.coherence))
    };
    types.iter().filter_map(one).collect::<Vec<_>>().join("; ")
}
