//! Circles of a graph.

use std::collections::{BTreeMap, BTreeSet};

/// The sets of nodes each of which leads to every other of its set, of two nodes at
/// least.
pub(super) fn circles<'a>(
    graph: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> BTreeSet<BTreeSet<&'a str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|from| (*from, reached(graph, from))).collect();
    let leads = |from: &str, to: &str| reach.get(from).is_some_and(|there| there.contains(to));
    let mut circles = BTreeSet::new();
    for (node, there) in &reach {
        let circle: BTreeSet<&str> =
            there.iter().copied().filter(|other| other == node || leads(other, node)).collect();
        if circle.len() > 1 && circle.contains(node) {
            circles.insert(circle);
        }
    }
    circles
}

/// Every node to which a way leads from `from`.
fn reached<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(node) = open.pop() {
        for next in graph.get(node).into_iter().flatten() {
            if reached.insert(*next) {
                open.push(*next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(&'static str, &'static str)]) -> Vec<Vec<&'static str>> {
        let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry(from).or_default().insert(to);
        }
        circles(&graph).into_iter().map(|circle| circle.into_iter().collect()).collect()
    }

    #[test]
    fn an_order_has_no_circle() {
        assert!(found(&[("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")]).is_empty());
        assert!(found(&[]).is_empty());
        assert!(found(&[("a", "a")]).is_empty());
    }

    #[test]
    fn circles_are_found_apart_and_whole() {
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d")];
        assert_eq!(found(&edges), [vec!["a", "b", "c"], vec!["d", "e"]]);
    }
}
