//! Every row in a table, slopes, comparisons, and what could not run.

use indexmap::IndexMap;
use kumiki_measure::compare::{Comparison, Family, Verdict as Found};
use kumiki_measure::schema::{Results, Row, Skipped, Slope, Unit};
use maud::{Markup, html};

use crate::format::{count, fixed, growth, interval, number, params, quantity, time, times, words};
use crate::rows::{self, Part, Verdict};

/// One part's rows.
pub(crate) fn part(part: &Part<'_>) -> Markup {
    let crosses = part.cases.iter().flat_map(|(_, rows)| rows).any(|row| crosses(row));
    let columns = if crosses { 9 } else { 8 };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(part.title) {
            table.rows.crosses[crosses] {
                thead {
                    tr {
                        th scope="col" { "parameters" }
                        th.n scope="col" { "median" }
                        th scope="col" { "½ … 2 × median" }
                        th.n scope="col" { "95 % CI" }
                        th.n scope="col" { "p99" }
                        th.n scope="col" { "min" }
                        th.n scope="col" { "cpu time" }
                        @if crosses { th.n scope="col" { "round trips" } }
                        th.n scope="col" { "n" span.quiet { " (outliers)" } }
                    }
                }
                @for (case, rows) in &part.cases {
                    tbody {
                        @if let [row] = rows.as_slice() { (line(Some(case), row, crosses)) }
                        @else {
                            tr.case { th scope="rowgroup" colspan=(columns) { (case) } }
                            @for row in rows { (line(None, row, crosses)) }
                        }
                    }
                }
            }
        }
    }
}

fn crosses(row: &Row) -> bool {
    rows::round_trips(row).is_some()
}

/// A row; one that is alone in its case carries the case's name.
fn line(case: Option<&str>, row: &Row, crosses: bool) -> Markup {
    html! {
        tr.disturbed[row.disturbed] {
            th scope="row" {
                @if let Some(case) = case { code { (case) } " " }
                (params(&row.params))
                @if row.disturbed { (reasons(row)) }
            }
            td.n { b { (quantity(row.median, row.unit)) } @if row.disturbed { " ⚠" } }
            td { (bar(row)) }
            td.n { (interval(row.ci, row.unit)) }
            td.n { (quantity(row.p99, row.unit)) }
            td.n { (quantity(row.min, row.unit)) }
            td.n { (time(row.cpu_ns)) }
            @if crosses {
                td.n {
                    @if let (Some(ratio), Some(ns)) = (rows::round_trips(row), row.round_trip_ns) {
                        span title={ "cache line " (time(ns)) } { (times(ratio)) }
                    }
                }
            }
            td.n {
                (count(row.n as u64))
                @if row.outliers > 0 { span.quiet { " (" (count(row.outliers as u64)) ")" } }
            }
        }
    }
}

fn reasons(row: &Row) -> Markup {
    html! {
        small.why {
            "⚠ "
            @if row.disturbances.is_empty() { "disturbed; no reason recorded" }
            @else { (row.disturbances.join("; ")) }
        }
    }
}

/// Spread of the samples around the median: a thin line from the smallest sample to p99, the
/// interval as a band, from half the median to twice it. The numbers stand beside it, so it is
/// hidden from screen readers.
fn bar(row: &Row) -> Markup {
    let at = |value: f64| {
        let doublings = (value / row.median).log2();
        if doublings.is_nan() { 50.0 } else { (50.0 + 50.0 * doublings).clamp(0.0, 100.0) }
    };
    let span = |a: f64, b: f64, least: f64| {
        let (low, high) = (at(a.min(b)), at(a.max(b)));
        // What is narrower than a pixel still shows where it is.
        let wider = (least - (high - low)).max(0.0);
        (format!("{:.1}", low - wider / 2.0), format!("{:.1}", high - low + wider))
    };
    let (x, width) = span(row.min, row.p99, 0.5);
    let (ci_x, ci_width) = span(row.ci[0], row.ci[1], 1.5);
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.middle x="49.7" y="0" width="0.6" height="10" {}
            rect.spread x=(x) y="4" width=(width) height="2" {}
            rect.interval x=(ci_x) y="1" width=(ci_width) height="8" {}
        }
    }
}

