//! Embeds the reference results, and the commit that the tool is built from.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const REFERENCES: &str = "references";

/// In a tarball that `git archive` made, git has put the commit here.
const ARCHIVED: &str = "commit.txt";

fn main() {
    for name in ["build.rs", REFERENCES, ARCHIVED] {
        println!("cargo::rerun-if-changed={name}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    fs::write(out.join("references.rs"), references()).expect("OUT_DIR can be written");
    if let Some(commit) = archived().or_else(checked_out) {
        println!("cargo::rustc-env=KUMIKI_COMMIT={commit}");
    }
}

/// A static with each reference's name and its packed bytes.
fn references() -> String {
    let folder =
        Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where")).join(REFERENCES);
    let files = fs::read_dir(&folder).expect("the folder of references is there");
    let mut names: Vec<String> = files
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".json.xz").map(str::to_owned))
        .collect();
    names.sort();
    let mut code = format!("static ALL: [Reference; {}] = [\n", names.len());
    for name in names {
        let path = folder.join(format!("{name}.json.xz"));
        println!("cargo::rerun-if-changed={}", path.display());
        // Writing to a String cannot fail.
        let _ = writeln!(code, "Reference::new({name:?}, include_bytes!({path:?})),");
    }
    code + "];\n"
}

fn archived() -> Option<String> {
    let text = fs::read_to_string(ARCHIVED).ok()?;
    let text = text.trim();
    // Git has not replaced it in a clone.
    (!text.is_empty() && !text.contains('$')).then(|| text.to_owned())
}

/// The commit of the clone that this crate lies in; nothing where git or the
/// clone is missing, or where another project's clone lies around a tarball.
fn checked_out() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // Grows with each commit and each change of branch.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
