//! A result that another party wrote, of this machine or of its nodes, all the way through: for
//! the fuzzer and its twin among the tests.

use std::path::Path;

use kumiki_measure::file::parse;
use kumiki_measure::schema::Results;
use kumiki_sys::visible::is_shown;

use crate::{Bench, export, html, nodes_html, places_html, servers_html};

/// Reads any bytes as a result and writes what was read in every form.
///
/// # Panics
///
/// If what was written could control a terminal, is no JSON of the same result, or has
/// not a line of CSV a row.
pub fn result(bytes: &[u8]) {
    let Ok(results) = parse(bytes, Path::new("made up")) else { return };
    let mut json = Vec::new();
    export::json(&results, &mut json).expect("memory takes it");
    let again: Results = serde_json::from_slice(&json).expect("JSON of a result");
    assert_eq!(again, results, "what was written reads back");
    let mut csv = Vec::new();
    export::csv(&results, &mut csv).expect("memory takes it");
    let csv = String::from_utf8(csv).expect("text");
    let markdown = export::markdown(&results);
    for text in [std::str::from_utf8(&json).expect("text"), &csv, &markdown] {
        let hidden = text.chars().find(|c| *c != '\n' && !is_shown(*c));
        assert_eq!(hidden, None, "{text:?}");
    }
    assert_eq!(csv.lines().count(), results.rows.len() + 1, "a line a row: {csv}");
    let page = html(std::slice::from_ref(&results));
    assert!(page.ends_with("</html>") || page.ends_with("</html>\n"), "a whole page");
}

/// Reads any bytes as a bench and makes the pages of nodes, of servers and of places.
///
/// # Panics
/// If the page is cut, or has something that a terminal would carry out.
pub fn nodes(bytes: &[u8]) {
    let Ok(bench) = Bench::read(bytes) else { return };
    let places = places_html(std::slice::from_ref(&bench));
    for page in [nodes_html(Some(&bench), None), servers_html(&bench), places] {
        assert!(page.trim_end().ends_with("</html>"), "a whole page");
        let hidden = page.chars().find(|c| *c != '\n' && !is_shown(*c));
        assert_eq!(hidden, None);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A small result with a place for each kind of foreign text and number.
    fn written(text: &str, number: f64, size: u64) -> serde_json::Value {
        let visit = serde_json::json!({
            "batch": size, "overhead_ns": 0, "samples": [1, number.abs(), 2],
            "cpu": { "user_ns": number, "system_ns": 0, "children_ns": 0 },
            "round_trip_before_ns": number.abs(), "round_trip_after_ns": null,
            "activity": { "wall_ns": number.abs() }, "disturbances": [text],
        });
        let row = |case: &str, size: u64| {
            serde_json::json!({
                "case": case, "unit": "ns", "cpus": [0, 1], "visits": [visit],
                "params": { "data_bytes": size, "touch": text, "bss_bytes": 0 },
            })
        };
        serde_json::json!({
            "schema": 1,
            "run": { "label": text, "started": "2026-11-25T01:02:03Z", "command": text,
                "others": [{ "name": text, "cpu_seconds": number.abs(), "cpus": [0] }] },
            "machine": { "hostname": text, "cpu_model": text, "mitigations": [text] },
            "rows": [row("process.fork", 0), row("process.fork", size),
                row("process.fork", size / 2 + 1), row(&format!("x{text}"), 1)],
            "skipped": [{ "case": text, "params": {}, "reason": text }],
        })
    }

    #[test]
    fn a_drawn_result_is_a_result() {
        let bytes = written("=a\u{1b}[2J\n", 3.5, 4096).to_string();
        parse(bytes.as_bytes(), Path::new("x")).unwrap();
        result(bytes.as_bytes());
    }

    /// A bench of nodes with foreign text and numbers.
    fn of_nodes(text: &str, numbers: [f64; 3], n: u64) -> serde_json::Value {
        let row = |case: &str, subject: &str, median: f64| {
            serde_json::json!({
                "case": case, "subject": subject, "n": n, "unit": "ms", "median": median,
                "p99": numbers[1], "ci": [numbers[2], median], "limit": null, "base": numbers[1],
            })
        };
        serde_json::json!({
            "schema": 1,
            "machine": { "hostname": text, "kernel": text, "cpus": n },
            "rows": [row("load", "resident", numbers[0]), row("load", "disk", numbers[1]),
                row("start.kernel", "disk", numbers[2]), row("submit_cached", "kumiki", numbers[1]),
                row("core_each", "kumiki", numbers[0]), row(text, text, numbers[0])],
        })
    }

    #[test]
    fn a_drawn_bench_of_nodes_is_a_bench() {
        let bytes = of_nodes("<b>\u{1b}[2J\n", [3.5, 1e-320, 1e300], 4).to_string();
        Bench::read(bytes.as_bytes()).unwrap();
        nodes(bytes.as_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bench_of_nodes_has_a_page(
            text in any::<String>(), numbers in any::<[f64; 3]>(), n in any::<u64>(),
        ) {
            nodes(of_nodes(&text, numbers, n).to_string().as_bytes());
        }

        #[test]
        fn any_text_and_number_is_written_in_every_form(
            text in any::<String>(), number in any::<f64>(), size in any::<u64>(),
        ) {
            result(written(&text, number, size).to_string().as_bytes());
        }

        #[test]
        fn any_damage_is_read_or_refused(
            at in any::<prop::sample::Index>(), with in any::<Vec<u8>>(), cut in 0..20_usize,
        ) {
            let mut bytes = written("word", 3.5, 4096).to_string().into_bytes();
            let at = at.index(bytes.len());
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, with);
            result(&bytes);
        }
    }
}