/// All slopes.
pub(crate) fn slopes(slopes: &[&Slope]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Slopes" {
            table.slopes {
                thead {
                    tr {
                        th scope="col" { "case" }
                        th scope="col" { "grows with" }
                        th scope="col" { "parameters" }
                        th.n scope="col" { "per 4 KiB page" }
                        th.n scope="col" { "95 % CI" }
                        th.n scope="col" { "at size 0" }
                        th.n scope="col" { "R²" }
                        th.n scope="col" { "knee" }
                        th.n scope="col" { "beyond it" }
                    }
                }
                tbody {
                    @for slope in slopes {
                        tr {
                            th scope="row" { (slope.case) }
                            td { (words(&slope.param)) }
                            td { (fixed(&slope.params)) }
                            td.n { b { (growth(slope)) } }
                            td.n { (interval(slope.ci, Unit::Nanoseconds)) }
                            td.n { (time(slope.base_ns)) }
                            td.n { (number(slope.r2)) }
                            td.n { (crate::format::breaks(slope)) }
                            td.n { (slope.ns_per_page_beyond.map(time).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

/// Each row of the first result against the same row of the others.
pub(crate) fn comparison(results: &[Results], names: &[String]) -> Markup {
    let (base, others) = (&results[0], &results[1..]);
    let others: Vec<rows::Rows<'_>> = others.iter().map(rows::Rows::of).collect();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Comparison" {
            table.compared {
                thead {
                    tr {
                        th scope="col" { "parameters" }
                        th.n scope="col" { (names[0]) }
                        @for name in &names[1..] {
                            th.n scope="col" { (name) }
                            th.n scope="col" { "ratio" }
                        }
                    }
                }
                @for (case, all) in rows::by_part(base).iter().flat_map(|part| &part.cases) {
                    tbody {
                        tr.case { th scope="rowgroup" colspan=(2 * results.len()) { (case) } }
                        @for row in all {
                            tr {
                                th scope="row" {
                                    @if row.params.is_empty() { span.quiet { "–" } }
                                    @else { (params(&row.params)) }
                                }
                                td.n data-name=(names[0]) { (median(row)) }
                                @for (other, name) in others.iter().zip(&names[1..]) {
                                    (against(row, other.same(row), name))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn median(row: &Row) -> Markup {
    html! { (quantity(row.median, row.unit)) @if row.disturbed { " ⚠" } }
}

fn against(base: &Row, other: Option<&Row>, name: &str) -> Markup {
    let Some(other) = other else {
        return html! { td.n.quiet data-name=(name) { "–" } td.n.quiet { "not measured" } };
    };
    let (ratio, verdict) = rows::compare(base, other);
    let (class, word) = match verdict {
        Verdict::Same => ("same", "CIs overlap"),
        Verdict::Better => ("better", "better"),
        Verdict::Worse => ("worse", "worse"),
    };
    html! {
        td.n data-name=(name) { (median(other)) }
        td.n { span class=(class) { (times(ratio)) " " small { (word) } } }
    }
}

/// Families of rows, each result against the first: what the quiet costs say beyond doubt.
pub(crate) fn families(comparisons: &[Comparison], names: &[String]) -> Markup {
    let mut all: IndexMap<_, Vec<Option<&Family>>> = IndexMap::new();
    for (at, comparison) in comparisons.iter().enumerate() {
        for family in &comparison.families {
            let key = (&family.case, &family.params, family.unit);
            let own = all.entry(key).or_insert_with(|| vec![None; comparisons.len()]);
            own[at] = Some(family);
        }
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Families of rows" {
            table.compared {
                thead {
                    tr {
                        th scope="col" { "family" }
                        @for name in &names[1..] { th.n scope="col" { (name) " ÷ " (names[0]) } }
                    }
                }
                tbody {
                    @for ((case, own, _), found) in &all {
                        tr {
                            th scope="row" {
                                code { (case) }
                                @if !own.is_empty() { " " (params(own)) }
                            }
                            @for (family, name) in found.iter().zip(&names[1..]) {
                                td.n data-name=(name) {
                                    @match family {
                                        Some(family) => (judged(family)),
                                        None => "not measured",
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn judged(family: &Family) -> Markup {
    let (class, word) = match family.verdict {
        Found::Regression => ("worse", "worse"),
        Found::Improvement => ("better", "better"),
        Found::Same => ("same", "same"),
        Found::Unclear => ("same", "unclear"),
    };
    let why = family.doubt.as_ref().map(|doubt| doubt.why.as_str());
    html! {
        span class=(class) title=[why] {
            (times(family.ratio)) " " small { (word) }
        }
        " " span.ci { (format!("{:.2} to {:.2}", family.ci[0], family.ci[1])) }
    }
}

/// Table of cases that could not run, and why.
pub(crate) fn skipped(skipped: &[Skipped]) -> Markup {
    html! {
        dl.facts {
            @for one in Skipped::together(skipped) {
                @let which = match one.params[..] {
                    [one] => params(one),
                    ref several => format!("{} rows", several.len()),
                };
                dt { (one.case) @if !which.is_empty() { " " span.quiet { (which) } } }
                dd { (one.reason) }
            }
        }
    }
}
