//! `cargo xtask dist --wheel --arch aarch64`: the wheel for Python with glibc on aarch64, made on x86-64.
//!
//! It is tried in Debian's Python for that processor, unpacked into a folder, in QEMU's user emulation. That runs
//! no program of that processor which another one starts, so children are left to the lab's machine
//! (`cargo xtask test arm64`). The same folder has Debian's musl, for the wheel of musl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::arch::Arch;
use crate::capi::{self, files_in};
use crate::debian;
use crate::fresh::archive;
use crate::install::PROFILE;
use crate::run::{cargo, program, read, run, target_folder};
use crate::{size, wheel};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Emulator of user programs for aarch64.
pub(crate) const EMULATOR: &str = "qemu-aarch64-static";
/// The release whose they are.
const SUITE: &str = "bookworm";

/// Work of the wheel there: many files, from this thread and others, and what it cannot do is said by its name.
const SCRIPT: &str = "
import os, platform, sys, tempfile
import kumiki, kumiki.files as files
assert platform.machine() == 'aarch64', platform.machine()
assert 'libkumiki.so' in open('/proc/self/maps').read()
assert files.exists_many(['/', '/nowhere'] * 1000) == [True, False] * 1000
with tempfile.TemporaryDirectory() as folder:
    paths = [os.path.join(folder, str(n)) for n in range(1000)]
    files.write_many((path, path.encode()) for path in paths)
    assert files.read_many(paths) == [path.encode() for path in paths]
    assert [s.st_size for s in files.stat_many(paths)] == [len(path) for path in paths]
    assert sorted(entry.path for entry in files.scandir(folder)) == sorted(paths)
    files.unlink_many(paths)
    assert os.listdir(folder) == []
print('kumiki', kumiki.__version__, 'in Python', sys.version.split()[0], 'on', platform.machine())
";

/// Makes it below `target/dist-files`, and tries it.
pub(crate) fn wheel() -> Result<ExitCode> {
    debian::install("dist")?;
    debian::install("aarch64")?;
    let library = read(&mut program("rustc", ["--print", "target-libdir", "--target", TARGET]))?;
    if !Path::new(library.trim()).is_dir() {
        run(&mut program("rustup", ["target", "add", TARGET]))?;
    }
    let words = format!(
        "rustc --target {TARGET} --package kumiki-capi --lib --crate-type staticlib --profile {PROFILE} --locked"
    );
    run(cargo(&words).env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", gcc()))?;
    let made = tempfile::tempdir().context("a folder for the shared library")?;
    let library = made.path().join("libkumiki.so");
    let built = target_folder()?.join(TARGET).join(PROFILE).join("libkumiki_c.a");
    capi::link_shared(&mut program(&gcc(), []), &built, &library)?;
    run(program(&Arch::Arm.binutil("strip"), ["--strip-unneeded"]).arg(&library))?;
    let folder = target_folder()?.join("dist-files");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let wheel = wheel::wheel(Arch::Arm, &library, &folder)?;
    size::at_most(&wheel, size::WHEEL)?;
    tried(&wheel)?;
    println!("made {}", wheel.display());
    Ok(ExitCode::SUCCESS)
}

fn gcc() -> String {
    Arch::Arm.binutil("gcc")
}

/// Installs it as pip does there, and uses it.
fn tried(wheel: &Path) -> Result<()> {
    let root = debian_of_it()?;
    let name = wheel.file_name().context("a wheel has a name")?.to_string_lossy();
    let platform = name.trim_end_matches(".whl").rsplit('-').next().context("it has a platform")?;
    let folder = tempfile::tempdir().context("a folder to install into")?;
    wheel::taken_for_into(wheel, platform, folder.path())?;
    let mut python = program(EMULATOR, ["-L"]);
    python.arg(&root).arg(root.join("usr/bin/python3")).args(["-c", SCRIPT]);
    let said = read(python.env("PYTHONPATH", folder.path()).env_remove("KUMIKI_LIBRARY"))?;
    ensure!(said.contains(" on aarch64"), "{said}");
    print!("{said}");
    Ok(())
}

/// A folder with Debian's Python and musl for aarch64 and what they need, fetched once.
pub(crate) fn debian_of_it() -> Result<PathBuf> {
    let root = target_folder()?.join("aarch64-debian");
    if root.is_dir() {
        return Ok(root);
    }
    debian::install("debootstrap")?;
    let fetched = tempfile::tempdir_in(target_folder()?).context("a folder for packages")?;
    let folder = fetched.path().to_string_lossy().into_owned();
    let mut fetch =
        program("debootstrap", ["--arch=arm64", "--variant=minbase", "--download-only"]);
    fetch.args(["--include=python3,musl", SUITE, &folder]);
    run(fetch.args(archive()))?;
    let half = target_folder()?.join("aarch64-debian.half");
    let _ = fs::remove_dir_all(&half);
    for deb in files_in(&fetched.path().join("var/cache/apt/archives"))? {
        if deb.extension().is_some_and(|end| end == "deb") {
            run(program("dpkg-deb", ["--extract"]).arg(&deb).arg(&half))?;
        }
    }
    fs::rename(&half, &root).with_context(|| format!("making {}", root.display()))?;
    Ok(root)
}
