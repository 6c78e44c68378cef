//! Source packages of the Debian that this is, fetched once by apt, with the index of its own archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package's unpacked source; none, said why, where this is no Debian with `dpkg-source`.
pub(crate) fn of(package: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ahead-suites").join(package);
    let find = || {
        let mut entries = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
        entries
            .find(|path| ["configure", "configure.ac"].iter().any(|name| path.join(name).exists()))
    };
    if let Some(source) = find() {
        return Some(source);
    }
    let Some(archive) = archive() else {
        println!(
            "passed over: {package}'s tests are in Debian's source package, and this is no Debian"
        );
        return None;
    };
    let lists = folder.join("lists");
    fs::create_dir_all(lists.join("partial")).unwrap();
    let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let list = folder.join("source.list");
    fs::write(&list, format!("deb-src [signed-by={key}] {archive}\n")).unwrap();
    for words in [&["update"][..], &["source", package]] {
        let output = Command::new("apt-get")
            .args(["-o", "Dir::Etc::SourceParts=/dev/null"])
            .args(["-o", &format!("Dir::Etc::SourceList={}", list.display())])
            .args(["-o", &format!("Dir::State::Lists={}", lists.display())])
            .args(words)
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "apt-get {words:?} with deb-src of {archive}: {said}");
    }
    Some(find().unwrap_or_else(|| panic!("{package}'s source is built by configure or make")))
}

/// The main archive that apt has: address, release and component.
fn archive() -> Option<String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(ORIGIN)|$(REPO_URI) $(RELEASE) $(COMPONENT)"])
        .arg("Created-By: Packages")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut archives = text.lines().filter_map(|line| line.strip_prefix("Debian|"));
    archives.find(|line| line.ends_with(" main") && !line.contains('-')).map(str::to_owned)
}
