//! Two major versions of libkumiki in one program, as a plugin's may be another than its host's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{dynamic, prefix, root, well};
use crate::python::python;

const MAJOR: &str = env!("CARGO_PKG_VERSION_MAJOR");

/// The next major version, of the same archive, in this folder.
fn next_version(folder: &Path) -> PathBuf {
    let map = fs::read_to_string(root().join("lib/capi/kumiki.map")).unwrap();
    let renamed = map.replace(&format!("KUMIKI_{MAJOR} {{"), "KUMIKI_99 {");
    assert_ne!(map, renamed);
    fs::write(folder.join("map"), renamed).unwrap();
    let library = folder.join("libkumiki.so.99");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-Wl,-soname,libkumiki.so.99", "-Wl,--version-script"]);
    gcc.arg(folder.join("map")).arg("-o").arg(&library).arg("-Wl,--whole-archive");
    gcc.arg(prefix().join("lib/libkumiki.a")).args(["-Wl,--no-whole-archive", "-lgcc_s", "-lm"]);
    well(&mut gcc);
    library
}

#[test]
fn every_name_has_the_major_version() {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only"]).arg(prefix().join("lib/libkumiki.so"));
    let said = well(&mut nm);
    let functions = said.lines().filter(|line| line.contains(" T ")).collect::<Vec<_>>();
    assert!(functions.len() > 100, "{said}");
    let version = format!("@@KUMIKI_{MAJOR}");
    assert!(functions.iter().all(|line| line.ends_with(&version)), "{said}");
}

#[test]
fn a_program_and_its_plugin_have_a_version_each() {
    let folder = tempfile::tempdir().unwrap();
    let next = next_version(folder.path());
    let source = root().join("tests/capi/two.c");
    let gcc = |out: &Path| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-pthread"]);
        gcc.arg(&source).arg("-o").arg(out);
        gcc
    };
    let (program, plugin) = (folder.path().join("program"), folder.path().join("plugin.so"));
    well(gcc(&program).args(dynamic()).arg("-ldl"));
    let headers = dynamic().into_iter().filter(|word| word.starts_with("-I"));
    well(gcc(&plugin).args(["-shared", "-fPIC", "-DPLUGIN"]).args(headers).arg(&next).arg("-ldl"));
    let path = format!("{}:{}", prefix().join("lib").display(), folder.path().display());
    let said = well(Command::new(&program).arg(&plugin).env("LD_LIBRARY_PATH", path));
    assert!(said.contains(&format!("libkumiki.so.{MAJOR}\n")), "{said}");
    assert!(said.contains("libkumiki.so.99\n"), "{said}");
}

/// A package that another has brought along, of another version.
#[test]
fn a_python_has_two_packages_with_a_library_each() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["kumiki", "kumiki_next"] {
        let to = folder.path().join(name);
        fs::create_dir(&to).unwrap();
        let from = root().join("lib/python/kumiki");
        for file in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|end| end == "py") {
                fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
            }
        }
    }
    let ours = folder.path().join("kumiki/libkumiki.so");
    fs::copy(prefix().join("lib/libkumiki.so"), ours).unwrap();
    let theirs = folder.path().join("kumiki_next/libkumiki.so");
    fs::rename(next_version(folder.path()), theirs).unwrap();
    let script = r#"
import kumiki, kumiki_next
from concurrent.futures import ThreadPoolExecutor
for each in [kumiki, kumiki_next]:
    each.start_server()
files = [each._library._find() for each in [kumiki, kumiki_next]]
loaded = open("/proc/self/maps").read()
assert files[0] != files[1] and all(file in loaded for file in files), files
def use(each):
    for _ in range(20):
        assert each.check_output(["echo", "fine"]) == b"fine\n"
        assert each.run(["sh", "-c", "exit 3"], umask=0o77).returncode == 3
with ThreadPoolExecutor(4) as pool:
    list(pool.map(use, [kumiki, kumiki_next] * 2))
"#;
    let mut python = python();
    python.env_remove("KUMIKI_LIBRARY").env("PYTHONPATH", folder.path());
    well(python.args(["-c", script]));
}
