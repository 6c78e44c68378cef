//! Programs started by parents of some sizes, in several ways.

use std::collections::BTreeMap;

use kumiki_measure::schema::{Results, Row};
use maud::{Markup, html};

use crate::format::{bytes, interval, quantity, times};
use crate::paper::mark;
use crate::rows::{self, find};

/// Ours first.
const WAYS: [&str; 6] =
    ["kumiki", "kumiki/server", "posix_spawn", "command", "vfork_exec", "fork_exec"];
const TITLE: &str = "a program started, by the parent's memory";

pub(super) fn table(results: &Results) -> Option<Markup> {
    let of = |way: &str| -> BTreeMap<u64, &Row> {
        find(results, "resource.spawn", &[("way", way.into())])
            .filter_map(|row| Some((rows::number(&row.params, "anon_bytes")?, row)))
            .collect()
    };
    let ways: Vec<_> = WAYS.map(|way| (way, of(way))).into();
    let (_, ours) = ways.first()?;
    if ours.is_empty() {
        return None;
    }
    Some(html! {
        figure data-figure="resource-spawn" {
            h4 { (TITLE) }
            div.scroll tabindex="0" role="region" aria-label=(TITLE) {
                table.matrix.wraps {
                    thead {
                        tr {
                            th scope="col" { "way" }
                            @for &size in ours.keys() { th.n scope="col" { (bytes(size)) } }
                        }
                    }
                    tbody {
                        @for (way, rows) in ways.iter().filter(|(_, rows)| !rows.is_empty()) {
                            tr {
                                th scope="row" { (way) }
                                @for size in ours.keys() { (cell(rows.get(size), ours[size])) }
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    "The smallest program started and waited for by a process with so much \
                     resident memory in ordinary pages: by the calling thread itself (kumiki), \
                     by a spawn server, and beside each other way how often that much time it \
                     takes."
                }
            }
        }
    })
}

fn cell(row: Option<&&Row>, ours: &Row) -> Markup {
    let Some(row) = row else { return html! { td.n.quiet { "–" } } };
    html! {
        td.n title={ "95 % CI " (interval(row.ci, row.unit)) } {
            b { (quantity(row.median, row.unit)) } (mark(row))
            @if !std::ptr::eq(*row, ours) { " " (times(row.median / ours.median)) }
        }
    }
}
