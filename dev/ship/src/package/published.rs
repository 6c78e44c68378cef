//! What a registry's page of a crate needs, and which crates have one.
//!
//! A crate is published unless its manifest says `publish = false`. Its page says what it is,
//! under which words it is found, and begins with a program to copy; that of a crate which
//! others of ours need, and nobody else, says just that.

use std::fs;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, Package, TargetKind};

use super::leaving;
use crate::run::metadata;

/// The crates of the workspace that are nobody's but ours.
pub const PRIVATE: [&str; 10] = [
    "kumiki-ahead",
    "kumiki-bench",
    "kumiki-bench-peers",
    "kumiki-capi-places",
    "kumiki-rocksdb",
    "kumiki-ship",
    "kumiki-sim",
    "kumiki-soak",
    "kumiki-spawn-server",
    "xtask",
];
/// How the description of a crate ends which only ours need.
const INTERNAL: &str = "(an implementation detail of kumiki)";
/// By which a page says beside each item which feature it needs.
const SHOWN: &str = "#![cfg_attr(docsrs, feature(doc_cfg))]";
/// The most that a registry takes.
const KEYWORDS: usize = 5;
const KEYWORD_LETTERS: usize = 20;

pub fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

/// Checks the workspace's manifests, and the page that each published crate begins with.
pub fn check() -> Result<()> {
    let metadata = metadata()?;
    let mut faults = faults(&metadata);
    for package in metadata.workspace_packages().into_iter().filter(|p| is_published(p)) {
        let library = package.targets.iter().find(|target| target.kind.contains(&TargetKind::Lib));
        let internal = package.description.as_deref().is_some_and(|d| d.ends_with(INTERNAL));
        // An application's library is for its own program and tests; its page is `--help`.
        let application = package.manifest_path.components().any(|part| part.as_str() == "apps");
        if let (Some(library), false) = (library, internal || application) {
            let source = fs::read_to_string(&library.src_path)
                .with_context(|| format!("reading {}", library.src_path))?;
            if !begins_with_program(&source) {
                let file = &library.src_path;
                faults.push(format!("{file}: its page shows no program that runs (```)"));
            }
        }
        if let (Some(library), true) = (library, has_features(package)) {
            let source = fs::read_to_string(&library.src_path)
                .with_context(|| format!("reading {}", library.src_path))?;
            faults.extend(features_shown(package, &source));
        }
        faults.extend(leaving::faults(package)?);
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            if !folder.join(name).exists() {
                faults.push(format!("{}: no {name} goes with it", package.name));
            }
        }
    }
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Lists what manifests lack, a sentence each.
fn faults(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.workspace_packages();
    let mut faults = Vec::new();
    for package in &packages {
        let name = package.name.as_str();
        if !is_published(package) {
            if !PRIVATE.contains(&name) {
                faults.push(format!("{name}: says publish = false, and is not among {PRIVATE:?}"));
            }
            continue;
        }
        let mut lacks = |what: &str, there: bool| {
            if !there {
                faults.push(format!("{name}: its Cargo.toml needs {what}"));
            }
        };
        let keyword = |word: &String| word.len() <= KEYWORD_LETTERS && !word.contains(' ');
        lacks("a description", package.description.as_ref().is_some_and(|text| !text.is_empty()));
        lacks("a license", package.license.is_some());
        lacks("a readme", package.readme.is_some());
        lacks("a rust-version", package.rust_version.is_some());
        lacks("documentation, the page that it has", package.documentation.is_some());
        lacks(
            "one to five keywords, each of 20 letters at most",
            (1..=KEYWORDS).contains(&package.keywords.len())
                && package.keywords.iter().all(keyword),
        );
        lacks("one to five categories", (1..=5).contains(&package.categories.len()));
        faults.extend(unpublished(package, &packages));
    }
    faults
}

/// Dependencies of a published crate that no registry has, or whose version nobody says.
fn unpublished(package: &Package, workspace: &[&Package]) -> Vec<String> {
    let needed = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
    let ours = needed.filter_map(|dependency| {
        let folder = dependency.path.as_ref()?;
        let other = workspace.iter().find(|o| o.manifest_path.parent() == Some(folder))?;
        Some((dependency, other))
    });
    let fault = |(dependency, other): (&cargo_metadata::Dependency, &&Package)| {
        let (name, on) = (&package.name, &other.name);
        if !is_published(other) {
            return Some(format!("{name} depends on {on}, which is not published"));
        }
        let wanted = format!("={}", other.version);
        (dependency.req.to_string() != wanted)
            .then(|| format!("{name} asks for {on} {}: say version = \"{wanted}\"", dependency.req))
    };
    ours.filter_map(fault).collect()
}

/// Says yes if a program chooses anything of the crate.
fn has_features(package: &Package) -> bool {
    package.features.keys().any(|name| name != "default")
}

