//! Machines of the lab. Most tests share one; where QEMU or Debian's packages
//! cannot be had they say so and pass over, unless `KUMIKI_LAB=required`.

mod commands;
mod files;
mod log;
mod modules;
mod refused;

use std::path::Path;
use std::sync::OnceLock;

use kumiki_lab::{Cache, Config, Error, Kernel, KernelName, Machine, Module, Talk, kbuild};

/// The folder with the tests' own kernel module, and its name there.
const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab");
const PART: &str = "module";

fn cache() -> Cache {
    Cache::of_user().unwrap()
}

fn talk() -> Talk<'static> {
    Talk::to(&|text| eprintln!("{text}"))
}

fn config() -> Config {
    Config::new(env!("CARGO_BIN_EXE_kumiki-lab-agent"))
}

/// A kernel and our module for it.
fn with_module(name: &str) -> Result<(Kernel, Vec<Module>), Error> {
    let kernel = name.parse::<KernelName>()?.get(&cache(), talk())?;
    let files = kbuild::build(&cache(), &kernel, Path::new(TREE), PART, talk())?;
    let file = files[0].display();
    Ok((kernel, vec![format!("{file} answer=42").parse()?]))
}

/// The machine of most tests: Debian 12's kernel with our module in it.
fn machine() -> Option<&'static Machine> {
    static SHARED: OnceLock<Option<Machine>> = OnceLock::new();
    SHARED.get_or_init(|| start("6.1")).as_ref()
}

/// A machine with this kernel, and our module.
fn start(kernel: &str) -> Option<Machine> {
    let machine = with_module(kernel).and_then(|(_, modules)| {
        let kernel = kernel.parse()?;
        // Words that the kernel does not know, and one that lacks its value.
        let append = vec!["no_such_word other=1".into(), "panic_on_warn".into()];
        Machine::start(&cache(), &Config { kernel, modules, append, ..config() }, talk())
    });
    match machine {
        Ok(machine) => Some(machine),
        Err(error) if is_lack(&error) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether this machine merely lacks what a lab needs.
fn is_lack(error: &Error) -> bool {
    let lack = matches!(error, Error::Program { .. } | Error::Package { .. });
    lack && std::env::var_os("KUMIKI_LAB").is_none_or(|value| value != "required")
}
