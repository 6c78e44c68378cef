//! Tables in which a paper's figures stand beside the machine's.

use kumiki_measure::schema::{Results, Row};
use maud::{Markup, html};

use crate::format::{self, interval, quantity, time, times};
use crate::rows::{self, find};

/// Rows of one case by one parameter, each beside the raw round trip, with how
/// often it was made, and beside what a paper gives.
pub(crate) struct Table<'a> {
    pub(crate) case: &'a str,
    pub(crate) param: &'a str,
    /// Heading of the paper's column.
    pub(crate) paper: &'a str,
    /// The paper's nanoseconds by the parameter's value.
    pub(crate) published: &'a [(&'a str, f64)],
    /// True if the paper counts ticks of the time stamp counter: then these stand beside.
    pub(crate) ticks: bool,
    /// Values with a star, which the caption explains.
    pub(crate) marked: &'a [&'a str],
    pub(crate) title: &'a str,
    pub(crate) caption: &'a str,
}

impl Table<'_> {
    /// A result's part of it.
    pub(crate) fn of(&self, results: &Results) -> Option<Markup> {
        let Table { case, param, paper, published, ticks, marked, title, caption } = *self;
        let rows: Vec<&Row> = find(results, case, &[]).collect();
        if rows.is_empty() {
            return None;
        }
        let raw = raw(&rows);
        let scale = Scale::of(&rows, raw);
        let hertz = results.machine.tsc_hz.filter(|_| ticks);
        let counted = |ns: f64, hertz: f64| format::count((ns * hertz / 1e9).round() as u64);
        let name = |row: &Row| {
            let Some(value) = row.params.get(param) else { return String::new() };
            let star = if marked.contains(&value.to_string().as_str()) { " *" } else { "" };
            format::value(param, value) + star
        };
        let published = |row: &Row| {
            let value = row.params.get(param)?.to_string();
            published.iter().find(|(of, _)| *of == value).map(|(_, ns)| time(*ns))
        };
        Some(html! {
            figure data-figure=(case.replace('.', "-")) {
                h4 { (title) }
                div.scroll tabindex="0" role="region" aria-label=(title) {
                    table.compact {
                        thead {
                            tr {
                                th scope="col" { (format::words(param)) }
                                th.n scope="col" { "median" }
                                @if hertz.is_some() { th.n scope="col" { "ticks" } }
                                th scope="col" { "95 % CI, log scale" }
                                th.n scope="col" { "round trips" }
                                th.n scope="col" { "made" }
                                th.n scope="col" { (paper) }
                            }
                        }
                        tbody {
                            @if let Some(raw) = raw {
                                tr.quiet {
                                    th scope="row" { "a cache line, there and back" }
                                    td.n { (time(raw)) }
                                    @if let Some(hertz) = hertz { td.n { (counted(raw, hertz)) } }
                                    td { (scale.bar(raw, [raw, raw])) }
                                    td.n { (times(1.0)) }
                                    td {}
                                    td {}
                                }
                            }
                            @for row in &rows {
                                tr.disturbed[row.disturbed] {
                                    th scope="row" { (name(row)) }
                                    td.n title=(interval(row.ci, row.unit)) { b { (quantity(row.median, row.unit)) } (mark(row)) }
                                    @if let Some(hertz) = hertz { td.n { (counted(row.median, hertz)) } }
                                    td { (scale.bar(row.median, row.ci)) }
                                    td.n { (rows::round_trips(row).map(times).unwrap_or_default()) }
                                    td.n { (format::count(row.operations())) }
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
}

/// ⚠ where a row was disturbed, with the reasons to be read on it.
pub(crate) fn mark(row: &Row) -> Markup {
    html! { @if row.disturbed { " " span title=(row.disturbances.join("; ")) { "⚠" } } }
}

/// The raw round trip beside these rows: the median of theirs.
fn raw(rows: &[&Row]) -> Option<f64> {
    let mut all: Vec<f64> = rows.iter().filter_map(|row| row.round_trip_ns).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().filter(|ns| *ns > 0.0)
}

/// A logarithmic scale for the bars of one table.
pub(crate) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    pub(crate) fn of(rows: &[&Row], raw: Option<f64>) -> Self {
        let ends = rows.iter().flat_map(|row| row.ci).chain(raw).filter(|ns| *ns > 0.0);
        let (low, high) =
            ends.fold((f64::INFINITY, 0.0_f64), |(low, high), ns| (low.min(ns), high.max(ns)));
        Scale { low: low.ln() - 0.5, high: high.ln() }
    }

    /// 0 to 100.
    pub(crate) fn at(&self, ns: f64) -> f64 {
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
