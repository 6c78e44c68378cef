//! `--module parasc`: a module of ours, built for the machine's kernel from sources that are
//! part of this program.

use anyhow::{Context, Result, ensure};
use kumiki_lab::{Arch, Cache, KernelName, Module, Talk, kbuild};

use crate::output;

/// Its name, and the folder of its sources.
const NAME: &str = "parasc";

const SOURCES: [(&str, &str); 11] = [
    ("parasc/Kbuild", include_str!("../../kernel/parasc/Kbuild")),
    ("parasc/call.c", include_str!("../../kernel/parasc/call.c")),
    ("parasc/calls.h", include_str!("../../kernel/parasc/calls.h")),
    ("parasc/device.c", include_str!("../../kernel/parasc/device.c")),
    ("parasc/line.c", include_str!("../../kernel/parasc/line.c")),
    ("parasc/module.h", include_str!("../../kernel/parasc/module.h")),
    ("parasc/mwait.c", include_str!("../../kernel/parasc/mwait.c")),
    ("parasc/proc.c", include_str!("../../kernel/parasc/proc.c")),
    ("parasc/wait.c", include_str!("../../kernel/parasc/wait.c")),
    ("osnode/symbols.h", include_str!("../../kernel/osnode/symbols.h")),
    ("uapi/parasc.h", include_str!("../../kernel/uapi/parasc.h")),
];

/// Puts files in the place of modules that are ours: no kernel has one of this name.
pub(super) fn with_ours(modules: Vec<Module>, kernel: &KernelName) -> Result<Vec<Module>> {
    let ours = |module: Module| match module.source() {
        NAME => Ok(module.from_file(&built(kernel)?)),
        _ => Ok(module),
    };
    modules.into_iter().map(ours).collect()
}

fn built(kernel: &KernelName) -> Result<std::path::PathBuf> {
    let arch = kernel.arch();
    ensure!(
        arch == Arch::Amd64,
        "--module {NAME}: it is for x86-64, the machine is {}",
        arch.name()
    );
    let (cache, talk) = (Cache::of_user()?, Talk::to(&|text| output::talk(text)));
    let kernel = kernel.get(&cache, talk)?;
    let sources = SOURCES.map(|(path, text)| (path.into(), text.as_bytes().to_vec()));
    let modules = kbuild::build_from(&cache, &kernel, &sources, NAME, talk)?;
    let found = modules.into_iter().find(|path| path.ends_with("parasc.ko"));
    found.with_context(|| format!("the build for {} gave no parasc.ko", kernel.version))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_source_of_the_module_is_brought_along() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../node/kernel");
        let files = fs::read_dir(tree.join(NAME)).unwrap().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        // The Makefile is for people.
        let is_source =
            |name: &String| ["c", "h", "Kbuild"].contains(&name.rsplit('.').next().unwrap());
        let there: BTreeSet<_> =
            names.filter(is_source).filter(|name| !name.ends_with(".mod.c")).collect();
        let brought = SOURCES.iter().filter_map(|(path, _)| path.strip_prefix("parasc/"));
        assert_eq!(there, brought.map(str::to_owned).collect());
    }

    #[test]
    fn a_module_of_the_kernel_s_own_stays_as_it_is() {
        let module: Module = "dummy numdummies=2".parse().unwrap();
        let modules = with_ours(vec![module.clone()], &KernelName::default()).unwrap();
        assert_eq!(modules, [module]);
    }
}
