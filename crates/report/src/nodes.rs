//! A page about OS nodes: the paper's table beside a bench's figures, the stages of
//! their starts, and who has which cpus and memory.

use kumiki_measure::schema::Machine;
use maud::{Markup, html};
use serde::Deserialize;

use crate::format;
use crate::page::frame;

/// What `cargo xtask bench node` has written.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeBench {
    /// The machine in which nodes were started.
    pub machine: Machine,
    rows: Vec<BenchRow>,
}

#[derive(Clone, Debug, Deserialize)]
struct BenchRow {
    case: String,
    subject: String,
    n: u64,
    median: f64,
    p99: f64,
    ci: [f64; 2],
    base: Option<f64>,
    #[serde(default)]
    failed: u64,
}

/// A machine's cpus and memory, and which nodes have some of them.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// Every cpu of the machine.
    pub cpus: Vec<u32>,
    /// Its memory: address and end of each range.
    pub memory: Vec<(u64, u64)>,
    /// Its nodes.
    pub nodes: Vec<Owner>,
}

/// A node as an owner.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Where it stands, e.g. `ready`.
    pub state: String,
    /// The host's numbers of its cpus.
    pub cpus: Vec<u32>,
    /// Its pieces of memory: address and end of each.
    pub memory: Vec<(u64, u64)>,
}

/// The paper's Table 3, ms: on Linux 3.15, a Core i7-4770 and a disk.
const PAPER: [PaperRow; 4] = [
    PaperRow { name: "read bzImage and initrd", case: "load.read", ms: [112.52, 111.9, 0.0] },
    PaperRow { name: "put them into the shared region", case: "load.place", ms: [0.0, 0.76, 0.0] },
    PaperRow {
        name: "copy them, segments and the rest",
        case: "load.copy",
        ms: [33.62, 33.57, 35.55],
    },
    PaperRow { name: "load phase, all of it", case: "load", ms: [146.14, 146.23, 35.55] },
];

struct PaperRow {
    name: &'static str,
    case: &'static str,
    /// From disk, first, resident.
    ms: [f64; 3],
}

/// Ways to start, and what they are called.
const WAYS: [(&str, &str); 4] = [
    ("disk", "from disk"),
    ("first", "first start"),
    ("resident", "resident"),
    ("resident_elf", "resident, uncompressed"),
];

/// Stages of a start.
const STAGES: [(&str, &str); 6] = [
    ("start.load", "load"),
    ("start.trampoline", "INIT, SIPI, trampoline"),
    ("start.early", "decompression, first steps"),
    ("start.kernel", "kernel"),
    ("start.init", "first process"),
    ("start.agent", "agent"),
];

const DECODED: &str = "Nothing slows the disk down: it is a file of the machine that runs the \
                       emulator, read through that machine’s page cache. A real disk is slower.";

/// One HTML page of a bench, of a machine as it stands, or of both.
pub fn nodes_html(bench: Option<&NodeBench>, owners: Option<&Owners>) -> String {
    let parts = [
        owners.map(|owners| ("owners", "Who has what", who_has_what(owners))),
        bench.map(|bench| ("load", "Load phase", load(bench))),
        bench.map(|bench| ("stages", "Start to user space", stages(bench))),
        bench.map(|bench| ("rows", "All figures", all(bench))),
    ];
    let head = html! {
        header {
            h1 { "OS nodes" }
            p.quiet {
                "Stock Linux kernels side by side on one machine, each on its own cpus and memory. "
                @if let Some(bench) = bench {
                    "Measured on " (bench.machine.hostname) ", Linux " (bench.machine.kernel) ", "
                    (bench.machine.cpus) " cpus."
                }
            }
        }
    };
    frame("OS nodes", &head, parts.into_iter().flatten())
}

impl NodeBench {
    fn row(&self, case: &str, subject: &str) -> Option<&BenchRow> {
        self.rows.iter().find(|row| row.case == case && row.subject == subject)
    }

    fn ms(&self, case: &str, subject: &str) -> Option<f64> {
        self.row(case, subject).map(|row| row.median)
    }
}

fn ms(value: f64) -> String {
    format::time(value * 1e6)
}

