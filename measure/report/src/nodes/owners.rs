//! A picture of a machine's cpus and memory, coloured by who has them.

use maud::{Markup, html};

use super::ruler::{self, ruler};
use super::stages::swatch;
use crate::format;

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
    /// State of the node, e.g. `ready`.
    pub state: String,
    /// The host's numbers of its cpus.
    pub cpus: Vec<u32>,
    /// Its pieces of memory: address and end of each.
    pub memory: Vec<(u64, u64)>,
    /// The image that it starts from.
    pub image: Option<String>,
    /// Its devices, each with what of the host it is.
    pub devices: Vec<String>,
}

/// The colour of what is no node's.
const HOST: usize = 8;

/// Cpus as boxes and memory as a strip.
pub(super) fn who_has_what(owners: &Owners) -> Markup {
    let owner = |cpu: &u32| owners.nodes.iter().position(|node| node.cpus.contains(cpu));
    // Memory that was kept from the host's kernel is not among what that calls its own.
    let given = owners.nodes.iter().flat_map(|node| &node.memory);
    let ends = owners.memory.iter().chain(given).map(|&(_, to)| to);
    let end = ends.max().unwrap_or(0).max(1);
    let part = |at: u64| at as f64 / end as f64;
    let span = |&(from, to): &(u64, u64), colour: usize, title: &str| {
        html! {
            rect class=(format!("c{colour}")) x=(format!("{:.3}", part(from) * 100.0))
                width=(format!("{:.3}", part(to - from) * 100.0)) y="0" height="10" {
                title { (title) ": " (format!("{from:#x}-{to:#x}")) }
            }
        }
    };
    html! {
        figure data-figure="node-owners" {
            p.small.strip-name { b { "cpus" } }
            div.cpus {
                @for cpu in &owners.cpus {
                    @let owner = owner(cpu);
                    div class=(format!("c{}", owner.map_or(HOST, colour)))
                        title=(owner.map_or("host", |n| owners.nodes[n].name.as_str())) { (cpu) }
                }
            }
            p.small.strip-name { b { "memory" } ", by address; where there is a line only there is none" }
            svg.strip viewBox="0 0 100 10" preserveAspectRatio="none" role="img"
                aria-label="memory by owner" {
                // Below the others: what no memory has, such as the gap below 4 GiB.
                rect style="fill: var(--rule)" x="0" width="100" y="4.5" height="1" {
                    title { "no memory" }
                }
                @for range in &owners.memory { (span(range, HOST, "host")) }
                @for (n, node) in owners.nodes.iter().enumerate() {
                    @for range in &node.memory { (span(range, colour(n), &node.name)) }
                }
            }
            (ruler(ruler::binary(end).into_iter().map(|at| (part(at), format::bytes(at)))))
            ul.lines {
                li { (swatch(HOST)) " host, " (format::bytes(owners.host_bytes())) }
                @for (n, node) in owners.nodes.iter().enumerate() {
                    li { (swatch(colour(n))) " " (node.said()) }
                }
            }
        }
    }
}

/// The colour of a node; the ninth has the first one's again.
fn colour(node: usize) -> usize {
    node % HOST
}

impl Owners {
    /// Memory of the host's kernel that no node has.
    fn host_bytes(&self) -> u64 {
        let common = |a: &(u64, u64), b: &(u64, u64)| a.1.min(b.1).saturating_sub(a.0.max(b.0));
        let given = |range| {
            let pieces = self.nodes.iter().flat_map(|node| &node.memory);
            pieces.map(|piece| common(range, piece)).sum::<u64>()
        };
        self.memory.iter().map(|range| (range.1 - range.0).saturating_sub(given(range))).sum()
    }
}

impl Owner {
    fn said(&self) -> String {
        let bytes = self.memory.iter().map(|(from, to)| to - from).sum();
        let plural = if self.cpus.len() == 1 { "" } else { "s" };
        let (name, state, cpus) = (&self.name, &self.state, runs(&self.cpus));
        let image = self.image.iter().map(|image| format!(", image {image}"));
        let devices = self.devices.iter().map(|device| format!(", {device}"));
        let more: String = image.chain(devices).collect();
        format!("{name} ({state}), cpu{plural} {cpus}, {}{more}", format::bytes(bytes))
    }
}

/// Numbers in order, neighbours as a range: `1, 4–7`.
fn runs(numbers: &[u32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[u32]| match run {
        [first, .., last] => format!("{first}–{last}"),
        run => run.iter().map(u32::to_string).collect(),
    };
    runs.map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::nodes_html;

    fn node(name: &str, cpus: &[u32], memory: &[(u64, u64)]) -> Owner {
        Owner {
            name: name.to_owned(),
            state: "ready".to_owned(),
            cpus: cpus.to_vec(),
            memory: memory.to_vec(),
            image: Some("web".to_owned()),
            devices: vec!["net0 (n1.net0)".to_owned(), "disk0 (/a)".to_owned()],
        }
    }

    #[test]
    fn every_owner_has_a_colour_and_the_host_the_rest() {
        let owners = Owners {
            cpus: vec![0, 1, 2],
            memory: vec![(0, 1 << 30)],
            nodes: vec![node("<n1>", &[2], &[(1 << 28, 1 << 29)])],
        };
        let page = nodes_html(None, Some(&owners));
        assert!(page.contains("&lt;n1&gt; (ready), cpu 2, 256"), "{page}");
        assert!(page.contains("host, 768"));
        assert!(page.contains(", image web, net0 (n1.net0), disk0 (/a)"), "{page}");
        assert!(!page.contains("node-stages"));
    }

    #[test]
    fn memory_beside_the_hosts_own_is_not_taken_from_it() {
        let owners = Owners {
            cpus: vec![0, 1],
            memory: vec![(0, 1 << 30)],
            nodes: vec![node("n1", &[1], &[(1 << 29, 1 << 30), (1 << 31, (1 << 31) + (1 << 28))])],
        };
        assert_eq!(owners.host_bytes(), 1 << 29);
        // It has its place in the picture.
        assert!(nodes_html(None, Some(&owners)).contains("2\u{202f}GiB"));
    }

    #[test]
    fn neighbours_are_a_range() {
        assert_eq!(runs(&[7, 3, 2, 4, 9]), "2–4, 7, 9");
        assert_eq!((runs(&[]), runs(&[5])), (String::new(), "5".to_owned()));
    }
}
