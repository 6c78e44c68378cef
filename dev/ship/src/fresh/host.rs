//! What a Debian as new is lent of this machine: how it reaches package archives, and
//! crates that have been downloaded. None of it is known here by name: the settings of
//! this machine are copied as they are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::run::{program, run};

/// Names and certificates of the network that this machine is in, where it has them.
const NETWORK: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/usr/local/share/ca-certificates"];
/// Settings of apt that say how to reach an archive.
const APT: [&str; 4] =
    ["Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until", "Acquire::Check-Date"];
/// Of cargo's folder: its settings and what it has downloaded.
const CARGO: [&str; 3] = ["config.toml", "registry/cache", "registry/index"];
/// Variables that begin like this say how programs reach the network.
const VARIABLES: [&str; 6] = [
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_SOURCE_",
    "CARGO_REGISTRIES_",
    "GIT_SSL_",
    // How long a busy machine may take.
    "KUMIKI_SMOKE_",
];

/// Debian's archive, as this machine's apt knows it; nothing if it knows none.
pub(crate) fn archive() -> Option<String> {
    archive_of("Label: Debian")
}

/// That of its security updates.
pub fn security() -> Option<String> {
    archive_of("Label: Debian-Security")
}

fn archive_of(label: &str) -> Option<String> {
    let filters = ["Created-By: Packages", "Origin: Debian", label, "Component: main"];
    let mut query = program("apt-get", ["indextargets", "--format", "$(REPO_URI)"]);
    let output = query.args(filters).output().ok()?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(str::to_owned)
}

/// Copies what is lent below `root`.
pub(super) fn lend(root: &Path) -> Result<()> {
    for path in NETWORK.map(Path::new) {
        copy(path, &below(root, path))?;
    }
    let settings = apt_settings();
    if !settings.is_empty() {
        let folder = root.join("etc/apt/apt.conf.d");
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let file = folder.join("90host");
        fs::write(&file, settings).with_context(|| format!("writing {}", file.display()))?;
    }
    for name in CARGO {
        copy(&cargo_home().join(name), &root.join("root/.cargo").join(name))?;
    }
    Ok(())
}

/// As words for env(1).
pub(super) fn variables() -> Vec<String> {
    env::vars()
        .filter(|(name, _)| lent(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

fn lent(name: &str) -> bool {
    let proxy = name.to_ascii_lowercase().ends_with("_proxy");
    let settings = VARIABLES.iter().any(|prefix| name.starts_with(prefix));
    (proxy || settings) && !name.ends_with("_TOKEN")
}

fn apt_settings() -> String {
    let output = program("apt-config", ["dump"]).args(APT).output();
    let dump =
        output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    // The rest of the tree comes with it.
    dump.lines()
        .filter(|line| APT.iter().any(|tree| line.starts_with(tree)))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Copies a file or folder over what is there; what does not exist is left out.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let folder = to.parent().expect("it is below a root");
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    // A link, as /etc/resolv.conf often is, becomes what it leads to.
    let words = ["--recursive", "--dereference", "--no-target-directory", "--remove-destination"];
    run(program("cp", words).arg(from).arg(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_and_settings_are_lent_and_secrets_are_not() {
        for name in ["https_proxy", "NO_PROXY", "CARGO_HTTP_CAINFO", "CARGO_NET_RETRY"] {
            assert!(lent(name), "{name}");
        }
        for name in ["HOME", "CARGO_REGISTRIES_OURS_TOKEN", "CARGO_TARGET_DIR", "PROXY"] {
            assert!(!lent(name), "{name}");
        }
    }

    #[test]
    fn what_is_copied_replaces_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("new/to"));
        copy(&from, &to).unwrap();
        assert!(!to.exists());
        for text in ["first", "second"] {
            fs::write(&from, text).unwrap();
            copy(&from, &to).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), text);
        }
        assert_eq!(below(Path::new("/r"), Path::new("/etc/hosts")), Path::new("/r/etc/hosts"));
    }
}
