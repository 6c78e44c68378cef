//! A page about OS nodes: the paper's table beside a bench's figures, the stages of
//! their starts, and who has which cpus and memory.

mod owners;
mod ruler;
mod stages;

use maud::{Markup, html};

use crate::bench::Bench;
use crate::format;
use crate::frame::frame;
use owners::who_has_what;
use stages::stages;

pub use owners::{Owner, Owners};

/// The paper's Table 3 and its execution phase, ms: on Linux 3.15, a Core i7-4770 and a disk.
const PAPER: [PaperRow; 11] = [
    row("(1) read bzImage", "load.read_kernel", [83.02, 83.0, 0.0]),
    row("(2) put it into the shared region *", "load.place_kernel", [0.0, 0.60, 0.0]),
    row("(3) copy it from memory †", "load.copy_kernel", [0.0, 0.0, 1.45]),
    row("(4) read the initrd", "load.read_initramfs", [29.50, 28.90, 0.0]),
    row("(5) put it into the shared region *", "load.place_initramfs", [0.0, 0.16, 0.0]),
    row("(6) copy it from memory †", "load.copy_initramfs", [0.0, 0.0, 0.60]),
    row("(7) segments and their map", "load.plan", [33.11, 33.05, 33.10]),
    row("other", "load.other", [0.51, 0.52, 0.40]),
    row("load phase, all of it", "load", [146.14, 146.23, 35.55]),
    row("execution phase", "execute", [28.98, 28.98, 28.98]),
    row("load and execution", "load_execute", [175.12, 175.21, 64.53]),
];

const fn row(name: &'static str, case: &'static str, ms: [f64; 3]) -> PaperRow {
    PaperRow { name, case, ms }
}

/// Differences from the paper in a row.
const MARKS: &str = "* Here this is done while the node’s kernel starts and is not of the load \
                     phase. † Here it goes to where the kernel is to lie, whatever it comes from; \
                     in the paper from the shared region into a buffer, and from any buffer to its \
                     place in the execution phase.";

struct PaperRow {
    name: &'static str,
    case: &'static str,
    /// Times from disk, first, resident.
    ms: [f64; 3],
}

/// Ways to start, and what they are called.
const WAYS: [(&str, &str); 4] = [
    ("disk", "from disk"),
    ("first", "first start"),
    ("resident", "resident"),
    ("resident_elf", "resident, uncompressed"),
];

const DECODED: &str = "Nothing slows the disk down: it is a file of the machine that runs the \
                       emulator, read through that machine’s page cache. A real disk is slower.";

/// One HTML page of a bench, of a machine as it stands, or of both.
pub fn nodes_html(bench: Option<&Bench>, owners: Option<&Owners>) -> String {
    let parts = [
        owners.map(|owners| ("owners", "Who has what", who_has_what(owners))),
        bench.map(|bench| ("load", "Load phase", load(bench))),
        bench.map(|bench| ("stages", "Start to user space", stages(bench))),
        bench.map(|bench| ("rows", "All figures", bench.table())),
    ];
    let head = html! {
        header {
            h1 { "OS nodes" }
            p.quiet {
                "Stock Linux kernels side by side on one machine, each on its own cpus and memory. "
                @if let Some(bench) = bench {
                    (bench.measured_on())
                }
            }
        }
    };
    let notes =
        "Medians over all samples; none was dropped. Confidence intervals are bootstrapped.";
    frame("OS nodes", &head, parts.into_iter().flatten(), bench.map(|_| notes))
}

/// Median of a row, ms.
fn median(bench: &Bench, case: &str, subject: &str) -> Option<f64> {
    bench.row(case, subject).map(|row| row.median)
}

fn ms(value: f64) -> String {
    format::time(value * 1e6)
}

