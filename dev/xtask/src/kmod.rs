//! `cargo xtask kmod`: the kernel modules under `node/kernel/`, for stock kernels; and their tests
//! on one that looks for its own faults.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use kumiki_lab::{Cache, KernelName, Talk, kbuild};

use crate::debian;
use crate::run::{cargo, root, run, target_folder};

/// What is built for without being asked: a kernel for each way to build.
const KERNELS: [&str; 2] = ["6.1", "6.12"];

/// Builds every part for each of these kernels, and puts the modules into
/// `kmod/VERSION` in cargo's target folder.
pub(crate) fn kmod(kernels: &[KernelName]) -> Result<ExitCode> {
    let tree = root().join("node/kernel");
    let parts = parts(&tree)?;
    ensure!(!parts.is_empty(), "no folder of {} has a Kbuild", tree.display());
    let own: Vec<KernelName> = KERNELS.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let cache = Cache::of_user()?;
    let talk = Talk::to(&|text| eprintln!("{text}"));
    for name in if kernels.is_empty() { &own } else { kernels } {
        let kernel = name.get(&cache, talk)?;
        let target = target_folder()?.join("kmod").join(&kernel.version);
        fs::create_dir_all(&target).with_context(|| format!("making {}", target.display()))?;
        for part in &parts {
            for module in kbuild::build(&cache, &kernel, &tree, part, talk)? {
                let copy = target.join(module.file_name().context("a module has a name")?);
                fs::copy(&module, &copy).with_context(|| format!("writing {}", copy.display()))?;
                println!("{}", copy.display());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A kernel that looks for its own faults, by the lab's name for it.
pub(crate) const DEBUG_KERNEL: &str = "6.12-debug";

/// Builds such a kernel, if it has not been, and runs the tests of `parasc.ko` on it, or those
/// that have one of these words in their names.
pub(crate) fn tested_on_debug_kernel(kernel: &KernelName, words: &[String]) -> Result<ExitCode> {
    debian::install("lab")?;
    let talk = Talk::to(&|text| eprintln!("{text}"));
    kernel.get(&Cache::of_user()?, talk)?;
    let mut tests = cargo("test --locked --package kumiki-cli --test lab --");
    if words.is_empty() {
        tests.arg("parasc::");
    }
    // One machine at a time: each is slow enough.
    tests.args(words).args(["--test-threads", "1", "--nocapture"]);
    run(tests.env("KUMIKI_LAB", "required").env("KUMIKI_LAB_KERNEL", kernel.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// The folders that a module is built in.
fn parts(tree: &PathBuf) -> Result<Vec<String>> {
    let entries = fs::read_dir(tree).with_context(|| format!("reading {}", tree.display()))?;
    let with_kbuild = entries.flatten().filter(|entry| entry.path().join("Kbuild").exists());
    let mut parts: Vec<_> =
        with_kbuild.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    parts.sort();
    Ok(parts)
}
