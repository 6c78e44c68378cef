//! A type's name is defined once in a crate: a reader who finds it knows which one is meant.
//!
//! Definitions for different targets or features, of which one build has one, are one. Some names
//! stand from before: `dev/xtask/type-names.txt` has a number for each crate.

use std::collections::BTreeMap;

use anyhow::Result;

use super::tree::Tree;
use super::{is_checked, read};
use crate::falling::Falling;
use crate::run::metadata;

const FALLING: Falling = Falling {
    file: "dev/xtask/type-names.txt",
    faults: "names of types are defined twice or more",
    remedy: "give one of them a name of its own",
};

/// Checks every crate of the workspace.
pub(crate) fn check() -> Result<()> {
    let mut counts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata()?.workspace_packages() {
        let found = counts.entry(package.name.to_string()).or_default();
        for target in package.targets.iter().filter(|target| is_checked(target)) {
            let tree = Tree::read(target.src_path.as_std_path(), &read)?;
            let new: Vec<_> = repeated(&tree).filter(|one| !found.contains(one)).collect();
            found.extend(new);
        }
    }
    FALLING.check(&counts)
}

/// Names of types that more than one module of a crate defines, with these modules.
pub(super) fn repeated(tree: &Tree) -> impl Iterator<Item = String> {
    let several = tree.types().into_iter().filter(|(_, modules)| {
        // All that hang on a condition are one.
        let always = modules.iter().filter(|(_, is_conditional)| !is_conditional).count();
        always + usize::from(always < modules.len()) > 1
    });
    several.map(|(name, modules)| {
        let modules: Vec<_> =
            modules.iter().map(|(module, _)| format!("crate::{module}")).collect();
        format!("{name}: {}", modules.join(", "))
    })
}