fn load(bench: &NodeBench) -> Markup {
    let ratio = |of: f64, to: f64| format!("{:.2}", of / to);
    // What a way has not to do takes no time, and is nothing to compare.
    let ours = |case: &str, way: &str| {
        bench.ms(case, way).filter(|value| *value > 0.0).map(ms).unwrap_or_default()
    };
    let paper = |value: f64| if value > 0.0 { ms(value) } else { String::new() };
    let resident = bench.ms("load", "resident").zip(bench.ms("load", "disk"));
    html! {
        p {
            "The paper’s Table 3 again, with its own image format: a bzImage and an initrd, read "
            "from a disk whose cache was dropped, or copied from memory. " (DECODED)
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
                    @if let Some((resident, disk)) = resident {
                        tr {
                            th scope="row" { "resident ÷ from disk" }
                            @for _ in 0..4 { td {} }
                            td.n { b { (ratio(resident, disk)) } }
                            td.n.quiet { (ratio(35.55, 146.14)) }
                            td {}
                        }
                    }
                }
            }
        }
    }
}

/// Bars of the stages, one for each way, on one scale.
fn stages(bench: &NodeBench) -> Markup {
    let of = |way: &str| STAGES.map(|(case, _)| bench.ms(case, way).unwrap_or(0.0));
    let longest = WAYS.iter().map(|(way, _)| of(way).iter().sum()).fold(0.0, f64::max);
    html! {
        figure data-figure="node-stages" {
            @for (way, name) in WAYS {
                @let parts = of(way);
                p.small style="margin: .7rem 0 .15rem" {
                    b { (name) } ", " (ms(parts.iter().sum()))
                    @for ((_, stage), part) in STAGES.iter().zip(parts) {
                        " · " (stage) " " (ms(part))
                    }
                }
                svg style="width: 100%; height: 1.5rem; display: block" viewBox="0 0 100 10"
                    preserveAspectRatio="none" role="img" aria-label=(format!("stages, {name}")) {
                    @for (n, (from, to)) in edges(&parts, longest).into_iter().enumerate() {
                        rect class=(format!("c{n}")) style="fill: var(--c)"
                            x=(format!("{from:.3}")) width=(format!("{:.3}", to - from)) y="0" height="10" {
                            title { (STAGES[n].1) ": " (ms(parts[n])) }
                        }
                    }
                }
            }
            (legend(STAGES.iter().enumerate().map(|(n, (_, name))| (n, (*name).to_owned()))))
            figcaption {
                p {
                    "From the request to the node’s agent, which answers then. Medians of the "
                    "stages, so that their sum is near the median of the whole and not it."
                }
            }
        }
    }
}

/// Where each part begins and ends, in per cent of the longest bar.
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

fn legend(names: impl Iterator<Item = (usize, String)>) -> Markup {
    html! {
        ul.lines {
            @for (n, name) in names {
                li {
                    svg class=(format!("swatch c{n}")) width="10" height="10" aria-hidden="true" {
                        rect width="10" height="10" style="fill: var(--c)" {}
                    }
                    " " (name)
                }
            }
        }
    }
}

