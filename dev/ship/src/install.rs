//! `cargo xtask install`: programs, libraries, pages, completions, units and modules' sources,
//! where a Linux distribution has them.

use std::fs;
use std::path::{Path, absolute};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use super::pages3;
use crate::capi::{self, Place, RELOCATIONS, files_in, put};
use crate::debian;
use crate::run::{cargo, metadata, program, read, root, run};

/// The profile that is shipped.
pub const PROFILE: &str = "ship";
/// The programs: each crate, what it makes, and its features that are none of the defaults.
pub(super) const PROGRAMS: [(&str, &str, &str); 6] = [
    ("kumiki-cli", "kumiki", ""),
    ("kumiki-cli", "kumiki-noded", ""),
    ("kumiki-cli", AGENT, ""),
    ("kumiki-du", "kumiki-du", ""),
    ("kumiki-httpd", "kumiki-httpd", "tls"),
    ("kumiki-kv", "kumiki-kv", ""),
];
/// Program that each node carries: a file, whatever libraries this machine has.
pub(super) const AGENT: &str = "kumiki-node-agent";
/// Programs that no person starts.
const NOT_BY_PEOPLE: [&str; 2] = ["kumiki-noded", AGENT];
/// Has a program need no library and no loader.
const STATIC: &str = "target-feature=+crt-static";
/// The libraries' crates.
pub(super) const LIBRARIES: [&str; 2] = ["kumiki-capi", "kumiki-capi-places"];
/// Shells, and what their completions are called below `share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/kumiki"),
    ("fish", "fish/vendor_completions.d/kumiki.fish"),
    ("zsh", "zsh/vendor-completions/_kumiki"),
];
/// Files as they are in the clone, and where they go below the prefix.
const FILES: [(&str, &str); 17] = [
    ("apps/httpd/kumiki-httpd.1", "share/man/man1/kumiki-httpd.1"),
    ("apps/httpd/systemd/kumiki-httpd.service", "lib/systemd/system/kumiki-httpd.service"),
    ("apps/httpd/systemd/kumiki-httpd.socket", "lib/systemd/system/kumiki-httpd.socket"),
    ("apps/kv/kumiki-kv.1", "share/man/man1/kumiki-kv.1"),
    ("apps/kv/systemd/kumiki-kv.service", "lib/systemd/system/kumiki-kv.service"),
    ("lib/capi/kumiki.3", "share/man/man3/kumiki.3"),
    ("apps/cli/kumiki-machine.5", "share/man/man5/kumiki-machine.5"),
    ("apps/cli/systemd/kumiki-nodes.service", "lib/systemd/system/kumiki-nodes.service"),
    (
        "apps/cli/systemd/kumiki-nodes-watch.service",
        "lib/systemd/system/kumiki-nodes-watch.service",
    ),
    (
        "apps/cli/systemd/kumiki-nodes-balance.service",
        "lib/systemd/system/kumiki-nodes-balance.service",
    ),
    ("apps/cli/systemd/kumiki-node@.service", "lib/systemd/system/kumiki-node@.service"),
    ("apps/cli/systemd/kumiki-place.service", "lib/systemd/system/kumiki-place.service"),
    ("docs/examples/machine.toml", "share/doc/kumiki/examples/machine.toml"),
    ("docs/examples/place.toml", "share/doc/kumiki/examples/place.toml"),
    ("README.md", "share/doc/kumiki/README.md"),
    ("SECURITY.md", "share/doc/kumiki/SECURITY.md"),
    ("CHANGELOG.md", "share/doc/kumiki/CHANGELOG.md"),
];

/// Builds what is shipped and puts it into its place.
pub fn install(place: &Place) -> Result<ExitCode> {
    debian::install("install")?;
    everything(place, "rustc")?;
    println!("installed into {}", place.now(&place.prefix).display());
    Ok(ExitCode::SUCCESS)
}

/// The same; `verb` is what cargo builds programs by.
pub(super) fn everything(place: &Place, verb: &str) -> Result<()> {
    let version = version()?;
    let at = |below: &str| place.now(&place.prefix.join(below));
    for (package, name, features) in PROGRAMS {
        // One by one: built together, each would have the features that another asks for. By name: what
        // follows is for one target, and some have a library, too.
        let mut build =
            cargo(&format!("{verb} --package {package} --bin {name} --profile {PROFILE} --locked"));
        if !features.is_empty() {
            build.args(["--features", features]);
        }
        build.args(["--", "-C", RELOCATIONS]);
        if name == AGENT {
            build.args(["-C", STATIC]);
        }
        run(&mut build)?;
    }
    let built = metadata()?.target_directory.join(PROFILE);
    for (_, name, _) in PROGRAMS {
        executable(&stripped(built.join(name).as_std_path())?, &at(&place_of(name)))?;
    }
    capi::install(place, PROFILE)?;
    capi::install_places(place, PROFILE)?;
    capi::install_ahead(place, PROFILE)?;
    pages(&at("bin/kumiki"), &at("bin/kumiki-du"), &at("share/man/man1"))?;
    pages3::write(&at("share/man/man3"), &version)?;
    for (shell, file) in COMPLETIONS {
        let script = read(&mut program_at(&at("bin/kumiki"), &["completions", shell]))?;
        put(script.as_bytes(), &at(&format!("share/{file}")))?;
    }
    for (from, to) in FILES {
        copy(&root().join(from), &at(to))?;
    }
    python(&at("lib/python3/dist-packages"))?;
    modules(&at(&format!("src/kumiki-{version}")))
}

