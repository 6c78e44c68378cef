//! Every row in a table, slopes, comparisons, and what could not run.

use kumiki_measure::schema::{Results, Row, Skipped, Slope, Unit};
use maud::{Markup, html};

use crate::format::{bytes, count, interval, number, params, quantity, time, times, words};
use crate::rows::{self, Part, Verdict};

/// One part's rows.
pub(crate) fn part(part: &Part<'_>) -> Markup {
    let crosses = part.cases.iter().flat_map(|(_, rows)| rows).any(|row| crosses(row));
    let columns = if crosses { 9 } else { 8 };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(part.title) {
            table.rows {
                thead {
                    tr {
                        th scope="col" { "parameters" }
                        th.n scope="col" { "median" }
                        th scope="col" { span.quiet { "0 … largest" } }
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
                        tr.case { th scope="rowgroup" colspan=(columns) { (case) } }
                        @let scale = largest(rows);
                        @for row in rows { (line(row, scale, crosses)) }
                    }
                }
            }
        }
    }
}

fn crosses(row: &Row) -> bool {
    rows::round_trips(row).is_some()
}

/// The right end of a case's bars.
fn largest(rows: &[&Row]) -> f64 {
    rows.iter().map(|row| row.ci[1].max(row.median)).fold(0.0, f64::max)
}

fn line(row: &Row, scale: f64, crosses: bool) -> Markup {
    html! {
        tr.disturbed[row.disturbed] {
            th scope="row" {
                @if row.params.is_empty() { span.quiet { "–" } } @else { (params(&row.params)) }
                @if row.disturbed { (reasons(row)) }
            }
            td.n { b { (quantity(row.median, row.unit)) } @if row.disturbed { " ⚠" } }
            td { (bar(row, scale)) }
            td.n { (interval(row.ci, row.unit)) }
            td.n { (quantity(row.p99, row.unit)) }
            td.n { (quantity(row.min, row.unit)) }
            td.n { (time(row.cpu_ns)) }
            @if crosses {
                td.n {
                    @if let (Some(ratio), Some(ns)) = (rows::round_trips(row), row.round_trip_ns) {
                        (times(ratio)) " " span.quiet { (time(ns)) }
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

/// The median as a bar from zero, its interval as a darker band upon it. The
/// numbers stand beside it, so it is hidden from screen readers.
fn bar(row: &Row, scale: f64) -> Markup {
    let share = |value: f64| {
        if scale > 0.0 { (value / scale * 100.0).clamp(0.0, 100.0) } else { 0.0 }
    };
    let (low, high) = (share(row.ci[0]), share(row.ci[1]));
    // An interval narrower than a pixel still shows where it is.
    let width = (high - low).max(1.0);
    let left = low.min(100.0 - width);
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.median x="0" y="2" height="6" width=(format!("{:.2}", share(row.median))) {}
            rect.ci x=(format!("{left:.2}")) y="0" height="10" width=(format!("{width:.2}")) {}
        }
    }
}

/// All slopes.
pub(crate) fn slopes(slopes: &[Slope]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Slopes" {
            table.rows {
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
                            td { (params(&slope.params)) }
                            td.n { b { (time(slope.ns_per_page)) } }
                            td.n { (interval(slope.ci, Unit::Nanoseconds)) }
                            td.n { (time(slope.base_ns)) }
                            td.n { (number(slope.r2)) }
                            td.n { (slope.knee_bytes.map(bytes).unwrap_or_default()) }
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
    html! {
        div.scroll tabindex="0" role="region" aria-label="Comparison" {
            table.rows {
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
                                td.n { (median(row)) }
                                @for other in others { (against(row, rows::same(other, row))) }
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

fn against(base: &Row, other: Option<&Row>) -> Markup {
    let Some(other) = other else {
        return html! { td.n.quiet { "–" } td.n.quiet { "not measured" } };
    };
    let (ratio, verdict) = rows::compare(base, other);
    let (class, word) = match verdict {
        Verdict::Same => ("same", "CIs overlap"),
        Verdict::Better => ("better", "better"),
        Verdict::Worse => ("worse", "worse"),
    };
    html! {
        td.n { (median(other)) }
        td.n { span class=(class) { (times(ratio)) " " small { (word) } } }
    }
}

/// What could not run, and why.
pub(crate) fn skipped(skipped: &[Skipped]) -> Markup {
    html! {
        dl.facts {
            @for one in skipped {
                dt { (one.case) @if !one.params.is_empty() { " " span.quiet { (params(&one.params)) } } }
                dd { (one.reason) }
            }
        }
    }
}