/// Cpus as boxes and memory as a strip, coloured by owner. The host is the first colour.
fn who_has_what(owners: &Owners) -> Markup {
    let colour = |at: Option<usize>| at.map_or(8, |n| n % 8);
    let cpu_owner = |cpu: &u32| owners.nodes.iter().position(|node| node.cpus.contains(cpu));
    let bytes: u64 = owners.memory.iter().map(|(from, to)| to - from).sum();
    let end = owners.memory.iter().map(|(_, to)| *to).max().unwrap_or(1) as f64;
    let span = |from: u64, to: u64, class: usize, title: &str| {
        html! {
            rect class=(format!("c{class}")) style="fill: var(--c)"
                x=(format!("{:.3}", from as f64 / end * 100.0))
                width=(format!("{:.3}", (to - from) as f64 / end * 100.0)) y="0" height="10" {
                title { (title) ": " (format!("{from:#x}-{to:#x}")) }
            }
        }
    };
    let size = |node: &Owner| node.memory.iter().map(|(from, to)| to - from).sum();
    let given: u64 = owners.nodes.iter().map(size).sum();
    html! {
        figure data-figure="node-owners" {
            p.small style="margin: .4rem 0" { b { "cpus" } }
            div style="display: flex; flex-wrap: wrap; gap: 4px" {
                @for cpu in &owners.cpus {
                    @let owner = cpu_owner(cpu);
                    div class=(format!("c{}", colour(owner)))
                        title=(owner.map_or("host", |n| owners.nodes[n].name.as_str()))
                        style="background: var(--c); color: var(--ground); border-radius: 3px; \
                               min-width: 2rem; text-align: center; padding: .25rem .3rem; \
                               font-size: .8rem" { (cpu) }
                }
            }
            p.small style="margin: .8rem 0 .2rem" {
                b { "memory" } ", by address; where there is a line only there is none"
            }
            svg style="width: 100%; height: 1.8rem; display: block" viewBox="0 0 100 10"
                preserveAspectRatio="none" role="img" aria-label="memory by owner" {
                // Below the others: what no memory has, such as the gap below 4 GiB.
                rect style="fill: var(--rule)" x="0" width="100" y="4.5" height="1" {
                    title { "no memory" }
                }
                @for &(from, to) in &owners.memory { (span(from, to, 8, "host")) }
                @for (n, node) in owners.nodes.iter().enumerate() {
                    @for &(from, to) in &node.memory { (span(from, to, colour(Some(n)), &node.name)) }
                }
            }
            p.small.quiet style="display: flex; justify-content: space-between; margin: .1rem 0" {
                @for quarter in 0..=4 { span { (format::bytes(end as u64 / 4 * quarter)) } }
            }
            (legend([(8, format!("host, {}", format::bytes(bytes.saturating_sub(given))))].into_iter()
                .chain(owners.nodes.iter().enumerate().map(|(n, node)| {
                    let cpus: Vec<_> = node.cpus.iter().map(u32::to_string).collect();
                    let title = format!("{} ({}), cpu{} {}, {}", node.name, node.state,
                        if cpus.len() == 1 { "" } else { "s" }, cpus.join(", "),
                        format::bytes(size(node)));
                    (colour(Some(n)), title)
                }))))
        }
    }
}

fn all(bench: &NodeBench) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="All figures" {
            table {
                thead {
                    tr {
                        th scope="col" { "case" } th scope="col" { "subject" }
                        th.n scope="col" { "median" } th.n scope="col" { "95 % CI" }
                        th.n scope="col" { "p99" } th.n scope="col" { "÷ base" }
                        th.n scope="col" { "n" } th.n scope="col" { "failed" }
                    }
                }
                tbody {
                    @for row in &bench.rows {
                        tr {
                            th scope="row" { code { (row.case) } }
                            td { (row.subject) }
                            td.n { b { (ms(row.median)) } }
                            td.n.quiet { (ms(row.ci[0])) "–" (ms(row.ci[1])) }
                            td.n { (ms(row.p99)) }
                            td.n { @if let Some(base) = row.base { (format!("{:.2}", row.median / base)) } }
                            td.n { (row.n) }
                            td.n { @if row.failed > 0 { (row.failed) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> NodeBench {
        let row = |case: &str, subject: &str, median: f64| {
            serde_json::json!({ "case": case, "subject": subject, "n": 7, "unit": "ms",
                "median": median, "p99": median, "ci": [median, median], "limit": null,
                "base": null })
        };
        let mut rows = vec![
            row("load", "disk", 200.0),
            row("load", "resident", 30.0),
            row("load", "bare", 28.0),
        ];
        for (way, _) in WAYS {
            rows.extend(STAGES.iter().map(|(case, _)| row(case, way, 100.0)));
        }
        let json = serde_json::json!({ "machine": Machine::default(), "rows": rows });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_papers_figures_stand_beside_ours() {
        let page = nodes_html(Some(&bench()), None);
        for text in ["0.15", "0.24", "a bare copy of the same bytes", "node-stages"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("node-owners"));
    }

    #[test]
    fn every_owner_has_a_colour_and_the_host_the_rest() {
        let owners = Owners {
            cpus: vec![0, 1, 2],
            memory: vec![(0, 1 << 30)],
            nodes: vec![Owner {
                name: "<n1>".to_owned(),
                state: "ready".to_owned(),
                cpus: vec![2],
                memory: vec![(1 << 28, 1 << 29)],
            }],
        };
        let page = nodes_html(None, Some(&owners));
        assert!(page.contains("&lt;n1&gt; (ready), cpu 2, 256"), "{page}");
        assert!(page.contains("host, 768"));
        assert!(!page.contains("node-stages"));
    }

    #[test]
    fn bars_share_one_scale() {
        assert_eq!(edges(&[1.0, 3.0], 8.0), [(0.0, 12.5), (12.5, 50.0)]);
        assert_eq!(edges(&[0.0], 0.0), [(0.0, 0.0)]);
    }
}
