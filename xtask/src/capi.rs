//! `cargo xtask capi`: the libraries, headers and pkg-config file for C.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::run::{cargo, metadata, program, root, run};

/// What a program must be linked with beside `libkumiki.a`: what
/// `rustc --print native-static-libs` says for this target, but for `-lgcc_s`. C
/// compilers add what unwinds by themselves, and with `-static` it is another library.
const LIBS_PRIVATE: &str = "-lutil -lrt -lpthread -lm -ldl -lc";

/// Builds the libraries by this profile and installs everything below `prefix`.
pub(crate) fn capi(prefix: &Path, profile: &str) -> Result<ExitCode> {
    let prefix = absolute(prefix).with_context(|| format!("prefix {}", prefix.display()))?;
    let metadata = metadata()?;
    let package = metadata.packages.iter().find(|package| package.name == "kumiki-capi");
    let version = &package.context("the workspace has no kumiki-capi")?.version;
    // Before the long build: a prefix that cannot be written down.
    let pc = pkg_config(&prefix, &version.to_string())?;

    run(&mut cargo(&format!("build --package kumiki-capi --profile {profile} --locked")))?;
    // The one profile whose folder is called otherwise.
    let folder = if profile == "dev" { "debug" } else { profile };
    let built = metadata.target_directory.join(folder);
    let source = root().join("crates/capi");
    let include = prefix.join("include/kumiki");
    for header in files_in(&source.join("include/kumiki"))? {
        put(&fs::read(&header)?, &include.join(header.file_name().expect("a file has a name")))?;
    }
    let lib = prefix.join("lib");
    // Static programs are linked by names, which stay; what a debugger reads goes.
    let archive = stripped(built.join("libkumiki_c.a").as_std_path(), "--strip-debug")?;
    put(&archive, &lib.join("libkumiki.a"))?;
    let full = format!("libkumiki.so.{version}");
    let shared = stripped(built.join("libkumiki_c.so").as_std_path(), "--strip-unneeded")?;
    put(&shared, &lib.join(&full))?;
    // The name in the library itself, for running programs; and for linkers.
    let major = format!("libkumiki.so.{}", version.major);
    link(&full, &lib.join(&major))?;
    link(&major, &lib.join("libkumiki.so"))?;
    put(pc.as_bytes(), &lib.join("pkgconfig/kumiki.pc"))?;

    println!("installed into {}", prefix.display());
    Ok(ExitCode::SUCCESS)
}

/// A library without what only debuggers read, most of its bytes. `strip` is of the
/// binutils, which every C compiler brings.
fn stripped(library: &Path, how: &str) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("a folder for the library without its symbols")?;
    let small = folder.path().join("library");
    let mut strip = program("strip", [how, "-o"]);
    run(strip.arg(&small).arg(library))?;
    fs::read(&small).with_context(|| format!("reading {}", small.display()))
}

/// `kumiki.pc` for this place.
fn pkg_config(prefix: &Path, version: &str) -> Result<String> {
    let prefix = prefix.to_str().context("pkg-config files are UTF-8, the prefix is not")?;
    // It would end a word, a line or a variable in that file.
    let bad = |c: char| c.is_whitespace() || "\\\"'$#".contains(c);
    ensure!(!prefix.contains(bad), "prefix {prefix:?}: a space, quote, \\, $ or # in it");
    let template = root().join("crates/capi/kumiki.pc.in");
    let template = fs::read_to_string(&template).context("reading kumiki.pc.in")?;
    let fields = [("@PREFIX@", prefix), ("@VERSION@", version), ("@LIBS_PRIVATE@", LIBS_PRIVATE)];
    let filled = fields.iter().fold(template, |text, (field, value)| text.replace(field, value));
    Ok(filled)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Puts a file in place of whatever was there, at once: programs that run with
/// the former one keep it.
fn put(bytes: &[u8], to: &Path) -> Result<()> {
    replace(to, |new| fs::write(new, bytes))
}

/// The same for a symbolic link.
fn link(target: &str, at: &Path) -> Result<()> {
    replace(at, |new| symlink(target, new))
}

fn replace(to: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
    let replaced = || {
        fs::create_dir_all(to.parent().expect("a file is in a folder"))?;
        let mut new = to.as_os_str().to_owned();
        new.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(new);
        make(&new)?;
        fs::rename(&new, to)
    };
    replaced().with_context(|| format!("installing {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_filled() {
        let pc = pkg_config(Path::new("/opt/kumiki"), "1.2.3").unwrap();
        assert!(pc.starts_with("prefix=/opt/kumiki\n"), "{pc}");
        assert!(pc.contains("\nVersion: 1.2.3\n") && !pc.contains('@'), "{pc}");
    }

    #[test]
    fn a_prefix_that_pkg_config_would_misread_is_refused() {
        for bad in ["/opt/two words", "/opt/$HOME", "/opt/a#b", "/opt/it's"] {
            assert!(pkg_config(Path::new(bad), "1").is_err(), "{bad}");
        }
    }

    #[test]
    fn what_was_there_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, name) = (folder.path().join("lib/a"), folder.path().join("lib/b"));
        for text in ["first", "second"] {
            put(text.as_bytes(), &file).unwrap();
            link("a", &name).unwrap();
            assert_eq!(fs::read_to_string(&name).unwrap(), text);
        }
        assert_eq!(files_in(&folder.path().join("lib")).unwrap().len(), 2);
    }
}
