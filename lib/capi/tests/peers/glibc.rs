//! glibc's tests of posix_spawn(3), with its support library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{Suite, folder, folders, gcc, root, well};

/// Where the package glibc-source puts it.
const SOURCE: &str = "/usr/src/glibc";
/// What of it is unpacked.
const PARTS: [&str; 4] = ["*/posix/tst-*spawn*", "*/support/*", "*/test-skeleton.c", "*/include/*"];
/// Tests that are none of ours.
const OTHERS: [&str; 2] = [
    // Of symbols of the C library before 2.15.
    "tst-spawn4-compat",
    // tst-spawn, linked otherwise.
    "tst-spawn-static",
];
/// Of the support library what the tests of posix_spawn want.
const SUPPORT: [&str; 28] = [
    "check",
    "oom_error",
    "support-open-dev-null-range",
    "support_quote_blob",
    "support_record_failure",
    "support_test_compare_blob",
    "support_test_compare_failure",
    "support_test_main",
    "support_test_verify_impl",
    "temp_file",
    "write_message",
    "xasprintf",
    "xcalloc",
    "xchdir",
    "xclose",
    "xfclose",
    "xfopen",
    "xfork",
    "xlseek",
    "xmalloc",
    "xmemstream",
    "xmkdir",
    "xopen",
    "xrealloc",
    "xstrdup",
    "xsymlink",
    "xwaitpid",
    "xwrite",
];

fn unpacked(to: &Path) -> PathBuf {
    let archive = fs::read_dir(SOURCE)
        .expect("package glibc-source")
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().is_some_and(|path| path.ends_with(".tar.xz")))
        .expect("an archive in /usr/src/glibc");
    let mut tar = Command::new("tar");
    well(tar.arg("-xJf").arg(archive).arg("-C").arg(to).arg("--wildcards").args(PARTS));
    let tree = fs::read_dir(to).unwrap().map(|entry| entry.unwrap().path());
    tree.into_iter().find(|path| path.join("posix").exists()).expect("a tree of glibc")
}

#[test]
fn glibc_s_tests_of_posix_spawn_hold() {
    let folder = folder();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    let tree = unpacked(&source);
    folders(folder.path());
    // Not its whole folder of headers, which stand in for the installed ones.
    let own = folder.path().join("include");
    fs::create_dir(&own).unwrap();
    for header in ["array_length.h", "intprops.h", "intprops-internal.h"] {
        // The last only from 2.37 on.
        let _ = fs::copy(tree.join("include").join(header), own.join(header));
    }
    fs::write(
        own.join("arch-fd_to_filename.h"),
        "#define FD_TO_FILENAME_PREFIX \"/proc/self/fd/\"\n",
    )
    .unwrap();
    let include = |path: &Path| format!("-I{}", path.display());
    let mut flags = vec![include(&tree), include(&tree.join("support")), include(&own)];
    flags.extend(["-DTIMEOUTFACTOR=3", "-include", "limits.h"].map(str::to_owned));
    flags.push(format!("-DOBJPFX=\"{}/\"", folder.path().display()));

    let mut sources: Vec<_> = fs::read_dir(tree.join("posix"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !OTHERS.contains(&path.file_stem().unwrap().to_str().unwrap()))
        .collect();
    sources.sort();
    let with = [false, true].map(|retarget| Some(support(&tree, &flags, folder.path(), retarget)));
    Suite { name: "glibc", sources, flags, with, args, folder: folder.path() }.run();
}

/// As its Makefile hands over how a program is started: with nothing before it.
fn args(program: &str) -> Vec<&str> {
    vec!["--", program]
}

/// An archive of the support library.
fn support(tree: &Path, flags: &[String], folder: &Path, retarget: bool) -> PathBuf {
    let kind = if retarget { "kumiki" } else { "libc" };
    let objects = folder.join(format!("support-{kind}"));
    fs::create_dir(&objects).unwrap();
    let mut compile = gcc(flags, retarget);
    compile.arg("-c").current_dir(&objects);
    for name in SUPPORT {
        let source = tree.join("support").join(name).with_extension("c");
        if source.exists() {
            compile.arg(source);
        }
    }
    well(compile.arg(root().join("tests/capi/peers/support.c")));
    let archive = folder.join(format!("libsupport-{kind}.a"));
    let mut ar = Command::new("ar");
    ar.arg("rcs").arg(&archive);
    well(ar.args(fs::read_dir(&objects).unwrap().map(|entry| entry.unwrap().path())));
    archive
}
