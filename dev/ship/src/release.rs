//! `cargo xtask release`: all of a release but what takes a person's key.
//!
//! Names and addresses stand in `release.toml` alone; `--fill` writes them to where they are read. Without it
//! the release is tried: its notes are taken from the changelog, crates are put in the order in which a
//! registry takes them and packed against it, and what the other chores have made is summed up; `--make` has
//! them make it first. What is left is printed: a tag that is signed, and pushed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{DependencyKind, Package};
use serde::Deserialize;

use crate::arch::Arch;
use crate::capi::files_in;
use crate::package::{self, ACTION, PRIVATE, is_published};
use crate::run::{cargo, metadata, program, read, root, run, target_folder};
use crate::{deb, dist, docs, musl};

/// Names and addresses that only a maintainer knows; empty where nobody has said them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    repository: String,
    maintainer: String,
    security: String,
}

/// Line of SECURITY.md that stands where nobody has said an address.
const NOBODY: &str = "to the maintainers privately, not";

/// Part of a release that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Only write names and addresses to where they are read.
    Fill,
    /// Try it with what is there.
    Try,
    /// Make all that is shipped, and try it.
    Make,
}

/// The documents as a site.
const SITE: &str = "kumiki-site.tar.gz";

pub fn release(work: Work) -> Result<ExitCode> {
    let text = fs::read_to_string(root().join("release.toml")).context("reading release.toml")?;
    let names: Names = toml::from_str(&text).context("release.toml")?;
    match work {
        Work::Fill => return filled_in(&names),
        Work::Make => make()?,
        Work::Try => {}
    }
    let metadata = metadata()?;
    let published: Vec<_> =
        metadata.packages.iter().filter(|package| is_published(package)).collect();
    let version = published.first().context("no crate is published")?.version.to_string();
    ensure!(
        published.iter().all(|package| package.version.to_string() == version),
        "one release has one version, and crates have several"
    );
    // `release` is cargo's own.
    let folder = target_folder()?.join("release-files");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let changes =
        fs::read_to_string(root().join("CHANGELOG.md")).context("reading CHANGELOG.md")?;
    let notes = notes(&changes, &version).with_context(|| {
        format!("CHANGELOG.md has no section of {version}, nor one of what is unreleased")
    })?;
    fs::write(folder.join("notes.md"), notes).context("writing the notes")?;
    let order = order(&published);
    ensure!(order.len() == published.len(), "crates need each other in a circle");
    fs::write(folder.join("crates"), order.join("\n") + "\n").context("writing the order")?;
    println!("{} crates, in this order: {}", order.len(), order.join(" "));
    // Each against those before it, which no registry has yet. That they build is `cargo xtask package`'s.
    let mut publish = cargo("publish --workspace --dry-run --no-verify --allow-dirty --locked");
    publish.args(PRIVATE.iter().flat_map(|name| ["--exclude", name]));
    run(&mut publish)?;
    let files = files()?;
    for file in &files {
        let name = file.file_name().context("a file has a name")?;
        fs::copy(file, folder.join(name)).with_context(|| format!("copying {}", file.display()))?;
    }
    sums(&folder)?;
    for missing in missing(&files) {
        println!("not made yet: {missing}");
    }
    let blanks = crate::package::blanks()?;
    blanks.iter().for_each(|blank| println!("not filled in (release.toml, --fill): {blank}"));
    println!(
        "below {}: notes, order, {} files and their sums\nby whoever has the key: \
         git tag --sign v{version} && git push origin v{version}",
        folder.display(),
        files.len()
    );
    Ok(ExitCode::SUCCESS)
}

/// Has the other chores make what is shipped, and looks that the packed crates build.
fn make() -> Result<()> {
    package::package(&[], true)?;
    dist::dist()?;
    dist::wheel_alone(Arch::Arm)?;
    musl::dist(Arch::X86)?;
    musl::dist(Arch::Arm)?;
    deb::deb()?;
    docs::docs()?;
    let site = target_folder()?.join("dist-files").join(SITE);
    let mut tar = program("tar", ["--create", "--gzip", "--file"]);
    run(tar.arg(site).arg("--directory").arg(target_folder()?).arg("site"))
}