/// Faults that hide a part behind a feature from a page of docs.rs, a sentence each: it builds without
/// features unless told, and says beside an item which feature it needs only where the source asks.
fn features_shown(package: &Package, source: &str) -> Vec<String> {
    let name = &package.name;
    let docs = &package.metadata["docs"]["rs"];
    let mut faults = Vec::new();
    if docs["all-features"] != true
        || docs["rustdoc-args"] != serde_json::json!(["--cfg", "docsrs"])
    {
        faults.push(format!(
            "{name}: has features, so its Cargo.toml needs [package.metadata.docs.rs] with \
             all-features = true and rustdoc-args = [\"--cfg\", \"docsrs\"]"
        ));
    }
    if !source.lines().any(|line| line == SHOWN) {
        faults.push(format!("{name}: has features, so its library's root needs {SHOWN}"));
    }
    faults
}

/// Whether the crate's own documentation has a block that `cargo test --doc` runs.
fn begins_with_program(source: &str) -> bool {
    let page = source.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim);
    let mut fences = page.filter_map(|line| line.strip_prefix("```"));
    let mut runs = false;
    // They come in pairs: one that begins a block, and one that ends it.
    while let Some(language) = fences.next() {
        runs |= ["", "no_run", "rust", "rust,no_run"].contains(&language);
        fences.next();
    }
    runs
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, publish: Value, needs: &[(&str, &str)]) -> Value {
        let dependency = |(on, req): &(&str, &str)| {
            json!({
                "name": on, "req": req, "kind": null, "optional": false,
                "uses_default_features": true, "features": [], "target": null,
                "path": format!("/w/{on}"),
            })
        };
        json!({
            "name": name, "version": "0.1.0", "id": name, "source": null, "features": {},
            "manifest_path": format!("/w/{name}/Cargo.toml"), "targets": [], "publish": publish,
            "dependencies": needs.iter().map(dependency).collect::<Vec<_>>(),
            "description": "It is.", "license": "MIT", "readme": "README.md",
            "rust_version": "1.95", "documentation": "https://docs.rs/a",
            "keywords": ["a"], "categories": ["os"],
        })
    }

    fn of(packages: &[Value]) -> Vec<String> {
        let members: Vec<_> = packages.iter().map(|package| &package["id"]).collect();
        let metadata = json!({
            "packages": packages, "workspace_members": members, "resolve": null,
            "workspace_root": "/w", "target_directory": "/w/target", "version": 1,
        });
        faults(&serde_json::from_value(metadata).unwrap())
    }

    #[test]
    fn what_is_published_depends_on_what_is_published() {
        let all = json!(null);
        let fine = [package("a", all.clone(), &[("b", "=0.1.0")]), package("b", all.clone(), &[])];
        assert_eq!(of(&fine), [] as [&str; 0]);
        let hidden =
            [package("a", all.clone(), &[("xtask", "=0.1.0")]), package("xtask", json!([]), &[])];
        assert_eq!(of(&hidden), ["a depends on xtask, which is not published"]);
        let any = [package("a", all.clone(), &[("b", "*")]), package("b", all, &[])];
        assert_eq!(of(&any), ["a asks for b *: say version = \"=0.1.0\""]);
        assert!(of(&[package("c", json!([]), &[])])[0].contains("not among"));
    }

    #[test]
    fn what_a_page_needs_is_named() {
        for key in ["description", "license", "readme", "rust_version", "documentation"] {
            let mut bare = package("a", json!(null), &[]);
            bare[key] = json!(null);
            assert_eq!(of(&[bare]).len(), 1, "{key}");
        }
        for (key, value) in [
            ("keywords", json!([])),
            ("keywords", json!(["a", "b", "c", "d", "e", "f"])),
            ("keywords", json!(["a-word-of-many-letters"])),
            ("categories", json!([])),
        ] {
            let mut bare = package("a", json!(null), &[]);
            bare[key] = value;
            assert_eq!(of(&[bare]).len(), 1, "{key}");
        }
    }

    #[test]
    fn a_page_has_what_features_hide() {
        let of = |metadata: Value, source: &str| {
            let mut crate_ = package("a", json!(null), &[]);
            crate_["features"] = json!({ "run": [] });
            crate_["metadata"] = metadata;
            let crate_ = serde_json::from_value(crate_).unwrap();
            assert!(has_features(&crate_));
            features_shown(&crate_, source).len()
        };
        let rs = json!({ "docs": { "rs": {
            "all-features": true, "rustdoc-args": ["--cfg", "docsrs"],
        } } });
        let root = format!("//! A.\n{SHOWN}\n");
        assert_eq!(of(rs.clone(), &root), 0);
        assert_eq!(of(rs, "//! A.\n"), 1);
        assert_eq!(of(json!(null), &root), 1);
        assert_eq!(of(json!({ "docs": { "rs": { "all-features": true } } }), &root), 1);
    }

    #[test]
    fn a_drawing_is_no_program() {
        assert!(begins_with_program("//! A crate.\n//!\n//! ```\n//! run();\n//! ```\n"));
        assert!(begins_with_program(
            "//! ```text\n//! a\n//! ```\n//! ```no_run\n//! b\n//! ```\n"
        ));
        assert!(!begins_with_program("//! ```text\n//! a\n//! ```\n//! ```c\n//! b;\n//! ```\n"));
        assert!(!begins_with_program("//! A crate.\n/// ```\n/// b\n/// ```\nfn b() {}\n"));
    }
}
