//! Tables 1 and 2 of Hori et al.'s paper on shadow threads, and its Figures 5
//! and 6, as tables: they need no script.

use std::collections::BTreeSet;

use kumiki_measure::schema::{Results, Row};
use maud::{Markup, html};

use crate::format::{self, interval, quantity, time, times};
use crate::rows::{self, find, number};

/// Nanoseconds that the paper gives on an Intel Xeon X5560 of 2.8 GHz, from
/// ticks where it counts those.
const PAPER_NULL: [(&str, f64); 2] = [("std_thread", 23_570.0), ("spin", 58.0 / 2.8)];
const PAPER_THRESHOLD: [(&str, f64); 6] = [
    ("0", 2879.0 / 2.8),
    ("100", 74.0 / 2.8),
    ("10000", 71.0 / 2.8),
    ("1000000", 70.0 / 2.8),
    ("100000000", 71.0 / 2.8),
    ("infinite", 58.0 / 2.8),
];

/// What a result has of them.
pub(crate) fn tables(results: &Results) -> Option<Markup> {
    let [null, threshold, spin, sleep] = [
        table(
            results,
            "shadow.null",
            "way",
            &PAPER_NULL,
            "a thread that does nothing",
            "Table 1 of Hori et al.: from its start to its end, on another cpu. Two phase is the \
             default of a shadow: it spins first and then sleeps. The paper has a pthread in \
             place of std's.",
        ),
        table(
            results,
            "shadow.threshold",
            "threshold_ticks",
            &PAPER_THRESHOLD,
            "fork and join against the threshold",
            "Table 2 of Hori et al.: one after the other, and the helper sleeps when it has spun \
             so many ticks in vain.",
        ),
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
    ];
    let all: Vec<Markup> = [null, threshold, spin, sleep].into_iter().flatten().collect();
    (!all.is_empty()).then(|| html! { div.figures.small { @for one in &all { (one) } } })
}

/// Rows by one parameter, each beside the raw round trip.
fn table(
    results: &Results,
    case: &str,
    param: &str,
    paper: &[(&str, f64)],
    title: &str,
    caption: &str,
) -> Option<Markup> {
    let rows: Vec<&Row> = find(results, case, &[]).collect();
    if rows.is_empty() {
        return None;
    }
    let raw = raw(&rows);
    let scale = Scale::of(&rows, raw);
    let name = |row: &Row| {
        row.params.get(param).map(|value| format::value(param, value)).unwrap_or_default()
    };
    let published = |row: &Row| {
        let value = row.params.get(param)?.to_string();
        paper.iter().find(|(of, _)| *of == value).map(|(_, ns)| time(*ns))
    };
    Some(html! {
        figure data-figure=(case.replace('.', "-")) {
            h3 { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.compact {
                    thead {
                        tr {
                            th scope="col" { (format::words(param)) }
                            th.n scope="col" { "median" }
                            th scope="col" { "95 % CI, log scale" }
                            th.n scope="col" { "round trips" }
                            th.n scope="col" { "paper, 2011" }
                        }
                    }
                    tbody {
                        @if let Some(raw) = raw {
                            tr.quiet {
                                th scope="row" { "a cache line, there and back" }
                                td.n { (time(raw)) }
                                td { (scale.bar(raw, [raw, raw])) }
                                td.n { (times(1.0)) }
                                td {}
                            }
                        }
                        @for row in &rows {
                            tr.disturbed[row.disturbed] {
                                th scope="row" { (name(row)) }
                                td.n title=(interval(row.ci, row.unit)) { b { (quantity(row.median, row.unit)) } (mark(row)) }
                                td { (scale.bar(row.median, row.ci)) }
                                td.n { (rows::round_trips(row).map(times).unwrap_or_default()) }
                                td.n.quiet { (published(row).unwrap_or_default()) }
                            }
                        }
                    }
                }
            }
            figcaption { p { (caption) } }
        }
    })
}

/// ⚠ where a row was disturbed, with the reasons to be read on it.
fn mark(row: &Row) -> Markup {
    html! { @if row.disturbed { " " span title=(row.disturbances.join("; ")) { "⚠" } } }
}

/// The raw round trip beside these rows: the median of theirs.
fn raw(rows: &[&Row]) -> Option<f64> {
    let mut all: Vec<f64> = rows.iter().filter_map(|row| row.round_trip_ns).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().filter(|ns| *ns > 0.0)
}

/// A logarithmic scale for the bars of one table.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(rows: &[&Row], raw: Option<f64>) -> Self {
        let ends = rows.iter().flat_map(|row| row.ci).chain(raw).filter(|ns| *ns > 0.0);
        let (low, high) =
            ends.fold((f64::INFINITY, 0.0_f64), |(low, high), ns| (low.min(ns), high.max(ns)));
        Scale { low: low.ln() - 0.5, high: high.ln() }
    }

    /// 0 to 100.
    fn at(&self, ns: f64) -> f64 {
        let at = 100.0 * (ns.ln() - self.low) / (self.high - self.low);
        if at.is_finite() { at.clamp(0.0, 100.0) } else { 0.0 }
    }

    /// The median as a bar, its interval over the end of it.
    fn bar(&self, median: f64, ci: [f64; 2]) -> Markup {
        let [low, high] = ci.map(|ns| self.at(ns));
        // What is narrower than a pixel still shows where it is.
        let wider = (1.5 - (high - low)).max(0.0);
        html! {
            svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                rect.spread x="0" y="3" width=(format!("{:.1}", self.at(median))) height="4" {}
                rect.interval x=(format!("{:.1}", (low - wider / 2.0).max(0.0))) y="1"
                    width=(format!("{:.1}", high - low + wider)) height="8" {}
            }
        }
    }
}

/// Each pair's figure, the darker the longer.
fn matrix(results: &Results, wait: &str, title: &str, caption: &str) -> Option<Markup> {
    let rows: Vec<(u64, u64, &Row)> = find(results, "shadow.pair", &[("wait", wait.into())])
        .filter_map(|row| {
            let cpu = |name| number(&row.params, name);
            Some((cpu("main_cpu")?, cpu("helper_cpu")?, row))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mains: BTreeSet<u64> = rows.iter().map(|(main, ..)| *main).collect();
    let helpers: BTreeSet<u64> = rows.iter().map(|(_, helper, _)| *helper).collect();
    let cpus = mains.union(&helpers).count();
    let some = rows.len() < cpus * cpus - cpus;
    let scale = Scale::of(&rows.iter().map(|(.., row)| *row).collect::<Vec<_>>(), None);
    let cell = |main: u64, helper: u64| {
        rows.iter().find(|(m, h, _)| (*m, *h) == (main, helper)).map(|(.., row)| *row)
    };
    Some(html! {
            figure data-figure={ "shadow-pair-" (wait) } {
                h3 { (title) }
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
                                        @match cell(*main, *helper) {
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
                        (caption) " Below each figure: the raw round trips of a cache line \
                        between the same two cpus that it is."
                        @if some { " Of many cpus some pairs of each relation are measured." }
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
            @if let Some(ratio) = rows::round_trips(row) { small { (times(ratio)) } }
        }
    }
}
