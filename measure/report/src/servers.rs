//! A page about servers and async programs: what a bench measured, each question with the
//! subjects side by side.

use crate::bench::Bench;
use crate::beside::{Case, page};

/// Cases of `cargo xtask bench servers`.
const CASES: [Case; 8] = [
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

/// One HTML page of a bench of servers.
pub fn servers_html(bench: &Bench) -> String {
    let intro = "What waits when a file is not in memory, and what trying first costs when it is.";
    page("servers", "Servers and async programs", intro, &CASES, std::slice::from_ref(bench))
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
