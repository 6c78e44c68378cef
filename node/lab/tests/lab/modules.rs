//! Modules of our own, built for stock kernels and loaded there.

use kumiki_lab::{Config, Error, Machine};

use crate::{cache, config, is_lack, machine, start, talk, with_module};

const SAYS: &str = "the answer is 42";

#[test]
fn a_module_is_loaded_before_the_first_command() {
    let Some(machine) = machine() else { return };
    assert!(machine.guest().log_text().contains(SAYS));
    let output = machine.command("lsmod").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("kumiki_lab_test"));
}

#[test]
fn debian_13s_kernel_takes_a_module_built_by_its_own_compiler() {
    let Some(machine) = start("6.12") else { return };
    assert!(machine.guest().log_text().contains(SAYS));
    assert!(machine.kernel().version.starts_with("6.12."));
    machine.shut_down(0).unwrap();
}

#[test]
fn a_module_for_another_kernel_is_refused_before_the_start() {
    let modules = match with_module("6.12") {
        Ok((_, modules)) => modules,
        Err(error) if is_lack(&error) => return eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let kernel = "6.1".parse().unwrap();
    let config = Config { kernel, modules, ..config() };
    let error = Machine::start(&cache(), &config, talk()).expect_err("it is refused");
    if is_lack(&error) {
        return eprintln!("skipped: {error}");
    }
    assert!(matches!(error, Error::Module { .. }), "{error}");
    assert!(error.to_string().contains("built for the kernel `6.12"), "{error}");
}