fn load(bench: &Bench) -> Markup {
    let ratio = |name: &str, case: &str, to: &str, paper: Option<f64>| {
        let both = median(bench, case, "resident").zip(median(bench, case, to));
        html! {
            @if let Some((of, to)) = both {
                tr {
                    th scope="row" { (name) }
                    @for _ in 0..4 { td {} }
                    td.n { b { (format!("{:.2}", of / to)) } }
                    td.n.quiet { @if let Some(paper) = paper { (format!("{paper:.2}")) } }
                    td {}
                }
            }
        }
    };
    // What a way has not to do takes no time, and is nothing to compare.
    let ours = |case: &str, way: &str| {
        median(bench, case, way).filter(|value| *value > 0.0).map(ms).unwrap_or_default()
    };
    let paper = |value: f64| if value > 0.0 { ms(value) } else { String::new() };
    html! {
        p {
            "The paper’s Table 3 again, with its own image format: a bzImage and an initrd, read "
            "from a disk whose cache was dropped, or copied from memory. " (DECODED) " " (MARKS)
        }
        div.scroll tabindex="0" role="region" aria-label="Load phase" {
            table {
                thead {
                    tr {
                        th scope="col" {}
                        @for (_, name) in &WAYS[..3] {
                            th.n scope="col" { (name) }
                            th.n scope="col" { "paper" }
                        }
                        th.n scope="col" { (WAYS[3].1) }
                    }
                }
                tbody {
                    @for PaperRow { name, case, ms: published } in &PAPER {
                        tr {
                            th scope="row" { (name) }
                            @for ((way, _), value) in WAYS.iter().zip(published) {
                                td.n { b { (ours(case, way)) } }
                                td.n.quiet { (paper(*value)) }
                            }
                            td.n { (ours(case, WAYS[3].0)) }
                        }
                    }
                    tr {
                        th scope="row" { "a bare copy of the same bytes" }
                        @for _ in 0..4 { td {} }
                        td.n { (ours("load", "bare")) }
                        td {} td {}
                    }
                    (ratio("load, resident ÷ from disk", "load", "disk", Some(35.55 / 146.14)))
                    (ratio("load and execution, the same", "load_execute", "disk", Some(64.53 / 175.12)))
                    (ratio("load, resident ÷ a bare copy", "load", "bare", None))
                }
            }
        }
    }
}

/// The paper's table by itself, for a page of a machine whose nodes were not measured.
pub(crate) fn published() -> Markup {
    html! {
        figure data-figure="paper-nodes-load" {
            details {
            summary { "Load phase of a node’s start (Table 3), as published" }
            div.scroll tabindex="0" role="region" aria-label="Load phase, as published" {
                table.compact {
                    thead {
                        tr {
                            th scope="col" {}
                            @for (_, name) in &WAYS[..3] { th.n scope="col" { (name) } }
                        }
                    }
                    tbody {
                        @for PaperRow { name, ms: published, .. } in &PAPER {
                            tr {
                                th scope="row" { (name.trim_end_matches([' ', '*', '†'])) }
                                @for value in published {
                                    td.n { @if *value > 0.0 { (ms(*value)) } }
                                }
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    "Nodes need a module and are not measured in this run: "
                    code { "cargo xtask bench node" } " measures them in a machine of the lab, and "
                    code { "kumiki report --nodes FILE" } " shows both side by side."
                }
            }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stages::STAGES;
    use super::*;

    fn bench() -> Bench {
        let row = |case: &str, subject: &str, median: f64| {
            serde_json::json!({ "case": case, "subject": subject, "n": 7, "unit": "ms",
                "median": median, "p99": median, "ci": [median, median], "limit": null,
                "base": null })
        };
        let mut rows = vec![
            row("load", "disk", 200.0),
            row("load", "resident", 30.0),
            row("load", "bare", 28.0),
            row("load_execute", "disk", 200.0),
            row("load_execute", "resident", 64.0),
            row("load.copy_kernel", "disk", 7.0),
        ];
        for (way, _) in WAYS {
            rows.extend(STAGES.iter().map(|(case, _)| row(case, way, 100.0)));
        }
        let machine = kumiki_measure::schema::Machine::default();
        let json = serde_json::json!({ "schema": 1, "machine": machine, "rows": rows });
        Bench::read(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_papers_rows_sum_up_to_what_it_says() {
        let of = |case: &str| PAPER.iter().find(|row| row.case == case).unwrap().ms;
        for way in 0..3 {
            let rows = PAPER[..8].iter().map(|row| row.ms[way]).sum::<f64>();
            assert!((rows - of("load")[way]).abs() < 0.011, "{rows}");
            let both = of("load")[way] + of("execute")[way];
            assert!((both - of("load_execute")[way]).abs() < 0.011, "{both}");
        }
    }

    #[test]
    fn the_papers_figures_stand_beside_ours() {
        let page = nodes_html(Some(&bench()), None);
        for text in [
            "0.15",
            "0.24",
            "0.32",
            "0.37",
            &ms(83.02),
            "(7) segments",
            "a bare copy of the same bytes",
            "node-stages",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("node-owners"));
    }
}
