//! `cargo xtask dist --musl`: the programs as files that need nothing of the machine but its kernel, and a
//! wheel for Python on musl.

mod test;
mod tools;
mod tried;
mod wheel;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};

pub use self::test::test;
use self::tools::Tools;
use super::install::{self, PROFILE, PROGRAMS, place_of};
use super::{dist, sbom, size};
use crate::arch::Arch;
use crate::run::{program, root, run, target_folder};

/// The programs of the tarball, in whose place no package of Debian's is: `kumiki-ab` is for who wants that
/// alone.
fn programs() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    PROGRAMS.into_iter().chain([("kumiki-ab", AB, "")])
}

const AB: &str = "kumiki-ab";

/// Makes the tarball below `target/dist-files`, and tries it in a root that has nothing else.
pub fn dist(arch: Arch) -> Result<ExitCode> {
    let tools = Tools::ready(arch)?;
    sbom::ready()?;
    for (package, name, features) in programs() {
        let mut build = tools.cargo(
            "auditable build",
            &format!("--package {package} --bin {name} --profile {PROFILE} --locked"),
        );
        if !features.is_empty() {
            build.args(["--features", features]);
        }
        run(&mut build)?;
    }
    let name = format!("kumiki-{}-{}-linux-musl", install::version()?, arch.name());
    let folder = target_folder()?.join("dist-files");
    let tree = folder.join(&name);
    let _ = fs::remove_dir_all(&tree);
    let built = tools.built(PROFILE);
    for (_, name, _) in programs() {
        let to = tree.join(place_of(name));
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::copy(built.join(name), &to).with_context(|| format!("copying {name}"))?;
        size::is_alone(&to)?;
        size::said(&to)?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(licence), tree.join(licence)).context("copying a licence")?;
    }
    let most = if tools.links_alike_once() { size::KUMIKI_STATIC } else { size::KUMIKI_ZIG };
    size::at_most(&tree.join("bin/kumiki"), most)?;
    size::at_most(&tree.join(place_of(install::AGENT)), size::AGENT)?;
    size::at_most(&tree.join(place_of(AB)), size::AB_STATIC)?;
    match arch {
        Arch::X86 => tried::tried(&tree)?,
        Arch::Arm => tried::emulated(&tree)?,
    }
    let names = programs().map(|(_, name, _)| name);
    let lists = sbom::write(&tree, names, &arch.with_musl(), &folder)?;
    let tarball = folder.join(format!("{name}.tar.gz"));
    let mut tar = program("tar", ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mtime", &dist::commit_time()?, "--use-compress-program=gzip -9n", "-cf"]);
    run(tar.arg(&tarball).arg("-C").arg(&folder).arg(&name))?;
    let wheel = wheel::wheel(&tools, &folder)?;
    let made: Vec<_> = [tarball, wheel].into_iter().chain(lists).collect();
    let sums = match arch {
        Arch::X86 => "SHA256SUMS-musl",
        Arch::Arm => "SHA256SUMS-musl-aarch64",
    };
    dist::sums(&folder, sums, &made)?;
    println!("made below {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Makes the wheel alone below `target/dist-files`, and tries it.
pub fn wheel_alone(arch: Arch) -> Result<ExitCode> {
    let folder = target_folder()?.join("dist-files");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let wheel = wheel::wheel(&Tools::ready(arch)?, &folder)?;
    println!("made {}", wheel.display());
    Ok(ExitCode::SUCCESS)
}
