//! Debian packages that chores need, installed when they are missing.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{program, run, succeeds};

/// Groups of packages.
const FILE: &str = include_str!("../packages.toml");

/// A package and what would be missing without it.
#[derive(Debug)]
pub(crate) struct Package {
    /// Or several, of which each release has one: `a | b`.
    pub(crate) name: String,
    reason: String,
}

/// Reads the packages of a group.
pub(crate) fn packages(group: &str) -> Result<Vec<Package>> {
    let mut groups: BTreeMap<String, BTreeMap<String, String>> =
        toml::from_str(FILE).context("dev/ship/packages.toml")?;
    let group =
        groups.remove(group).with_context(|| format!("dev/ship/packages.toml has no [{group}]"))?;
    Ok(group.into_iter().map(|(name, reason)| Package { name, reason }).collect())
}

impl Package {
    fn alternatives(&self) -> impl Iterator<Item = &str> {
        self.name.split(" | ")
    }

    /// The one that this release has, as far as the index knows.
    fn here(&self) -> &str {
        let is_known = |name: &&str| succeeds(&mut program("apt-cache", ["show", name]));
        self.alternatives()
            .find(is_known)
            .or_else(|| self.alternatives().next())
            .unwrap_or_default()
    }
}

/// Installs what is missing of a group: as root, or through a `sudo` that asks nothing.
/// Elsewhere than on Debian it says what it would have installed.
pub fn install(group: &str) -> Result<()> {
    let packages = packages(group)?;
    if !succeeds(&mut program("dpkg-query", ["--version"])) {
        eprintln!("not a Debian system; these need to be installed:");
        packages.iter().for_each(|p| eprintln!("  {}: {}", p.name, p.reason));
        return Ok(());
    }
    let missing: Vec<_> =
        packages.iter().filter(|package| !package.alternatives().any(installed)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for Package { name, reason } in &missing {
        eprintln!("installing {name}: {reason}");
    }
    let names = || missing.iter().map(|package| package.here()).collect::<Vec<_>>();
    let before = names();
    let apt = Apt::find(&before)?;
    let known = before.iter().all(|name| succeeds(&mut program("apt-cache", ["show", name])));
    if known && apt.install(&before).is_ok() {
        return Ok(());
    }
    // The index is absent, or so old that the archive has dropped its files.
    apt.update()?;
    apt.install(&names())
}

fn installed(package: &str) -> bool {
    let mut query = program("dpkg-query", ["--show", "--showformat=${db:Status-Status}", package]);
    query.output().is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

/// How this user may run `apt-get`.
struct Apt {
    sudo: bool,
}

impl Apt {
    fn find(names: &[&str]) -> Result<Self> {
        if rustix::process::geteuid().is_root() {
            return Ok(Apt { sudo: false });
        }
        if succeeds(&mut program("sudo", ["--non-interactive", "true"])) {
            return Ok(Apt { sudo: true });
        }
        bail!(
            "Debian packages are needed that are not installed, and neither root nor a sudo \
             without a password is at hand; run: sudo {}",
            install_line(names).join(" ")
        )
    }

    fn update(&self) -> Result<()> {
        run(&mut self.command(&["apt-get", "update"]))
    }

    fn install(&self, names: &[&str]) -> Result<()> {
        run(&mut self.command(&install_line(names)))
    }

    fn command(&self, line: &[&str]) -> Command {
        let prefix: &[&str] = if self.sudo { &["sudo", "--non-interactive"] } else { &[] };
        // Through `env`, because sudo passes no variables on.
        let quiet = ["env", "DEBIAN_FRONTEND=noninteractive"];
        let words: Vec<_> = prefix.iter().chain(&quiet).chain(line).copied().collect();
        program(words[0], words[1..].iter().copied())
    }
}

fn install_line<'a>(names: &[&'a str]) -> Vec<&'a str> {
    // A fresh machine may be upgrading itself: wait for its lock, seconds.
    let wait = ["--option", "DPkg::Lock::Timeout=300"];
    let words = ["apt-get", "install", "--yes", "--no-install-recommends"];
    words.into_iter().chain(wait).chain(names.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::run::{root, text};

    /// Groups that sources below a folder ask for.
    fn asked(folder: &Path, groups: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                asked(&path, groups);
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            // A part's name of its group stands in a table.
            let calls = source.split(concat!("debian::", "install(")).skip(1);
            for call in calls.map(|call| call.split(')').next().unwrap()) {
                let words = call.split('"').skip(1).step_by(2);
                groups.extend(words.map(str::to_owned));
            }
        }
    }

    #[test]
    fn groups_of_packages_are_those_that_chores_ask_for() {
        let mut groups = BTreeSet::new();
        for folder in ["dev/xtask/src", "dev/ship/src"] {
            asked(&root().join(folder), &mut groups);
        }
        let file: BTreeMap<String, BTreeMap<String, String>> = toml::from_str(FILE).unwrap();
        assert_eq!(groups, file.into_keys().collect());
        assert!(packages("none").unwrap_err().to_string().contains("[none]"));
    }

    #[test]
    fn a_user_with_sudo_passes_the_frontend_through_it() {
        let line = text(&Apt { sudo: true }.command(&install_line(&["chromium"])));
        assert_eq!(
            line,
            "sudo --non-interactive env DEBIAN_FRONTEND=noninteractive \
             apt-get install --yes --no-install-recommends --option DPkg::Lock::Timeout=300 chromium"
        );
    }

    #[test]
    fn root_needs_no_sudo() {
        let line = text(&Apt { sudo: false }.command(&["apt-get", "update"]));
        assert_eq!(line, "env DEBIAN_FRONTEND=noninteractive apt-get update");
    }

    #[test]
    fn a_package_that_does_not_exist_is_not_installed() {
        assert!(!installed("no-such-package-in-any-archive"));
    }
}
