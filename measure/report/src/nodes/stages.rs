//! How long each stage of a start took: bars on one scale, and the figures below.

use maud::{Markup, html};

use super::ruler::{self, ruler};
use super::{WAYS, median, ms};
use crate::bench::Bench;

/// Stages of a start.
pub(super) const STAGES: [(&str, &str); 6] = [
    ("start.load", "load"),
    ("start.trampoline", "INIT, SIPI, trampoline"),
    ("start.early", "decompression, first steps"),
    ("start.kernel", "kernel"),
    ("start.init", "first process"),
    ("start.agent", "agent"),
];

/// Bars of the stages, one for each way, and a table of the same colours.
pub(super) fn stages(bench: &Bench) -> Markup {
    let of = |way: &str| STAGES.map(|(case, _)| median(bench, case, way).unwrap_or(0.0));
    let ways: Vec<_> = WAYS.iter().map(|(way, name)| (*name, of(way))).collect();
    let whole = |parts: &[f64]| parts.iter().sum::<f64>();
    let longest = ways.iter().map(|(_, parts)| whole(parts)).fold(0.0, f64::max);
    html! {
        figure data-figure="node-stages" {
            @for (name, parts) in &ways {
                p.small.strip-name { b { (name) } ", " (ms(whole(parts))) }
                svg.strip viewBox="0 0 100 10" preserveAspectRatio="none" role="img"
                    aria-label=(format!("stages, {name}")) {
                    @for (n, (from, to)) in edges(parts, longest).into_iter().enumerate() {
                        rect class=(format!("c{n}")) x=(format!("{from:.3}"))
                            width=(format!("{:.3}", to - from)) y="0" height="10" {
                            title { (STAGES[n].1) ": " (ms(parts[n])) }
                        }
                    }
                }
            }
            (ruler(ruler::decimal(longest).into_iter().map(|at| (at / longest, mark(at)))))
            div.scroll tabindex="0" role="region" aria-label="Stages" {
                table {
                    thead {
                        tr {
                            th scope="col" { "stage" }
                            @for (name, _) in &ways { th.n scope="col" { (name) } }
                        }
                    }
                    tbody {
                        @for (n, (_, stage)) in STAGES.iter().enumerate() {
                            tr {
                                th scope="row" { (swatch(n)) " " (stage) }
                                @for (_, parts) in &ways { td.n { (ms(parts[n])) } }
                            }
                        }
                        tr {
                            th scope="row" { "sum" }
                            @for (_, parts) in &ways { td.n { b { (ms(whole(parts))) } } }
                        }
                    }
                }
            }
            figcaption {
                p {
                    "From the request to the node’s agent, which answers then. Medians of the "
                    "stages, so that their sum is near the median of the whole and not it."
                }
            }
        }
    }
}

/// Text at a mark of the scale.
fn mark(at: f64) -> String {
    if at == 0.0 { "0".to_owned() } else { ms(at) }
}

/// A patch of a colour.
pub(super) fn swatch(n: usize) -> Markup {
    html! {
        svg class=(format!("swatch c{n}")) width="10" height="10" aria-hidden="true" {
            rect width="10" height="10" style="fill: var(--c)" {}
        }
    }
}

/// Beginning and end of each part, in per cent of the longest bar.
fn edges(parts: &[f64], longest: f64) -> Vec<(f64, f64)> {
    let mut at = 0.0;
    let scale = if longest > 0.0 { 100.0 / longest } else { 0.0 };
    let edge = |part: &f64| {
        let from = at;
        at += part * scale;
        (from, at)
    };
    parts.iter().map(edge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_share_one_scale() {
        assert_eq!(edges(&[1.0, 3.0], 8.0), [(0.0, 12.5), (12.5, 50.0)]);
        assert_eq!(edges(&[0.0], 0.0), [(0.0, 0.0)]);
    }
}
