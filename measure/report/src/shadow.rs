//! Tables 1 and 2 of Hori et al.'s paper on shadow threads, and its Figures 5, 6
//! and 8, as tables: they need no script.

use std::collections::{BTreeMap, BTreeSet};

use kumiki_measure::schema::{Results, Row, Value};
use maud::{Markup, html};

use crate::format::{self, interval, quantity, times};
use crate::paper::{Scale, Table, mark};
use crate::rows::{self, find, number};

/// Nanoseconds that the paper gives on an Intel Xeon X5560 of 2.8 GHz, from
/// ticks where it gives only those.
const PAPER_NULL: [(&str, f64); 7] = [
    ("pthread", 23_570.0),
    ("ucontext", 948.1),
    ("sleep_by_futex", 2879.0 / 2.8),
    ("sleep_by_mwait", 2879.0 / 2.8),
    ("sleep_by_umwait", 2879.0 / 2.8),
    ("sleep_by_mwaitx", 2879.0 / 2.8),
    ("spin", 58.0 / 2.8),
];
const PAPER_THRESHOLD: [(&str, f64); 6] = [
    ("0", 2879.0 / 2.8),
    ("100", 74.0 / 2.8),
    ("10000", 71.0 / 2.8),
    ("1000000", 70.0 / 2.8),
    ("100000000", 71.0 / 2.8),
    ("infinite", 58.0 / 2.8),
];

/// A result's tables of them.
pub(crate) fn tables(results: &Results) -> Option<Markup> {
    let [null, threshold, both, spin, sleep, over] = [
        Table {
            case: "shadow.null",
            param: "way",
            paper: "paper, 2011",
            published: &PAPER_NULL,
            ticks: true,
            marked: &[],
            title: "a thread that does nothing",
            caption: "Table 1 of Hori et al., whose machine has an Intel Xeon X5560 of 2.8 GHz: \
                      from its start to its end, on another cpu but for ucontext. Two phase is \
                      the default of a shadow: it spins first and then sleeps. One that sleeps \
                      does so before each start, by the best means of the machine; the paper's \
                      is monitor and mwait. A pthread is new each time, and bound by its \
                      attributes. Ucontext stands for the paper's MPC++, whose threads at user \
                      level switch by swapcontext, too: a context is made each time, on the \
                      stack of the one before, and its end switches back. It has no queue of \
                      threads that are ready, as a library has. Like MPC++ it stays on its cpu: \
                      nothing runs beside it, and whatever it did would come on top.",
        }
        .of(results),
        Table {
            case: "shadow.threshold",
            param: "threshold_ticks",
            paper: "paper, 2011",
            published: &PAPER_THRESHOLD,
            ticks: true,
            marked: &[],
            title: "fork and join against the threshold",
            caption: "Table 2 of Hori et al.: one after the other, and the helper sleeps when it \
                      has spun so many ticks in vain. The paper counts looks, each of 11 to 17 of \
                      its ticks (its 10⁹ last 4 to 6 s): so many times longer. With 0 it may \
                      still be on its way to sleep when the next comes; in Table 1 and Figure 6 \
                      it sleeps.",
        }
        .of(results),
        Table {
            case: "shadow.threshold_both",
            param: "threshold_ticks",
            paper: "paper, 2011",
            published: &PAPER_THRESHOLD,
            ticks: true,
            marked: &[],
            title: "fork and join against the threshold of both sides",
            caption: "Table 2 of Hori et al. as they have it: main, too, sleeps when it has spun so \
                      many ticks in vain for the job's end. With 0 the helper is asleep before \
                      each fork. 10⁵ and 10⁹ are of their Figure 8. The paper counts looks, each of \
                      11 to 17 of its ticks.",
        }
        .of(results),
        matrix(
            results,
            "spin",
            "fork and join by pair of cpus, spinning",
            "Figure 5 of Hori et al.",
        ),
        matrix(
            results,
            "sleep",
            "fork and join by pair of cpus, asleep",
            "Figure 6 of Hori et al., who sleep by monitor and mwait. Here the helper sleeps before \
             each fork by the best means of the machine, and has to be woken.",
        ),
        over(results),
    ];
    let all: Vec<Markup> =
        [null, threshold, both, spin, sleep, over].into_iter().flatten().collect();
    (!all.is_empty()).then(|| html! { div.figures.small-tables { @for one in &all { (one) } } })
}

