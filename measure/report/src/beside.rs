//! A page of a bench whose subjects stand side by side: each case with its question, its bars and how to read them.

use kumiki_measure::bench::Row;
use maud::{Markup, html};

use crate::bench::{Bench, quantity};
use crate::frame::frame;

/// A case of a bench: its name, the question, how to read the answer.
pub(crate) type Case = (&'static str, &'static str, &'static str);

/// The subject that is ours; its variants have a word behind a slash.
const OURS: &str = "kumiki";

/// One HTML page of these benches' cases.
pub(crate) fn page(
    name: &str,
    title: &'static str,
    intro: &str,
    cases: &[Case],
    benches: &[Bench],
) -> String {
    let all = || benches.iter().flat_map(|bench| &bench.rows);
    let shown = cases.iter().filter_map(|&(case, question, reading)| {
        let rows: Vec<&Row> = all().filter(|row| row.case == case).collect();
        let figure = || side_by_side(&format!("{name}-{case}"), reading, &rows);
        (!rows.is_empty()).then(|| (case, question, figure()))
    });
    let tables = html! { @for bench in benches { (bench.table()) } };
    let head = html! {
        header {
            h1 { (title) }
            p.quiet { (intro) @for bench in benches { " " (bench.measured_on()) } }
        }
    };
    let notes =
        "Medians over all samples; none was dropped. Confidence intervals are bootstrapped.";
    let sections = shown.chain([("rows", "All figures", tables)]);
    frame(title, &head, sections, Some(notes))
}

/// Bars of each size's subjects on one scale, and their ratio to ours.
fn side_by_side(name: &str, reading: &str, rows: &[&Row]) -> Markup {
    html! {
        figure data-figure=(name) {
            @for of_size in rows.chunk_by(|a, b| a.n == b.n) { (bars(of_size)) }
            figcaption { p { (reading) } }
        }
    }
}

fn bars(rows: &[&Row]) -> Markup {
    let longest = rows.iter().map(|row| row.median).fold(0.0, f64::max);
    let ours = rows.iter().find(|row| row.subject == OURS).map(|row| row.median);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Subjects" {
            table {
                thead {
                    tr {
                        th scope="col" { "n = " (rows[0].n) } th scope="col" {}
                        th.n scope="col" { "median" } th.n scope="col" { "95 % CI" }
                        th.n scope="col" { "÷ kumiki" }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { (row.subject) }
                            td style="width: 45%" { (bar(row, longest)) }
                            td.n { b { (quantity(row.median, &row.unit)) } }
                            td.n.quiet {
                                (quantity(row.ci[0], &row.unit)) "–" (quantity(row.ci[1], &row.unit))
                            }
                            td.n {
                                @if let Some(ours) = ours { (format!("{:.2}", row.median / ours)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Bar as long as its part of the longest one.
fn bar(row: &Row, longest: f64) -> Markup {
    let part = if longest > 0.0 { 100.0 * row.median / longest } else { 0.0 };
    let colour = if row.subject.split('/').next() == Some(OURS) { "c0" } else { "c1" };
    html! {
        svg.strip viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect class=(colour) x="0" y="0" width=(format!("{part:.3}")) height="10" {}
        }
    }
}
