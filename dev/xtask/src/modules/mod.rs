//! No circle between the modules of a crate.
//!
//! Modules that stand side by side must have an order in which each names only what
//! stands below it: then any of them can be read, tested or moved with what is below
//! it alone. A module and the modules within it are one concept, and may name each
//! other. Tests may name anything.
//!
//! ```text
//!   crate ─┬─ a ─┬─ x      a names c: below        x names y, y names x: a circle
//!          │     └─ y      x names b: a names b
//!          ├─ b            b names c: below
//!          └─ c            c names nothing: at the bottom
//! ```
//!
//! Read from the sources: a name counts where it stands, as a path in code, in a `use`
//! or in the arguments of a macro. A method's call names no module, nor does a link in
//! documentation.

mod circle;
mod names;
pub(crate) mod sizes;
mod tree;
pub(crate) mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, Package, Target, TargetKind};

use crate::run::metadata;
use tree::{Tree, Witness};

/// Checks every crate of the workspace.
pub(crate) fn check() -> Result<()> {
    let faults = faults(&metadata()?, &read)?;
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Faults, a paragraph each; `source` reads a file.
fn faults(metadata: &Metadata, source: &dyn Fn(&Path) -> Result<String>) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for package in metadata.workspace_packages() {
        for target in package.targets.iter().filter(|target| is_checked(target)) {
            let tree = Tree::read(target.src_path.as_std_path(), source)?;
            faults.extend(circles(&tree).iter().map(|circle| circle.fault(package, target)));
        }
    }
    Ok(faults)
}

/// Programs and libraries; a test, a bench and an example may be knotted as they like.
fn is_checked(target: &Target) -> bool {
    let free = |kind: &TargetKind| {
        matches!(
            kind,
            TargetKind::Test | TargetKind::Bench | TargetKind::Example | TargetKind::CustomBuild
        )
    };
    !target.kind.iter().any(free)
}

/// Modules that stand side by side, each of which leads to each other.
struct Circle<'a> {
    modules: Vec<String>,
    /// For each name of one module in another, where it stands.
    ties: Vec<(&'a str, &'a str, &'a Witness)>,
}

impl Circle<'_> {
    fn fault(&self, package: &Package, target: &Target) -> String {
        let modules = self.modules.join(", ");
        let mut text = format!("{} ({}): a circle of {modules}", package.name, target.name);
        for (from, to, Witness { file, path }) in &self.ties {
            text += &format!("\n    {from} names {path} of {to} ({})", file.display());
        }
        text
    }
}

/// The circles among the children of each module.
fn circles(tree: &Tree) -> Vec<Circle<'_>> {
    let mut found = Vec::new();
    for edges in tree.sideways().values() {
        let graph: BTreeMap<&str, BTreeSet<&str>> =
            edges.iter().fold(BTreeMap::new(), |mut graph, ((from, to), _)| {
                graph.entry(*from).or_insert_with(BTreeSet::new).insert(*to);
                graph
            });
        for members in circle::circles(&graph) {
            let inside = |name: &str| members.contains(name);
            let ties = edges.iter().filter(|((from, to), _)| inside(from) && inside(to));
            found.push(Circle {
                modules: members.iter().map(|name| (*name).to_owned()).collect(),
                ties: ties.map(|((from, to), witness)| (*from, *to, *witness)).collect(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests;