/// Writes names to where they are read.
fn filled_in(names: &Names) -> Result<ExitCode> {
    let Names { repository, maintainer, security } = names;
    ensure!(
        ![repository, maintainer, security].iter().any(|name| name.is_empty()),
        "release.toml is not filled in: {names:?}"
    );
    let rewritten = |file: &str, change: &dyn Fn(&str) -> String| {
        let path = root().join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        fs::write(path, change(&text)).with_context(|| format!("writing {file}"))
    };
    rewritten("Cargo.toml", &|text| with_repository(text, repository))?;
    let packages = metadata()?.packages;
    for manifest in packages.iter().map(|package| &package.manifest_path) {
        let text = fs::read_to_string(manifest).with_context(|| format!("reading {manifest}"))?;
        fs::write(manifest, inheriting(&text)).with_context(|| format!("writing {manifest}"))?;
    }
    for file in ["debian/control", "debian/changelog"] {
        rewritten(file, &|text| {
            text.replace("Kumiki maintainers <maintainers@kumiki.invalid>", maintainer)
        })?;
    }
    let short = repository.trim_start_matches("https://github.com/").trim_end_matches(".git");
    rewritten(ACTION.0, &|text| text.replace(ACTION.1, &format!("{short}/measure/ab@")))?;
    rewritten("SECURITY.md", &|text| text.replace(NOBODY, &format!("to {security}, not")))?;
    println!("filled in; look at `git diff`");
    Ok(ExitCode::SUCCESS)
}

/// The workspace's manifest with this repository.
fn with_repository(manifest: &str, repository: &str) -> String {
    let others = manifest.lines().filter(|line| !line.starts_with("repository = "));
    let line = format!("repository = \"{repository}\"");
    others
        .flat_map(|other| match other == "[workspace.package]" {
            true => vec![other.to_owned(), line.clone()],
            false => vec![other.to_owned()],
        })
        .map(|line| line + "\n")
        .collect()
}

/// A crate's manifest that takes it from there.
fn inheriting(manifest: &str) -> String {
    match manifest.contains("repository.workspace = true") {
        true => manifest.to_owned(),
        false => manifest.replacen("\nlicense", "\nrepository.workspace = true\nlicense", 1),
    }
}

/// Changes to be told: the section of this version, else that of what is unreleased.
fn notes(changes: &str, version: &str) -> Option<String> {
    let section = |title: &str| {
        let text =
            changes.split("\n## ").find(|section| section.starts_with(&format!("[{title}]")))?;
        let text = text.split_once('\n')?.1.trim();
        (!text.is_empty()).then(|| format!("{text}\n"))
    };
    section(version).or_else(|| section("Unreleased"))
}

/// Names of the crates, each after those that it needs.
fn order(published: &[&Package]) -> Vec<String> {
    let mut left: Vec<_> = published.to_vec();
    let mut order = Vec::new();
    while !left.is_empty() {
        let waiting: BTreeSet<_> = left.iter().map(|package| package.name.to_string()).collect();
        let needs = |package: &&Package| {
            let needed =
                package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
            needed.map(|dependency| &dependency.name).any(|name| waiting.contains(name))
        };
        let (later, now): (Vec<_>, Vec<_>) = left.into_iter().partition(needs);
        if now.is_empty() {
            break;
        }
        order.extend(now.iter().map(|package| package.name.to_string()));
        left = later;
    }
    order
}

/// Files that the other chores have made.
fn files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["dist-files", "deb"] {
        let folder = target_folder()?.join(folder);
        if folder.is_dir() {
            files.extend(files_in(&folder)?);
        }
    }
    let is_one = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        [".tar.gz", ".whl", ".deb", ".cdx.json"].iter().any(|end| name.ends_with(end))
    };
    files.retain(is_one);
    files.sort();
    Ok(files)
}

