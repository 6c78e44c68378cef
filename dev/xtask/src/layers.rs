//! Dependencies point down only.
//!
//! Each crate says its layer in `[package.metadata.kumiki]`; a normal or build
//! dependency on another crate of the workspace must be on a lower layer
//! (tests may use anything). A crate that uses `unsafe` says there why
//! (`unsafe = "reason"`); all others forbid it in every root file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, Package, TargetKind};

use crate::manifest::Kumiki;
use crate::run::{cargo, metadata, read};

/// Packages that must not come with another one unasked: a program links one
/// part without the rest of the world.
const ALONE: &[(&str, &[&str])] = &[("kumiki", &["rusqlite", "libsqlite3-sys"])];

/// Most crates, ours too, of a package with one feature: who takes one part builds no more.
const MOST: &[(&str, &str, usize)] = &[("kumiki", "shadow", 20)];

/// Checks the workspace.
pub(crate) fn check() -> Result<()> {
    let mut faults = faults(&metadata()?, |path| {
        fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    })?;
    for (package, unwanted) in ALONE {
        let tree = format!("tree --locked --package {package} --edges normal --prefix none");
        faults.extend(brought(package, &read(&mut cargo(&tree))?, unwanted));
    }
    for (package, feature, most) in MOST {
        let tree = format!(
            "tree --locked --package {package} --no-default-features --features {feature} \
             --edges normal,build --prefix none"
        );
        faults.extend(too_many(package, feature, &read(&mut cargo(&tree))?, *most));
    }
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Says whether a tree without indents has more crates than a user is promised.
fn too_many(package: &str, feature: &str, tree: &str, most: usize) -> Option<String> {
    let crates: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    (crates.len() > most).then(|| {
        format!(
            "{package} with its feature {feature} alone is {} crates, and {most} are promised: {}",
            crates.len(),
            crates.into_iter().collect::<Vec<_>>().join(" ")
        )
    })
}

/// What is wrong, a sentence each; `source` reads a file.
fn faults(metadata: &Metadata, source: impl Fn(&Path) -> Result<String>) -> Result<Vec<String>> {
    let packages = metadata.workspace_packages();
    let mut faults = Vec::new();
    for package in &packages {
        let place = match Kumiki::of(package) {
            Ok(place) => place,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        faults.extend(upward(package, place.layer, &packages));
        for file in roots(package) {
            let forbids = forbids_unsafe(&source(file)?);
            let name = &package.name;
            let file = file.strip_prefix(&metadata.workspace_root).unwrap_or(file).display();
            match (&place.r#unsafe, forbids) {
                (None, false) => faults.push(format!(
                    "{file}: add #![forbid(unsafe_code)], or say in {name}'s Cargo.toml, \
                     [package.metadata.kumiki], unsafe = \"why\""
                )),
                (Some(_), true) => faults.push(format!(
                    "{file}: forbids unsafe, yet {name}'s Cargo.toml says why it needs it"
                )),
                _ => {}
            }
        }
    }
    Ok(faults)
}

/// Dependencies of `package` that are not on a lower layer.
fn upward(package: &Package, layer: u32, workspace: &[&Package]) -> Vec<String> {
    let built = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
    // A dependency's name may be an alias; its folder is not.
    let ours = built.filter_map(|dependency| {
        let folder = dependency.path.as_ref()?;
        workspace.iter().find(|other| other.manifest_path.parent() == Some(folder))
    });
    ours.filter_map(|other| {
        // A crate that says no layer is a fault of its own.
        let below = Kumiki::of(other).ok()?.layer;
        let (name, on) = (&package.name, &other.name);
        (below >= layer).then(|| {
            format!(
                "{name} (layer {layer}) depends on {on} (layer {below}): only lower layers may be used"
            )
        })
    })
    .collect()
}

/// The root file of everything that is shipped or runs in a build.
fn roots(package: &Package) -> impl Iterator<Item = &Path> {
    let shipped = |kind: &TargetKind| {
        !matches!(kind, TargetKind::Test | TargetKind::Bench | TargetKind::Example)
    };
    let targets = package.targets.iter().filter(move |target| target.kind.iter().any(shipped));
    targets.map(|target| target.src_path.as_std_path())
}

fn forbids_unsafe(source: &str) -> bool {
    source.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]")
}

/// Which of `unwanted` stand in a `cargo tree` of `package`.
fn brought(package: &str, tree: &str, unwanted: &[&str]) -> Vec<String> {
    let brings = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    let found = unwanted.iter().filter(|name| brings(name));
    found.map(|name| format!("{package} brings {name} without being asked to")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, place: Value, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependency = |(on, kind): &(&str, Option<&str>)| {
            json!({
                "name": on, "req": "*", "kind": kind, "optional": false,
                "uses_default_features": true, "features": [], "target": null,
                "path": format!("/w/{on}"),
            })
        };
        let target = json!({
            "name": name, "kind": ["lib"], "crate_types": ["lib"],
            "src_path": format!("/w/{name}/src/lib.rs"), "edition": "2024",
        });
        json!({
            "name": name, "version": "0.1.0", "id": name, "source": null, "features": {},
            "manifest_path": format!("/w/{name}/Cargo.toml"), "metadata": place,
            "targets": [target],
            "dependencies": dependencies.iter().map(dependency).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn more_crates_than_a_user_is_promised_are_counted_once_each_and_named() {
        let tree =
            "kumiki v0.1.0 (/w)\nkumiki-sys v0.1.0 (/w)\nlibc v0.2.1\nkumiki-sys v0.1.0 (/w) (*)\n";
        assert_eq!(too_many("kumiki", "shadow", tree, 3), None);
        let said = too_many("kumiki", "shadow", tree, 2).unwrap();
        assert!(said.contains("is 3 crates, and 2 are promised: kumiki kumiki-sys libc"), "{said}");
    }

    fn layer(n: u32) -> Value {
        json!({ "kumiki": { "layer": n } })
    }

    fn check(packages: &[Value], source: &str) -> Vec<String> {
        let members: Vec<_> = packages.iter().map(|package| &package["id"]).collect();
        let metadata = json!({
            "packages": packages, "workspace_members": members, "resolve": null,
            "workspace_root": "/w", "target_directory": "/w/target", "version": 1,
        });
        let metadata = serde_json::from_value(metadata).unwrap();
        faults(&metadata, |_| Ok(source.to_owned())).unwrap()
    }

    const SAFE: &str = "//! A crate.\n#![forbid(unsafe_code)]\n";

    #[test]
    fn downward_is_fine() {
        let packages = [package("sys", layer(0), &[]), package("wait", layer(1), &[("sys", None)])];
        assert_eq!(check(&packages, SAFE), [] as [&str; 0]);
    }

    #[test]
    fn upward_and_sideways_are_faults() {
        let packages = [
            package("sys", layer(0), &[("wait", Some("build"))]),
            package("wait", layer(1), &[]),
            package("other", layer(1), &[("wait", None)]),
        ];
        assert_eq!(
            check(&packages, SAFE),
            [
                "sys (layer 0) depends on wait (layer 1): only lower layers may be used",
                "other (layer 1) depends on wait (layer 1): only lower layers may be used",
            ]
        );
    }

    #[test]
    fn tests_may_use_anything() {
        let packages =
            [package("sys", layer(0), &[("wait", Some("dev"))]), package("wait", layer(1), &[])];
        assert_eq!(check(&packages, SAFE), [] as [&str; 0]);
    }

    #[test]
    fn a_crate_without_a_layer_is_a_fault() {
        let faults = check(&[package("sys", Value::Null, &[])], SAFE);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("sys") && faults[0].contains("layer = N"), "{faults:?}");
    }

    #[test]
    fn a_misspelt_key_is_a_fault() {
        let faults =
            check(&[package("sys", json!({"kumiki": {"layer": 0, "unsave": "x"}}), &[])], SAFE);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("unsave"), "{faults:?}");
    }

    #[test]
    fn unsafe_is_forbidden_or_explained_and_not_both() {
        let explained = json!({ "kumiki": { "layer": 0, "unsafe": "raw memory" } });
        let bare = "//! Talks about #![forbid(unsafe_code)] only.\n";
        assert!(
            check(&[package("sys", layer(0), &[])], bare)[0].starts_with("sys/src/lib.rs: add")
        );
        assert_eq!(check(&[package("sys", explained.clone(), &[])], bare), [] as [&str; 0]);
        assert!(check(&[package("sys", explained, &[])], SAFE)[0].contains("yet sys's"));
    }

    #[test]
    fn an_unwanted_dependency_is_found_by_its_whole_name() {
        let tree = "kumiki v0.1.0 (/w/kumiki)\nrusqlite-extra v1.0.0\nlibsqlite3-sys v0.1.0\n";
        let faults = brought("kumiki", tree, &["rusqlite", "libsqlite3-sys"]);
        assert_eq!(faults, ["kumiki brings libsqlite3-sys without being asked to"]);
    }
}
