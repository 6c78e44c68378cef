//! What the texts of packages name is what there is: the kernel's modules, and what a server keeps.

use std::fs;

use crate::run::root;

/// Numbers as pages write them.
const NUMBERS: [&str; 13] = [
    "nought", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve",
];

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Modules, by what builds them.
fn modules() -> Vec<String> {
    let mut all = Vec::new();
    for folder in ["osnode", "parasc"] {
        let built = text(&format!("node/kernel/{folder}/Kbuild"));
        let list = built.lines().find_map(|line| line.strip_prefix("obj-m := ")).unwrap();
        all.extend(list.split_whitespace().map(|it| it.strip_suffix(".o").unwrap().to_owned()));
    }
    all.sort();
    all
}

/// The part of debian/control that is of a package.
fn package(name: &str) -> String {
    let control = text("debian/control");
    let mut parts = control.split("\n\n");
    let of = format!("Package: {name}\n");
    parts.find(|part| part.starts_with(&of)).unwrap_or_else(|| panic!("no {of}")).to_owned()
}

/// Words of a text that may be names of modules.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect()
}

#[test]
fn texts_of_packages_name_every_module() {
    let modules = modules();
    assert!(modules.len() >= 9, "{modules:?}");
    let (control, test) = (package("kumiki-dkms"), text("dev/ship/src/deb_test.rs"));
    for module in &modules {
        assert!(words(&control).contains(&&**module), "debian/control, kumiki-dkms: no {module}");
        let of_test = test.split("for module in").nth(1).and_then(|it| it.split("do").next());
        assert!(words(of_test.unwrap()).contains(&&**module), "deb_test.rs: no {module}");
    }
    let conf = text("node/kernel/dkms.conf");
    let names = conf.lines().filter(|line| line.starts_with("BUILT_MODULE_NAME"));
    let mut built: Vec<&str> = names.filter_map(|line| line.split('"').nth(1)).collect();
    built.sort_unstable();
    assert_eq!(built, modules, "dkms.conf");
    let said = format!("{} now", NUMBERS[modules.len()]);
    assert!(text("docs/installing.md").contains(&said), "docs/installing.md: {said}");
}

#[test]
fn the_package_of_the_store_says_what_it_keeps() {
    let package = package("kumiki-kv");
    let page = text("apps/kv/kumiki-kv.1");
    assert!(page.contains("\\-\\-durable"), "the manual page of what the package says");
    assert!(package.contains("--durable"), "{package}");
    assert!(text("apps/kv/systemd/kumiki-kv.service").contains("\nStateDirectory="));
}
