//! CMake finds what is installed: by the prefix of a tree that was moved, and unasked where a distribution
//! has it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::installed::{prefix, root, scratch, well};

/// A program in C++ with each library.
const LISTS: &str = "cmake_minimum_required(VERSION 3.18)\nproject(user C CXX)\n\
    find_package(kumiki 0.1 REQUIRED)\nset(CMAKE_CXX_STANDARD 17)\n\
    add_executable(shared user.cpp)\ntarget_link_libraries(shared PRIVATE kumiki::kumiki)\n\
    add_executable(archive user.cpp)\ntarget_link_libraries(archive PRIVATE kumiki::static)\n\
    message(\"found ${kumiki_DIR}\")\n\
    find_package(kumiki 7 QUIET)\nif(kumiki_FOUND)\nmessage(FATAL_ERROR \"7?\")\nendif()\n";
const USER: &str = "#include <kumiki/kumiki.hpp>\n\
    int main() { return kumiki::command(\"true\").spawn().wait().code; }\n";

fn write(folder: &Path) {
    fs::write(folder.join("CMakeLists.txt"), LISTS).unwrap();
    fs::write(folder.join("user.cpp"), USER).unwrap();
}

/// The tree is moved, as an unpacked tarball is.
#[test]
fn cmake_finds_the_library_where_it_is() {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let moved = folder.path().join("elsewhere");
    well(Command::new("cp").arg("-a").arg(prefix()).arg(&moved));
    write(folder.path());
    let cmake = |words: &[&str]| {
        let mut command = Command::new("cmake");
        well(command.args(words).env("CMAKE_PREFIX_PATH", &moved).current_dir(&folder));
    };
    cmake(&["-B", "build", "."]);
    cmake(&["--build", "build"]);
    for program in ["shared", "archive"] {
        well(&mut Command::new(folder.path().join("build").join(program)));
    }
}

/// In a root of this system's files with the tree on them: `$1` is the tree, `$2` where that root is seen,
/// `$3` has the program. Programs and libraries are below `/usr`, to which the root has links.
const IN_ROOT: &str = r#"
set -eu
mount -t tmpfs tmpfs "$2"
mkdir "$2/usr" "$2/etc" "$2/dev" "$2/proc" "$2/tmp"
mount -t overlay -o "lowerdir=$1/usr:/usr" overlay "$2/usr"
for name in bin lib lib64 sbin; do
    [ ! -L "/$name" ] || cp -P "/$name" "$2/$name"
done
for name in etc dev proc; do
    mount --rbind "/$name" "$2/$name"
done
cp "$3/CMakeLists.txt" "$3/user.cpp" "$2/tmp"
exec chroot "$2" /bin/sh -euc '
cd /tmp
cmake -B build .
cmake --build build
build/shared
build/archive
readelf --dynamic build/shared
ldd build/shared'
"#;

/// Whether this user may lay a tree over `/usr` in a mount namespace, and `/bin` is below it.
fn may_overlay(folder: &Path) -> bool {
    let at = folder.join("tried");
    fs::create_dir_all(&at).unwrap();
    let line = "[ -L /bin ] && mount -t overlay -o \"lowerdir=$1:/usr\" overlay \"$1\"";
    let mut tried = in_namespaces();
    let tried = tried.args(["sh", "-c", line, "sh"]).arg(&at).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

fn in_namespaces() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation=private", "--map-root-user"]);
    command
}

/// As a package of a Linux distribution has it: nothing says where, and the loader finds it, too.
#[test]
fn cmake_finds_the_library_in_a_system_that_has_it() {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let folder = folder.path();
    if !may_overlay(folder) {
        println!(
            "passed over: this user may lay no tree over /usr, by which a system has the library"
        );
        return;
    }
    let machine = well(Command::new("gcc").arg("-print-multiarch"));
    let libdir = Path::new("/usr/lib").join(machine.trim());
    let (tree, there) = (folder.join("tree"), folder.join("root"));
    fs::create_dir(&there).unwrap();
    // The programs that find it have built the library that this one installs.
    prefix();
    let cargo = std::env::var_os("CARGO").expect("cargo runs its tests with CARGO set");
    let mut install = Command::new(cargo);
    install.args(["xtask", "capi", "--profile", "release", "--prefix", "/usr", "--staging"]);
    well(install.arg(&tree).arg("--libdir").arg(&libdir).current_dir(root()));
    write(folder);
    let mut command = in_namespaces();
    command.args(["sh", "-c", IN_ROOT, "sh"]).args([&tree, &there]).arg(folder);
    let said = well(command.env_remove("CMAKE_PREFIX_PATH").env_remove("LD_LIBRARY_PATH"));
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    assert!(said.contains(&format!("[libkumiki.so.{major}]")), "{said}");
    let library = libdir.join(format!("libkumiki.so.{major}"));
    // /lib is /usr/lib, and the loader says either.
    let library = library.strip_prefix("/usr").unwrap().display();
    let is_said = |before: &str| said.contains(&format!("=> {before}/{library}"));
    assert!(is_said("") || is_said("/usr"), "{said}");
}
