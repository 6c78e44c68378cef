//! A page about places: what a call costs on its core, to another core, kernel and machine, beside what an engineer
//! would take instead.

use crate::bench::Bench;
use crate::beside::{Case, page};

/// Cases of `cargo xtask bench resource`, `node` and `servers`, from near to far.
const CASES: [Case; 16] = [
    (
        "local_call",
        "A call of what the calling core owns",
        "No lock and no atomic operation, beside a map under a mutex that nobody else wants, and the \
         handler itself.",
    ),
    (
        "lookup",
        "A name looked up by the core that owns it",
        "Among a thousand, beside a map under a mutex that nobody else wants.",
    ),
    (
        "core_each",
        "Operations on what another core owns, handed over together",
        "Each of n. One request a place takes all of them along; bare is two threads with nothing else to do.",
    ),
    (
        "line_call",
        "A call by a line in memory that both sides see",
        "A place of the other cpu, called as one of another kernel is, beside a cache line that goes there and \
         back (raw): what checking the other side, finding the resource and its program part cost.",
    ),
    (
        "control_home",
        "A call by the interface control of all places: the caller's core",
        "A program part that was bound once, beside a closure at the interface of that core.",
    ),
    (
        "control_core",
        "A call by the interface control of all places: the other core",
        "The same where the other cpu's thread owns the resource.",
    ),
    (
        "control_process",
        "A call by the interface control of all places: another process",
        "The same by lines of a memory that both map, beside a cache line that goes there and back (raw).",
    ),
    (
        "node_call",
        "A call from a host to a place in its OS node",
        "The same through the window between two kernels, beside a bare line of the same two cpus. Where the \
         cpus are emulated each instruction of the call takes several times its time, and the line does not.",
    ),
    (
        "place_call",
        "A call to another machine’s place",
        "It runs once, or its caller gets the error that nobody knows; beside NATS’ own request and reply of as many \
         bytes, which may be lost or run twice.",
    ),
    (
        "place_batch",
        "A batch to another machine’s place, each",
        "One message there and one back, beside as many requests under way at once.",
    ),
    (
        "kv_get",
        "A key-value server whose cores own their keys: GET, a second",
        "More is better. Each store on one cpu, two threads with 16 clients each on the other one; n is how many \
         commands a client sends without waiting.",
    ),
    (
        "kv_get_p99",
        "How long a GET takes: the slow tail",
        "The 99th percentile, at 50,000 commands a second one by one, and at 400,000 in batches of 16.",
    ),
    (
        "kv_get_cpu",
        "The server’s processor time for a GET",
        "Where the clients’ cpu is the slower one, this still tells the stores apart.",
    ),
    ("kv_set", "SET, a second", "More is better. The values are of 32 bytes."),
    ("kv_set_p99", "How long a SET takes: the slow tail", "As above."),
    ("kv_set_cpu", "The server’s processor time for a SET", "As above."),
];

/// One HTML page of benches of places: one file or several, of which each has some of the cases.
pub fn places_html(benches: &[Bench]) -> String {
    let intro = "The same call reaches what the own core has, another core, another kernel and another machine.";
    page("places", "Places", intro, &CASES, benches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(rows: &[(&str, &str, u64, f64)]) -> Bench {
        let machine = kumiki_measure::schema::Machine::default();
        let row = |&(case, subject, n, median): &(&str, &str, u64, f64)| {
            serde_json::json!({ "case": case, "subject": subject, "n": n, "unit": "ns",
                "median": median, "p99": median, "ci": [median, median], "limit": null, "base": null })
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let json = serde_json::json!({ "schema": 1, "machine": machine, "rows": rows });
        Bench::read(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn cases_of_several_files_stand_from_near_to_far() {
        let of_node = bench(&[("node_call", "raw", 1, 100.0), ("node_call", "kumiki", 1, 400.0)]);
        let of_resource = bench(&[
            ("core_each", "kumiki", 16, 8.0),
            ("core_each", "crossbeam_channel", 16, 40.0),
            ("core_each", "kumiki", 256, 5.0),
            ("local_call", "kumiki", 1, 6.0),
            ("alloc_4k", "kumiki", 1, 10.0),
        ]);
        let page = places_html(&[of_node, of_resource]);
        for text in ["0.25", "5.00", "n = 256", "places-node_call", "alloc_4k"] {
            assert!(page.contains(text), "{text}");
        }
        let at = |case: &str| page.find(&format!("places-{case}")).unwrap();
        assert!(at("local_call") < at("core_each") && at("core_each") < at("node_call"));
        assert!(!page.contains("places-alloc_4k") && !page.contains("places-kv_get"));
        assert!(page.trim_end().ends_with("</html>"));
    }
}
