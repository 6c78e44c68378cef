//! gnulib's tests of posix_spawn(3).

use std::fs;
use std::path::Path;

use crate::build::{Suite, folder, folders, root};

const TESTS: &str = "/usr/share/gnulib/tests";

#[test]
fn gnulib_s_tests_of_posix_spawn_hold() {
    let folder = folder();
    folders(folder.path());
    let own = folder.path().join("include");
    fs::create_dir(&own).unwrap();
    fs::write(
        own.join("config.h"),
        "#include <stdbool.h>\n#define _GL_UNUSED __attribute__((unused))\n",
    )
    .unwrap();
    // Beside the programs, where these look for them.
    for entry in fs::read_dir(TESTS).expect("package gnulib").map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let script = name.starts_with("executable-") || name.ends_with(".in.sh");
        if script {
            for kind in ["libc", "kumiki"] {
                let to = folder.path().join(kind).join(name.replace(".in.sh", ".sh"));
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let names = |name: &str| name.starts_with("test-posix_spawn") || name == "test-spawn.c";
    let entries = fs::read_dir(TESTS).unwrap().map(|entry| entry.unwrap().path());
    let is_test = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|end| end == "c")
            && names(path.file_name().unwrap().to_str().unwrap())
    };
    let mut sources: Vec<_> = entries.filter(is_test).collect();
    sources.sort();
    let include = |path: &Path| format!("-I{}", path.display());
    let flags = vec![
        include(&own),
        include(&root().join("tests/capi/peers")),
        include(Path::new(TESTS)),
        "-DEXEEXT=\"\"".to_owned(),
        "-DSRCDIR=\"./\"".to_owned(),
        "-DBOURNE_SHELL=\"/bin/sh\"".to_owned(),
    ];
    let args = |_: &str| Vec::new();
    Suite { name: "gnulib", sources, flags, with: [None, None], args, folder: folder.path() }.run();
}
