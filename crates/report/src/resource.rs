//! Figures 5 and 6 of Horii et al.'s paper on resources owned per core, the same of processes,
//! programs started by parents of some sizes, and the calls between cores that it left open.

use std::collections::BTreeMap;

use kumiki_measure::schema::{Results, Row};
use maud::{Markup, html};

use crate::format::{interval, number, times};
use crate::paper::{Table, mark};
use crate::rows::{self, find};
use crate::scaling::{Law, fit};

mod spawn;

/// Cores for which a model is shown, as far as there are not so many: the paper's machine
/// has 16.
const MODELLED: [u64; 4] = [4, 8, 16, 64];

/// What a result has of them.
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
    let all = [MEMORY.of(results), PROCESS.of(results), spawn::table(results), calls.of(results)];
    let all: Vec<Markup> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| html! { div.figures.small-tables { @for one in &all { (one) } } })
}

/// One type's rows by cores.
struct Type<'a> {
    name: &'static str,
    rows: BTreeMap<u64, &'a Row>,
    laws: Vec<Law>,
}

impl<'a> Type<'a> {
    fn of(results: &'a Results, case: &str, value: &str, name: &'static str) -> Self {
        let rows: BTreeMap<u64, &Row> = find(results, case, &[("type", value.into())])
            .filter_map(|row| Some((rows::number(&row.params, "cores")?, row)))
            .collect();
        let points: Vec<_> = rows.iter().map(|(&cores, row)| (cores, per_ms(cores, row))).collect();
        Type { name, laws: fit(&points), rows }
    }

    /// Gain of each core: throughput ÷ cores ÷ throughput of one.
    fn gain(&self, cores: u64) -> Option<f64> {
        let (one, row) = (self.rows.get(&1)?, self.rows.get(&cores)?);
        Some(one.median / row.median)
    }

    /// The same and the throughput by the fitted laws, least and most.
    fn model(&self, cores: u64) -> Option<[(f64, f64); 2]> {
        let one = per_ms(1, self.rows.get(&1)?);
        let mut capacities: Vec<f64> = self.laws.iter().map(|law| law.capacity(cores)).collect();
        capacities.sort_by(f64::total_cmp);
        let of = |capacity: &f64| (capacity * one, capacity / cores as f64);
        Some([of(capacities.first()?), of(capacities.last()?)])
    }
}

/// The paper's throughput: allocations and frees of all cores in a millisecond.
fn per_ms(cores: u64, row: &Row) -> f64 {
    cores as f64 * 1e6 / row.median
}

/// What is made and deleted by so many cores at once.
struct ByCores {
    case: &'static str,
    id: &'static str,
    title: &'static str,
    caption: &'static str,
}

const MEMORY: ByCores = ByCores {
    case: "resource.memory",
    id: "resource-memory",
    title: "4 KiB allocated and freed, by cores",
    caption: "Figures 5 and 6 of Horii et al., whose machine has two Intel Xeon E5-2665 of 8 \
              cores: how often all cores together allocate and free 4 KiB in a millisecond, as \
              a resource with a name; and of what one core alone does, how much each does. Per \
              core each core has tables and a tree of names of its own; shared they have one \
              under locks. The paper draws its values and does not print them.",
};

const PROCESS: ByCores = ByCores {
    case: "resource.process",
    id: "resource-process",
    title: "a process created and deleted, by cores",
    caption: "How often all cores together create a process under a name, wait for it and \
              delete it in a millisecond, and of what one core alone does, how much each does. \
              A spawn server makes it. The paper's processes are Tender's, which start no \
              program from a file system.",
};

impl ByCores {
    fn of(&self, results: &Results) -> Option<Markup> {
        by_cores(self, results)
    }
}

fn by_cores(what: &ByCores, results: &Results) -> Option<Markup> {
    let of = |value, name| Type::of(results, what.case, value, name);
    let types = [of("per_core", "per core"), of("shared", "shared")];
    let measured: Vec<u64> = types[0].rows.keys().copied().collect();
    let most = *measured.last()?;
    let modelled: Vec<u64> = MODELLED.into_iter().filter(|cores| *cores > most).collect();
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
                                th scope="row" { (cores) }
                                @for of in &types { (cells(of, cores)) }
                                td.n { (ratio(&types, cores).map(times).unwrap_or_default()) }
                            }
                        }
                        @for &cores in &modelled {
                            @if let [Some(own), Some(shared)] = [types[0].model(cores), types[1].model(cores)] {
                                tr.quiet {
                                    th scope="row" { (cores) ", model" }
                                    @for [least, most] in [own, shared] {
                                        td.n { i { (between(least.0, most.0, number)) } }
                                        td.n { i { (between(least.1, most.1, times)) } }
                                    }
                                    td.n { i { (between(own[0].0 / shared[1].0, own[1].0 / shared[0].0, times)) } }
                                }
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    (what.caption)
                    @if !modelled.is_empty() && types.iter().all(|of| !of.laws.is_empty()) {
                        " Model: not measured, but the universal scalability law fitted to the \
                         rows above (" (laws(&types)) ")."
                        @if types[0].laws.len() > 1 {
                            " Two cores alone do not tell waiting in line (σ) from talking to \
                              each other (κ): the values are between those of the one and of \
                              the other alone."
                        }
                    }
                }
            }
        }
    })
}

fn cells(of: &Type, cores: u64) -> Markup {
    html! {
        @match of.rows.get(&cores) {
            Some(row) => {
                td.n title={ "95 % CI of the time of one " (interval(row.ci, row.unit)) } {
                    b { (number(per_ms(cores, row))) } (mark(row))
                }
                td.n { (of.gain(cores).map(times).unwrap_or_default()) }
            }
            None => { td.n.quiet { "–" } td {} }
        }
    }
}

fn ratio([own, shared]: &[Type; 2], cores: u64) -> Option<f64> {
    Some(shared.rows.get(&cores)?.median / own.rows.get(&cores)?.median)
}

fn between(least: f64, most: f64, text: fn(f64) -> String) -> String {
    let (least, most) = (text(least), text(most));
    if least == most { least } else { format!("{least} to {most}") }
}

/// What was fitted.
fn laws(types: &[Type; 2]) -> String {
    let one = |of: &Type| {
        let laws: Vec<String> = of
            .laws
            .iter()
            .map(|law| format!("σ {:.4}, κ {:.4}", law.contention, law.coherence))
            .collect();
        format!("{}: {}", of.name, laws.join(" or "))
    };
    types.iter().map(one).collect::<Vec<_>>().join("; ")
}
