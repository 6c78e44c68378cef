//! The package for Python with its own libkumiki, and a test of it in environments of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};

use crate::arch::Arch;
use crate::capi::files_in;
use crate::run::{program, read, root, run, succeeds};

/// Versions of Python that it is tried with, where they are.
const PYTHONS: [&str; 5] = ["3.11", "3.12", "3.13", "3.14", "3.15"];

/// Uses of it: a child of posix_spawn's kind, one by the server, one of asyncio, many files, a template; and
/// where pytest finds its plugin.
const SCRIPT: &str = "
import asyncio, importlib.metadata, importlib.util, sys
import kumiki, kumiki.aio, kumiki.files
assert 'site-packages' in kumiki.__file__
assert kumiki.run(['sh', '-c', 'umask; exit 3'], umask=0o77, capture_output=True).stdout == b'0077\\n'
async def aside():
    child = await kumiki.aio.create_subprocess_exec('cat', stdin=-1, stdout=-1)
    return (await child.communicate(b'aside'))[0]
assert asyncio.run(aside()) == b'aside'
assert kumiki.files.exists_many(['/', '/nowhere'] * 100) == [True, False] * 100
with kumiki.Template(['json']) as template:
    assert template.run(len, 'abc') == 3
(plugin,) = importlib.metadata.entry_points(group='pytest11', name='kumiki')
assert 'site-packages' in importlib.util.find_spec(plugin.value).origin
print(sys.version.split()[0], kumiki.check_output(['echo', 'fine']))
";

/// A program that is not changed.
const UNCHANGED: &str = "import subprocess; print(subprocess.check_output(['echo', 'under it']), \
                         subprocess.Popen._execute_child.__module__)";

/// Debian's, for which its packages pip, setuptools and wheel are: another one may stand before it in
/// PATH.
const PYTHON: &str = "/usr/bin/python3";

/// Makes the wheel around a library that was built before.
pub(super) fn wheel(arch: Arch, library: &Path, folder: &Path) -> Result<PathBuf> {
    packed(library, &platform(arch, &needed_glibc(arch, library)?), folder)
}

/// Makes one for a platform by its name.
pub(super) fn packed(library: &Path, platform: &str, folder: &Path) -> Result<PathBuf> {
    let made = tempfile::tempdir().context("a folder for the wheel")?;
    let mut pip = program(PYTHON, ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]);
    pip.args(["--no-build-isolation", "--wheel-dir"]).arg(made.path());
    pip.arg(root().join("lib/python"));
    run(pip.env("KUMIKI_LIBRARY", library).env("KUMIKI_WHEEL_PLATFORM", platform))?;
    let wheel = files_in(made.path())?.pop().context("pip made no wheel")?;
    let name = wheel.file_name().context("a file has a name")?;
    let said = name.to_string_lossy();
    ensure!(said.ends_with(&format!("-py3-none-{platform}.whl")), "{said} is not for {platform}");
    let to = folder.join(name);
    fs::copy(&wheel, &to).with_context(|| format!("copying {said}"))?;
    Ok(to)
}

/// The newest version of the C library that one of its symbols asks for.
fn needed_glibc(arch: Arch, library: &Path) -> Result<[u32; 2]> {
    let mut objdump = program(&arch.binutil("objdump"), ["--dynamic-syms"]);
    let symbols = read(objdump.arg(library))?;
    newest(&symbols).with_context(|| format!("{}: no symbol of a glibc", library.display()))
}

fn newest(symbols: &str) -> Option<[u32; 2]> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let version = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut parts = version.split('.').map(|part| part.parse().ok());
        Some([parts.next()??, parts.next()??])
    });
    versions.max()
}

/// A name that pip compares with the C library that it finds: musl's is refused by it.
fn platform(arch: Arch, [major, minor]: &[u32; 2]) -> String {
    format!("manylinux_{major}_{minor}_{}", arch.name())
}

/// Installs the wheel into an environment of its own for each Python that is here.
pub(super) fn tried(wheel: &Path) -> Result<()> {
    let mut tried = 0;
    for python in PYTHONS.iter().filter_map(|version| python(version)) {
        let folder = tempfile::tempdir().context("a folder for an environment of Python's")?;
        run(program(&python, ["-m", "venv"]).arg(folder.path()))?;
        let inside = folder.path().join("bin/python").to_string_lossy().into_owned();
        run(program(&inside, ["-m", "pip", "install", "--quiet", "--no-index"]).arg(wheel))?;
        let said = |words: &[&str]| {
            let mut run = program(&inside, words.iter().copied());
            read(run.env_remove("PYTHONPATH").env_remove("KUMIKI_LIBRARY"))
        };
        let used = said(&["-c", SCRIPT])?;
        ensure!(used.contains("b'fine\\n'"), "{python}: {used}");
        let under = said(&["-m", "kumiki", "-c", UNCHANGED])?;
        ensure!(under.trim() == "b'under it\\n' kumiki._instead", "{python}: {under}");
        // Programs to copy, as the documents have them.
        let programs = root().join("lib/python/tests/test_programs.py");
        said(&[&programs.to_string_lossy()])
            .with_context(|| format!("{python}: programs to copy"))?;
        print!("{used}");
        tried += 1;
    }
    ensure!(tried > 0, "none of {PYTHONS:?} is here to try the wheel");
    refused_on_musl(wheel)
}

/// A Python of this version: the system's, or one that pyenv keeps.
fn python(version: &str) -> Option<String> {
    let name = format!("python{version}");
    if succeeds(&mut program(&name, ["--version"])) {
        return Some(name);
    }
    let kept = read(&mut program("pyenv", ["prefix", version])).ok()?;
    Some(format!("{}/bin/{name}", kept.trim()))
}

/// Asks pip for an installation on another platform, into a folder.
fn installed_for(platform: &str, wheel: &Path, folder: &Path) -> Result<Output> {
    let mut pip = program(PYTHON, ["-m", "pip", "install", "--no-index", "--no-deps"]);
    pip.args(["--only-binary=:all:", "--platform", platform, "--target"]);
    pip.arg(folder).arg(wheel).output().context("running pip")
}

/// Has pip take the wheel for a platform that this machine is not.
pub(super) fn taken_for(wheel: &Path, platform: &str) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder to install into")?;
    taken_for_into(wheel, platform, folder.path())
}

/// Has pip install it into this folder for a platform that this machine is not.
pub(super) fn taken_for_into(wheel: &Path, platform: &str, folder: &Path) -> Result<()> {
    let output = installed_for(platform, wheel, folder)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pip refused the wheel for {platform}: {said}");
    let library = folder.join("kumiki/libkumiki.so");
    ensure!(library.is_file(), "the wheel has no library");
    Ok(())
}

/// Asks pip for an installation on another C library, which it refuses by the wheel's name.
fn refused_on_musl(wheel: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder that stays empty")?;
    let output = installed_for("musllinux_1_2_x86_64", wheel, folder.path())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && said.contains("is not a supported wheel on this platform"),
        "pip took the wheel for musl: {said}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_says_which_c_library_it_needs() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) read\n0 DF *UND* 0 (GLIBC_2.34) dlsym\n\
                       0 DF *UND* 0 (GLIBC_2.9) x\n0 D (GLIBC_PRIVATE) y\n";
        assert_eq!(newest(symbols), Some([2, 34]));
        assert_eq!(platform(Arch::X86, &[2, 34]), "manylinux_2_34_x86_64");
        assert_eq!(platform(Arch::Arm, &[2, 17]), "manylinux_2_17_aarch64");
        assert_eq!(newest("no symbols"), None);
    }
}
