//! `cargo xtask capi`: the libraries, headers and pkg-config file for C.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use cargo_metadata::semver::Version;

use crate::run::{cargo, metadata, program, root, run};

/// What a program must be linked with beside `libkumiki.a`: what
/// `rustc --print native-static-libs` says for this target, but for `-lgcc_s`. C
/// compilers add what unwinds by themselves, and with `-static` it is another library.
const LIBS_PRIVATE: &str = "-lutil -lrt -lpthread -lm -ldl -lc";

/// Addresses that the dynamic linker puts in place as a map of bits, half a megabyte less: glibc reads it
/// since 2.36, which is Debian 12's.
pub const RELOCATIONS: &str = "link-arg=-Wl,-z,pack-relative-relocs";

/// `kumiki.pc`, before its fields are filled in.
const TEMPLATE: &str = "lib/capi/kumiki.pc.in";

/// Where what is installed goes, and where it will be looked for.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
    /// Writes everything below this folder, which stands for the root (packagers' DESTDIR)
    #[arg(long, value_name = "DIR")]
    pub staging: Option<PathBuf>,
    /// Installs below this folder, which is made if need be
    #[arg(long, value_name = "DIR")]
    pub prefix: PathBuf,
    /// Where libraries go [default: PREFIX/lib]
    #[arg(long, value_name = "DIR")]
    pub libdir: Option<PathBuf>,
}

impl Place {
    /// Where a path of the finished system is written to now.
    pub fn now(&self, path: &Path) -> PathBuf {
        let below_root = path.strip_prefix("/").unwrap_or(path);
        self.staging.as_ref().map_or_else(|| path.to_owned(), |root| root.join(below_root))
    }

    fn libdir(&self) -> PathBuf {
        self.libdir.clone().unwrap_or_else(|| self.prefix.join("lib"))
    }
}

/// Builds the libraries by this profile and installs everything into this place; with `places`, the library
/// of places instead.
pub fn capi(mut place: Place, profile: &str, places: bool) -> Result<ExitCode> {
    let prefix = absolute(&place.prefix);
    place.prefix = prefix.with_context(|| format!("prefix {}", place.prefix.display()))?;
    match places {
        true => install_places(&place, profile)?,
        false => install(&place, profile)?,
    }
    println!("installed into {}", place.now(&place.prefix).display());
    Ok(ExitCode::SUCCESS)
}

/// Builds the library that is installed.
pub fn build(profile: &str) -> Result<()> {
    // The archive alone: with a library for Rust beside it cargo does not optimize across crates.
    run(&mut cargo(&format!(
        "rustc --package kumiki-capi --lib --crate-type staticlib --profile {profile} --locked"
    )))
}

/// The same into any place.
pub fn install(place: &Place, profile: &str) -> Result<()> {
    let metadata = metadata()?;
    let package = metadata.packages.iter().find(|package| package.name == "kumiki-capi");
    let version = &package.context("the workspace has no kumiki-capi")?.version;
    // Before the long build: a prefix that cannot be written down.
    let pc = pkg_config(place, &version.to_string(), TEMPLATE)?;

    build(profile)?;
    // The one profile whose folder is called otherwise.
    let folder = if profile == "dev" { "debug" } else { profile };
    let built = metadata.target_directory.join(folder);
    headers(place, "lib/capi")?;
    let lib = place.now(&place.libdir());
    // Static programs are linked by names, which stay; what a debugger reads goes.
    let archive = stripped(built.join("libkumiki_c.a").as_std_path(), "--strip-debug")?;
    put(&archive, &lib.join("libkumiki.a"))?;
    let folder = tempfile::tempdir().context("a folder for the shared library")?;
    let file = folder.path().join("libkumiki.so");
    link_shared(
        program("cc", [""; 0]).args(old_names()?),
        built.join("libkumiki_c.a").as_std_path(),
        &file,
    )?;
    shared(&file, "libkumiki.so", version, &lib)?;
    put(pc.as_bytes(), &lib.join("pkgconfig/kumiki.pc"))?;
    for name in ["kumiki-config.cmake", "kumiki-config-version.cmake"] {
        let text = cmake(place, version, &format!("lib/capi/{name}.in"))?;
        put(text.as_bytes(), &lib.join("cmake/kumiki").join(name))?;
    }
    Ok(())
}

