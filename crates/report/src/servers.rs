//! A page about servers and async programs: what a bench measured, each question with the
//! subjects side by side.

use kumiki_measure::bench::Row;
use maud::{Markup, html};

use crate::bench::{Bench, quantity};
use crate::frame::frame;

/// Cases of `cargo xtask bench servers`: its name, the question, how to read the answer.
const CASES: [(&str, &str, &str); 8] = [
    (
        "web_mix_hot_p99",
        "Files in memory, while others are read from the disk: the slow tail",
        "A request for a file that is in memory, 99th percentile, beside requests for files that \
         are not. A server that sleeps in a read keeps all its clients waiting.",
    ),
    (
        "web_mix_cold_rate",
        "The files from the disk meanwhile, a second",
        "More is better. Read it beside the figure above: a server that reads nothing from the \
         disk keeps nobody waiting.",
    ),
    (
        "web_warm_cpu",
        "Everything in memory: the server’s processor time a request",
        "What trying first costs where nothing would have slept.",
    ),
    (
        "submit_cached",
        "One cached read by an engine",
        "A request that is made at once, beside the plain call and one that another thread makes.",
    ),
    (
        "tokio_read_at",
        "Reads of what is in memory, in tokio",
        "tokio::fs hands every read to another thread.",
    ),
    (
        "tokio_ranges",
        "20,000 ranges of one cold file, in tokio",
        "The ranges are sorted, near ones read together, and all are under way at once.",
    ),
    (
        "rocksdb_multiget_direct",
        "RocksDB: MultiGet of 64, from the disk",
        "Debian’s RocksDB reads the blocks one after the other (posix); its io_uring is compiled \
         in for this bench alone.",
    ),
    (
        "rocksdb_multiget_warm",
        "RocksDB: MultiGet of 64, in memory",
        "What a file system beneath RocksDB costs where nothing sleeps.",
    ),
];

/// The subject that is ours; its variants have a word behind a slash.
const OURS: &str = "kumiki";

/// One HTML page of a bench of servers.
pub fn servers_html(bench: &Bench) -> String {
    let cases = CASES.iter().filter_map(|&(case, question, reading)| {
        let rows: Vec<&Row> = bench.rows.iter().filter(|row| row.case == case).collect();
        (!rows.is_empty()).then(|| (case, question, side_by_side(case, reading, &rows)))
    });
    let all = ("rows", "All figures", bench.table());
    let head = html! {
        header {
            h1 { "Servers and async programs" }
            p.quiet {
                "What waits when a file is not in memory, and what trying first costs when it is. "
                (bench.measured_on())
            }
        }
    };
    let notes =
        "Medians over all samples; none was dropped. Confidence intervals are bootstrapped.";
    frame("Servers and async programs", &head, cases.chain([all]), Some(notes))
}

/// Bars of each size's subjects on one scale, and their ratio to ours.
fn side_by_side(case: &str, reading: &str, rows: &[&Row]) -> Markup {
    html! {
        figure data-figure={ "servers-" (case) } {
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

/// As long as its part of the longest one.
fn bar(row: &Row, longest: f64) -> Markup {
    let part = if longest > 0.0 { 100.0 * row.median / longest } else { 0.0 };
    let colour = if row.subject.split('/').next() == Some(OURS) { "c0" } else { "c1" };
    html! {
        svg.strip viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect class=(colour) x="0" y="0" width=(format!("{part:.3}")) height="10" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &serde_json::Value) -> String {
        let machine = kumiki_measure::schema::Machine::default();
        let json = serde_json::json!({ "schema": 1, "machine": machine, "rows": rows });
        servers_html(&Bench::read(json.to_string().as_bytes()).unwrap())
    }

    fn row(case: &str, subject: &str, n: u64, (median, unit): (f64, &str)) -> serde_json::Value {
        serde_json::json!({ "case": case, "subject": subject, "n": n, "unit": unit,
            "median": median, "p99": median, "ci": [median, median], "limit": null, "base": null })
    }

    #[test]
    fn subjects_stand_side_by_side_by_size() {
        let page = page(&serde_json::json!([
            row("tokio_read_at", "kumiki", 4096, (500.0, "ns")),
            row("tokio_read_at", "tokio_fs", 4096, (20_000.0, "ns")),
            row("tokio_read_at", "kumiki", 65_536, (4000.0, "ns")),
            row("tokio_read_at", "tokio_fs", 65_536, (24_000.0, "ns")),
            row("web_mix_cold_rate", "nginx/aio", 1, (1234.0, "1/s")),
        ]));
        for text in ["40.00", "6.00", "n = 65536", "1234/s", "nginx/aio", "servers-tokio_read_at"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("rocksdb"));
    }

    #[test]
    fn numbers_that_are_none_make_a_page() {
        let rows = serde_json::json!([row("tokio_ranges", "kumiki", 0, (0.0, "<b>"))]);
        let page = page(&rows);
        assert!(page.trim_end().ends_with("</html>") && !page.contains("<b>\""));
    }
}