/// Kinds of files that are shipped and are not among them, with the chore that makes it.
fn missing(files: &[PathBuf]) -> Vec<&'static str> {
    let shipped = [
        ("", "-linux-gnu.tar.gz", "the tarball (cargo xtask dist)"),
        ("", "-x86_64-linux-musl.tar.gz", "the static tarball (cargo xtask dist --musl)"),
        (
            "",
            "-aarch64-linux-musl.tar.gz",
            "the static tarball for aarch64 (cargo xtask dist --musl --arch aarch64)",
        ),
        ("-manylinux", "_x86_64.whl", "the wheel (cargo xtask dist)"),
        ("-manylinux", "_aarch64.whl", "the wheel for aarch64 (dist --wheel --arch aarch64)"),
        ("-musllinux", "_x86_64.whl", "the wheel for musl (dist --wheel --musl)"),
        (
            "-musllinux",
            "_aarch64.whl",
            "the wheel for musl on aarch64 (dist --wheel --musl --arch aarch64)",
        ),
        ("", ".cdx.json", "lists of the programs' crates (cargo xtask dist)"),
        ("", ".deb", "Debian's packages (cargo xtask deb)"),
        ("", SITE, "the site (cargo xtask release --make)"),
    ];
    let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    let is_there =
        |part: &str, end: &str| names.iter().any(|name| name.contains(part) && name.ends_with(end));
    let missing = shipped.iter().filter(|(part, end, _)| !is_there(part, end));
    missing.map(|(_, _, what)| *what).collect()
}

/// `SHA256SUMS` of all that is in the folder.
fn sums(folder: &std::path::Path) -> Result<()> {
    let mut names: Vec<_> = files_in(folder)?
        .iter()
        .filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    let mut sums = program("sha256sum", names.iter().map(String::as_str));
    let sums = read(sums.current_dir(folder))?;
    fs::write(folder.join("SHA256SUMS"), sums).context("writing SHA256SUMS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_of_the_version_or_of_what_is_unreleased() {
        let changes =
            "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.1.0] - 2026-01-01\n\n- old\n";
        assert_eq!(notes(changes, "0.1.0").as_deref(), Some("- old\n"));
        assert_eq!(notes(changes, "0.2.0").as_deref(), Some("- new\n"));
        assert_eq!(notes("# Changelog\n\n## [Unreleased]\n\n", "0.2.0"), None);
        let ours = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
        assert!(notes(&ours, "no such version").is_some_and(|notes| notes.starts_with("### ")));
    }

    #[test]
    fn each_crate_comes_after_those_that_it_needs() {
        let metadata = metadata().unwrap();
        let published: Vec<_> =
            metadata.packages.iter().filter(|package| is_published(package)).collect();
        let order = order(&published);
        assert_eq!(order.len(), published.len());
        let at = |name: &str| order.iter().position(|one| one == name).expect(name);
        assert!(at("kumiki-sys") < at("kumiki-wait") && at("kumiki-wait") < at("kumiki-slot"));
        assert!(at("kumiki-places") < at("kumiki") && at("kumiki") > at("kumiki-parasc"));
    }

    #[test]
    fn a_repository_is_written_once_and_taken_by_each_crate() {
        let manifest = "[workspace.package]\nversion = \"1\"\n";
        let filled = with_repository(manifest, "https://a.example/b");
        assert_eq!(filled, with_repository(&filled, "https://a.example/b"));
        let line = "[workspace.package]\nrepository = \"https://a.example/b\"\nversion";
        assert!(filled.starts_with(line), "{filled}");
        let inherits = inheriting("[package]\nname = \"a\"\nlicense.workspace = true\n");
        assert!(
            inherits.contains("\nrepository.workspace = true\nlicense.workspace"),
            "{inherits}"
        );
        assert_eq!(inheriting(&inherits), inherits);
    }

    #[test]
    fn a_wheel_for_each_platform_is_asked_for() {
        let wheels = [
            "manylinux_2_34_x86_64",
            "manylinux_2_34_aarch64",
            "musllinux_1_2_x86_64",
            "musllinux_1_2_aarch64",
        ];
        let files = wheels.map(|name| PathBuf::from(format!("kumiki-0.1.0-py3-none-{name}.whl")));
        let asked =
            |files: &[PathBuf]| missing(files).iter().filter(|what| what.contains("wheel")).count();
        assert_eq!(asked(&[]), 4);
        for n in 0..files.len() {
            assert_eq!(asked(&files[n..=n]), 3, "{}", files[n].display());
        }
        assert_eq!(asked(&files), 0);
    }

    #[test]
    fn a_place_for_each_name_is_there() {
        let text = fs::read_to_string(root().join("release.toml")).unwrap();
        let names: Names = toml::from_str(&text).unwrap();
        let security = fs::read_to_string(root().join("SECURITY.md")).unwrap();
        assert!(!names.security.is_empty() || security.contains(NOBODY));
    }
}