/// Builds the library of places, which others do without, and installs it.
pub fn install_places(place: &Place, profile: &str) -> Result<()> {
    let metadata = metadata()?;
    let package = metadata.packages.iter().find(|package| package.name == "kumiki-capi-places");
    let version = &package.context("the workspace has no kumiki-capi-places")?.version;
    let pc = pkg_config(place, &version.to_string(), "lib/capi-places/kumiki-places.pc.in")?;
    run(&mut cargo(&format!(
        "build --package kumiki-capi-places --lib --profile {profile} --locked"
    )))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let built = metadata.target_directory.join(folder).join("libkumiki_places_c.so");
    headers(place, "lib/capi-places")?;
    let lib = place.now(&place.libdir());
    shared(built.as_std_path(), "libkumiki-places.so", version, &lib)?;
    put(pc.as_bytes(), &lib.join("pkgconfig/kumiki-places.pc"))
}

/// Builds the library that `kumiki ahead` puts in front of programs, and installs it under its one name: nobody links it.
pub fn install_ahead(place: &Place, profile: &str) -> Result<()> {
    let metadata = metadata()?;
    run(&mut cargo(&format!(
        "rustc --package kumiki-ahead --lib --profile {profile} --locked -- -C {RELOCATIONS}"
    )))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let built = metadata.target_directory.join(folder).join("libkumiki_ahead.so");
    let library = stripped(built.as_std_path(), "--strip-unneeded")?;
    put(&library, &place.now(&place.libdir()).join("libkumiki-ahead.so"))
}

/// Installs a crate's headers.
fn headers(place: &Place, of: &str) -> Result<()> {
    let include = place.now(&place.prefix.join("include/kumiki"));
    for header in files_in(&root().join(of).join("include/kumiki"))? {
        put(&fs::read(&header)?, &include.join(header.file_name().expect("a file has a name")))?;
    }
    Ok(())
}

/// Installs a shared library under its names.
fn shared(file: &Path, name: &str, version: &Version, lib: &Path) -> Result<()> {
    let full = format!("{name}.{version}");
    put(&stripped(file, "--strip-unneeded")?, &lib.join(&full))?;
    // The name in the library itself, for running programs; and for linkers.
    let major = format!("{name}.{}", version.major);
    link(&full, &lib.join(&major))?;
    link(&major, &lib.join(name))
}

/// Makes the shared library of the archive: rustc gives its own no versions of names.
pub fn link_shared(cc: &mut Command, archive: &Path, to: &Path) -> Result<()> {
    let metadata = metadata()?;
    let package = metadata.packages.iter().find(|package| package.name == "kumiki-capi");
    let major = package.context("the workspace has no kumiki-capi")?.version.major;
    let map = root().join("lib/capi/kumiki.map");
    let names = fs::read_to_string(&map).context("reading kumiki.map")?;
    ensure!(names.contains(&format!("\nKUMIKI_{major} {{")), "kumiki.map is not of {major}");
    cc.args(["-shared", "-Wl,--gc-sections,--as-needed,-z,relro,-z,now"]);
    cc.arg(format!("-Wl,-soname,libkumiki.so.{major}"));
    cc.arg(format!("-Wl,--version-script={}", map.display())).arg("-o").arg(to);
    cc.arg("-Wl,--whole-archive").arg(archive).args(["-Wl,--no-whole-archive", "-lgcc_s"]);
    run(cc.args(LIBS_PRIVATE.split(' ')))
}

