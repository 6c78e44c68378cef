//! Tokio's own tests of files, of the release that this crate is built with, with the functions of this
//! crate under tokio's names.
//!
//! Its sources are where cargo has them; a crate is made of those tests and built. A test is held, or
//! stands in [`NOT_HELD`](held::NOT_HELD) with the reason: one that a later release of tokio has more
//! fails this one until somebody has looked at it.

mod held;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use source::Source;

/// The made crate's library: what this crate has in place of tokio's. A file is read by
/// [`Reader`](kumiki_tokio::Reader).
const NAMES: &str = include_str!("names.rs");
/// `nobody`, who may not read everything, as root may.
const NOBODY: u32 = 65_534;

#[test]
#[ignore = "builds tokio with its tests, a minute or more: `cargo xtask test long`, after a change to this crate or another release of tokio"]
fn tokio_s_own_tests_of_files_pass() {
    let tokio = Package::of_tokio();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tokio-suite");
    let _ = fs::remove_dir_all(folder.join("tests"));
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::create_dir_all(folder.join("tests")).unwrap();
    let own = env!("CARGO_MANIFEST_DIR");
    let version = &tokio.version;
    let manifest = format!(
        "[package]\nname = \"kumiki-names\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [workspace]\n[dependencies]\n\
         kumiki-tokio = {{ path = {own:?}, features = [\"tokio\"] }}\n\
         tokio = {{ version = \"={version}\", features = [\"full\"] }}\n\
         [dev-dependencies]\nfutures = \"0.3\"\nlibc = \"0.2\"\ntempfile = \"3\"\ntokio-test = \"0.4\"\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src/lib.rs"), NAMES).unwrap();

    let mut held = BTreeSet::new();
    let mut unknown: BTreeSet<String> =
        held::NOT_HELD.iter().map(|(file, test, _)| format!("{file} {test}")).collect();
    for file in tokio.tests() {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let mut source = Source::of(&fs::read_to_string(&file).unwrap());
        let whole = unknown.remove(&format!("{name} *"));
        source.tests.retain(|test| {
            let listed = unknown.remove(&format!("{name} {}", test.name));
            assert!(!(whole && listed), "{name}: {} is listed twice", test.name);
            !(whole || listed || test.is_of_windows)
        });
        held.extend(source.tests.iter().map(|test| format!("{name} {}", test.name)));
        if !source.tests.is_empty() {
            fs::write(folder.join("tests").join(&name), source.text()).unwrap();
        }
    }
    assert!(unknown.is_empty(), "tokio {version} has no such tests: {unknown:?}");
    assert!(held.len() >= held::LEAST, "only {} tests are left", held.len());

    let passed = run(&folder);
    let missing: Vec<_> = held.difference(&passed).collect();
    assert!(missing.is_empty(), "did not pass: {missing:?}");
    println!("{} of tokio {version}'s tests of files pass:", passed.len());
    passed.iter().for_each(|test| println!("  {test}"));
}

/// Builds the crate and runs its tests; those that passed.
fn run(folder: &Path) -> BTreeSet<String> {
    let cargo = |words: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(folder).args(words).env("CARGO_TARGET_DIR", folder.join("target"));
        let output = cargo.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        if !output.status.success() {
            let messages = said.lines().filter_map(|line| serde_json::from_str(line).ok());
            for message in messages.map(|it: serde_json::Value| it["message"]["rendered"].clone()) {
                println!("{}", message.as_str().unwrap_or_default());
            }
            let why = String::from_utf8_lossy(&output.stderr);
            panic!("cargo {words:?}: {}\n{why}", output.status);
        }
        said
    };
    let built = cargo(&["test", "--tests", "--no-run", "--message-format", "json"]);
    let temporary = tempfile::tempdir().unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut passed = BTreeSet::new();
    for line in built.lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_test = message["target"]["kind"][0] == "test";
        let (Some(program), true) = (message["executable"].as_str(), is_test) else { continue };
        let file = format!("{}.rs", message["target"]["name"].as_str().unwrap());
        // Where anybody may execute it.
        let copy = temporary.path().join(&file);
        fs::copy(program, &copy).unwrap();
        let mut command = Command::new(&copy);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY).current_dir("/");
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{file}: {}\n{said}", output.status);
        let passing =
            said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
        // `should_panic` is said behind the name.
        passed.extend(passing.map(|test| format!("{file} {}", test.split(' ').next().unwrap())));
    }
    passed
}

/// A package that cargo has fetched.
struct Package {
    version: String,
    folder: PathBuf,
}

impl Package {
    fn of_tokio() -> Package {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--format-version", "1", "--manifest-path"]);
        let output =
            cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let tokio = all["packages"].as_array().unwrap().iter().find(|it| it["name"] == "tokio");
        let tokio = tokio.expect("this crate is built with tokio");
        let manifest = Path::new(tokio["manifest_path"].as_str().unwrap());
        let version = tokio["version"].as_str().unwrap().to_owned();
        Package { version, folder: manifest.parent().unwrap().to_owned() }
    }

    /// Its tests of files.
    fn tests(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.join("tests")).unwrap();
        let mut all: Vec<PathBuf> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name.starts_with("fs") && name.ends_with(".rs")
            })
            .collect();
        all.sort();
        all
    }
}