/// Each pair's figure, the darker the longer.
fn matrix(results: &Results, wait: &str, title: &str, caption: &str) -> Option<Markup> {
    let rows: BTreeMap<(u64, u64), &Row> = find(results, "shadow.pair", &[("wait", wait.into())])
        .filter_map(|row| {
            let cpu = |name| number(&row.params, name);
            Some(((cpu("main_cpu")?, cpu("helper_cpu")?), row))
        })
        .collect();
    let mains: BTreeSet<u64> = rows.keys().map(|(main, _)| *main).collect();
    let helpers: BTreeSet<u64> = rows.keys().map(|(_, helper)| *helper).collect();
    if rows.is_empty() || !rows::fills(rows.len(), [mains.len(), helpers.len()]) {
        return None;
    }
    let cpus = mains.union(&helpers).count();
    let some = rows.len() < cpus * cpus - cpus;
    let scale = Scale::of(&rows.values().copied().collect::<Vec<_>>(), None);
    Some(html! {
            figure data-figure={ "shadow-pair-" (wait) } {
                h4 { (title) }
                div.scroll tabindex="0" role="region" aria-label=(title) {
                    table.matrix {
                        thead {
                            tr {
                                th scope="col" { "main ╲ helper" }
                                @for helper in &helpers { th.n scope="col" { "cpu " (helper) } }
                            }
                        }
                        tbody {
                            @for main in &mains {
                                tr {
                                    th scope="row" { "cpu " (main) }
                                    @for helper in &helpers {
                                        @match rows.get(&(*main, *helper)) {
                                            Some(row) => (shaded(row, &scale)),
                                            None => td.n.quiet { "–" },
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                figcaption {
                    p {
                        (caption) " Below each figure: starts a second, which the paper draws; \
                        the raw round trips of a cache line between the same two cpus that it \
                        is; and what the two have in common."
                        @if some { " Of many cpus some pairs of each relation are measured, \
                                    in a full run all." }
                    }
                }
            }
    })
}

fn shaded(row: &Row, scale: &Scale) -> Markup {
    // Light enough for the text in both themes.
    let share = 6.0 + 0.3 * scale.at(row.median);
    let style = format!("background: color-mix(in srgb, var(--accent) {share:.0}%, var(--ground))");
    html! {
        td.n style=(style) title={ "95 % CI " (interval(row.ci, row.unit)) } {
            (quantity(row.median, row.unit)) (mark(row))
            small { (format::number(1e3 / row.median)) (format::THIN) "M/s" }
            @if let Some(ratio) = rows::round_trips(row) { small { (times(ratio)) } }
            @if let Some(relation) = row.params.get("relation") {
                small { (format::words(&relation.to_string())) }
            }
        }
    }
}

/// Cost of a wait as it grows old, by threshold.
fn over(results: &Results) -> Option<Markup> {
    // Numbers before the word, as they grow.
    let rows: BTreeMap<(&Value, u64), &Row> = find(results, "shadow.idle_over", &[])
        .filter_map(|row| {
            let threshold = row.params.get("threshold_ticks")?;
            Some(((threshold, number(&row.params, "after_ms")?), row))
        })
        .collect();
    let thresholds: BTreeSet<&Value> = rows.keys().map(|(threshold, _)| *threshold).collect();
    let ages: BTreeSet<u64> = rows.keys().map(|(_, age)| *age).collect();
    let drawn = !rows.is_empty() && rows::fills(rows.len(), [thresholds.len(), ages.len()]);
    drawn.then(|| html! {
        figure data-figure="shadow-idle-over" {
            h4 { "cpus in use while main and helpers wait" }
            div.scroll tabindex="0" role="region" aria-label="cpus in use while they wait" {
                table.compact {
                    thead {
                        tr {
                            th scope="col" { "threshold ╲ after" }
                            @for age in &ages {
                                th.n scope="col" {
                                    @if *age < 1000 { (age) (format::THIN) "ms" }
                                    @else { (age / 1000) (format::THIN) "s" }
                                }
                            }
                        }
                    }
                    tbody {
                        @for threshold in &thresholds {
                            tr {
                                th scope="row" { (format::value("threshold_ticks", threshold)) }
                                @for age in &ages {
                                    td.n {
                                        @if let Some(row) = rows.get(&(*threshold, *age)) {
                                            (quantity(row.median, row.unit)) (mark(row))
                                        } @else { "–" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    "Figure 8 of Hori et al., whose axis of time has the temperature of the cores: \
                    main waits in a join and a helper on each other cpu for work, and here stands \
                    how many cpus they use from then on. From the threshold on they sleep. The paper \
                    counts looks, each of 11 to 17 of its ticks: 14 · 10⁹ ticks stand for its 10⁹, which \
                    turn at 4 to 6 s. From 2 s on there is one wait of each age in a run, so such a \
                    figure has no interval."
                }
            }
        }
    })
}