/// Has the shared library the functions' names of version 0.1, too: programs that were linked with it run on.
fn old_names() -> Result<Vec<String>> {
    let include = root().join("lib/capi/include/kumiki");
    let read = |name: &str| fs::read_to_string(include.join(name)).with_context(|| name.to_owned());
    let headers = ["parasc.h", "resource.h", "shadow.h"].map(read);
    let headers = headers.into_iter().collect::<Result<Vec<_>>>()?.concat();
    let renamed = read("old_names.h")?;
    let names = renamed.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    let functions = names.filter(|(_, new)| headers.contains(&format!("{new}(")));
    Ok(functions.map(|(old, new)| format!("-Wl,--defsym={old}={new}")).collect())
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

/// A pkg-config file for this place, of a template.
fn pkg_config(place: &Place, version: &str, template: &str) -> Result<String> {
    let prefix = writable("prefix", &place.prefix)?;
    let libdir = place.libdir();
    // From the prefix on, where it lies below it: a tree that is moved is told once.
    let libdir = match libdir.strip_prefix(&place.prefix) {
        Ok(below) => format!("${{prefix}}/{}", writable("libdir", below)?),
        Err(_) => writable("libdir", &libdir)?.to_owned(),
    };
    let text = fs::read_to_string(root().join(template));
    let template = text.with_context(|| format!("reading {template}"))?;
    let fields = [
        ("@PREFIX@", prefix),
        ("@LIBDIR@", &libdir),
        ("@VERSION@", version),
        ("@LIBS_PRIVATE@", LIBS_PRIVATE),
    ];
    let filled = fields.iter().fold(template, |text, (field, value)| text.replace(field, value));
    Ok(filled)
}

/// A file of CMake's for this place, of a template.
fn cmake(place: &Place, version: &Version, template: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(template));
    let text = text.with_context(|| format!("reading {template}"))?;
    // From the file's own folder, which is two below the libraries', to the prefix.
    let include = match place.libdir().strip_prefix(&place.prefix) {
        Ok(below) => {
            let up = "/..".repeat(below.components().count() + 2);
            format!("${{CMAKE_CURRENT_LIST_DIR}}{up}/include")
        }
        Err(_) => format!("{}/include", writable("prefix", &place.prefix)?),
    };
    // As names: CMake finds what is linked by `-l`.
    let libs = LIBS_PRIVATE.replace("-l", "").replace(' ', ";");
    let fields = [
        ("@INCLUDE@", include),
        ("@LIBS@", libs),
        ("@VERSION@", version.to_string()),
        ("@MAJOR@", version.major.to_string()),
        ("@MINOR@", version.minor.to_string()),
    ];
    Ok(fields.iter().fold(text, |text, (field, value)| text.replace(field, value)))
}

/// A path as a pkg-config file can have it.
fn writable<'a>(what: &str, path: &'a Path) -> Result<&'a str> {
    let text = path.to_str();
    let text = text.with_context(|| format!("pkg-config files are UTF-8, the {what} is not"))?;
    // It would end a word, a line or a variable in that file.
    let bad = |c: char| c.is_whitespace() || "\\\"'$#".contains(c);
    ensure!(!text.contains(bad), "{what} {text:?}: a space, quote, \\, $ or # in it");
    Ok(text)
}

pub fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Puts a file in place of whatever was there, at once: programs that run with
/// the former one keep it.
pub fn put(bytes: &[u8], to: &Path) -> Result<()> {
    // What was built from one that is the same need not be built anew.
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
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

    fn at(prefix: &str, libdir: Option<&str>) -> Place {
        Place { staging: None, prefix: prefix.into(), libdir: libdir.map(Into::into) }
    }

    #[test]
    fn a_package_is_staged_and_names_what_it_will_be() {
        let place = Place { staging: Some("/build".into()), ..at("/usr", Some("/usr/lib/here")) };
        assert_eq!(place.now(&place.libdir()), Path::new("/build/usr/lib/here"));
        let pc = pkg_config(&place, "1", TEMPLATE).unwrap();
        assert!(pc.contains("\nlibdir=${prefix}/lib/here\n"), "{pc}");
        let pc = pkg_config(&at("/usr", Some("/lib64")), "1", TEMPLATE).unwrap();
        assert!(pc.contains("\nlibdir=/lib64\n"), "{pc}");
    }

    #[test]
    fn the_template_is_filled() {
        let pc = pkg_config(&at("/opt/kumiki", None), "1.2.3", TEMPLATE).unwrap();
        assert!(pc.starts_with("prefix=/opt/kumiki\n"), "{pc}");
        assert!(pc.contains("\nVersion: 1.2.3\n") && !pc.contains('@'), "{pc}");
    }

    #[test]
    fn a_prefix_that_pkg_config_would_misread_is_refused() {
        for bad in ["/opt/two words", "/opt/$HOME", "/opt/a#b", "/opt/it's"] {
            assert!(pkg_config(&at(bad, None), "1", TEMPLATE).is_err(), "{bad}");
        }
    }

    #[test]
    fn cmake_finds_headers_from_where_its_file_lies() {
        let text = |libdir| {
            let place = at("/opt/kumiki", libdir);
            cmake(&place, &Version::new(1, 2, 3), "lib/capi/kumiki-config.cmake.in").unwrap()
        };
        assert!(text(None).contains("\"${CMAKE_CURRENT_LIST_DIR}/../../../include\""));
        let multiarch = text(Some("/opt/kumiki/lib/x86_64-linux-gnu"));
        assert!(multiarch.contains("\"${CMAKE_CURRENT_LIST_DIR}/../../../../include\""));
        assert!(text(Some("/lib64")).contains("\"/opt/kumiki/include\""));
        assert!(text(None).contains("libkumiki.so.1\"") && !text(None).contains('@'));
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