/// Names a program's place below the prefix; `kumiki` looks there for those that are its own.
pub(super) fn place_of(name: &str) -> String {
    let folder = if NOT_BY_PEOPLE.contains(&name) { "libexec/kumiki" } else { "bin" };
    format!("{folder}/{name}")
}

pub(super) fn version() -> Result<String> {
    let metadata = metadata()?;
    let package = metadata.packages.iter().find(|package| package.name == "kumiki-cli");
    Ok(package.context("the workspace has no kumiki-cli")?.version.to_string())
}

/// Manual pages of section 1, by the programs themselves.
fn pages(kumiki: &Path, du: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let dir = folder.to_str().context("the place's name is not UTF-8")?;
    run(&mut program_at(kumiki, &["man", "--dir", dir]))?;
    let words = ["--no-info", "--name", "disk usage as du counts it, by parallel system calls"];
    let mut help2man = program("help2man", words);
    let page = read(help2man.arg(du))?;
    put(page.as_bytes(), &folder.join("kumiki-du.1"))
}

/// The package for Python, which finds libkumiki where it is installed, and its plugin for pytest.
fn python(folder: &Path) -> Result<()> {
    for file in files_in(&root().join("lib/python/kumiki"))? {
        let name = file.file_name().context("a file has a name")?;
        // A link that an editable install has left is not of the package.
        if file.is_file() && !file.is_symlink() {
            copy(&file, &folder.join("kumiki").join(name))?;
        }
    }
    copy(&root().join("lib/python/kumiki_pytest.py"), &folder.join("kumiki_pytest.py"))
}

/// The modules' sources, as DKMS builds them: what is under version control.
fn modules(folder: &Path) -> Result<()> {
    for file in sources()? {
        let below =
            Path::new(&file).strip_prefix("node/kernel").context("it is listed below it")?;
        copy(&root().join(&file), &folder.join(below))?;
    }
    let conf = fs::read_to_string(folder.join("dkms.conf")).context("reading dkms.conf")?;
    let version = format!("PACKAGE_VERSION=\"{}\"", version()?);
    ensure!(conf.contains(&version), "node/kernel/dkms.conf does not say {version}");
    Ok(())
}

/// Files of `node/kernel`; without git, as in a tarball, all that no build has made.
fn sources() -> Result<Vec<String>> {
    if root().join(".git").exists() {
        let list = read(&mut program("git", ["ls-files", "node/kernel"]))?;
        return Ok(list.lines().map(str::to_owned).collect());
    }
    let mut files = Vec::new();
    let mut folders = vec![root().join("node/kernel")];
    while let Some(folder) = folders.pop() {
        for path in files_in(&folder)? {
            let made = [".o", ".ko", ".cmd", ".mod", ".mod.c", ".symvers", ".order"];
            let name = path.to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !made.iter().any(|end| name.ends_with(end)) {
                let below = path.strip_prefix(root()).context("it was found below the root")?;
                files.push(below.to_string_lossy().into_owned());
            }
        }
    }
    Ok(files)
}

/// A program without what only debuggers read.
fn stripped(file: &Path) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("a folder for the program without its symbols")?;
    let small = folder.path().join("program");
    // Its list of crates (`.dep-v0`, of cargo auditable) stays: it is loaded.
    run(program("strip", ["--strip-all", "-o"]).arg(&small).arg(file))?;
    fs::read(&small).with_context(|| format!("reading {}", small.display()))
}

fn executable(bytes: &[u8], to: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    put(bytes, to)?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(to, mode).with_context(|| format!("making {} a program", to.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    put(&bytes, to)
}

/// One of our programs that was just put into place.
fn program_at(path: &Path, words: &[&str]) -> Command {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    program(&path.to_string_lossy(), words.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_along_as_it_is_is_there() {
        for (from, _) in FILES {
            assert!(root().join(from).is_file(), "{from}");
        }
        let sources = sources().unwrap();
        for file in
            ["node/kernel/dkms.conf", "node/kernel/osnode/Kbuild", "node/kernel/uapi/parasc.h"]
        {
            assert!(sources.iter().any(|source| source == file), "{file}");
        }
        assert!(!sources.iter().any(|source| source.ends_with(".ko")));
    }

    #[test]
    fn each_program_is_one_of_its_crate_with_these_features() {
        let metadata = metadata().unwrap();
        for (package, name, features) in PROGRAMS {
            let package = metadata.packages.iter().find(|one| *one.name == package).expect(package);
            let is_it = |target: &cargo_metadata::Target| target.is_bin() && target.name == name;
            assert!(package.targets.iter().any(is_it), "{name}");
            for feature in features.split(',').filter(|feature| !feature.is_empty()) {
                assert!(package.features.contains_key(feature), "{name} {feature}");
            }
        }
    }

    /// A key that the page lacks is one that nobody finds.
    #[test]
    fn the_page_of_the_machine_file_has_every_key() {
        let source = root().join("node/node/src/machine/file.rs");
        let source = fs::read_to_string(source).unwrap();
        let page = fs::read_to_string(root().join("apps/cli/kumiki-machine.5")).unwrap();
        let mut keys = 0;
        for table in ["struct ImageTable {", "struct NodeTable {"] {
            let fields = source.split(table).nth(1).expect(table).split('}').next().unwrap();
            for field in fields.lines().filter(|line| !line.trim().starts_with('#')) {
                let Some((key, _)) = field.trim().split_once(": ") else { continue };
                let named = page.lines().any(|line| {
                    let item = line.strip_prefix(".It Sy ");
                    item.is_some_and(|keys| keys.split([' ', ',']).any(|word| word == key))
                });
                assert!(named, "{table} {key}");
                keys += 1;
            }
        }
        assert!(keys > 15, "{keys}");
    }
}
